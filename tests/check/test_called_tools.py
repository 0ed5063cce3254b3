"""Which tools `accord check server` and `accord test` call, seen from inside the server."""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from accord import Server
from accord_tools.check.probing.tool_calls import split_name, tool_refusal
from support.command_line import command_line
from support.http_server import serving


def words(text):
    return text.split()


LOGGED = ["--", sys.executable, "-S", "-E", str(Path(__file__).parent / "logged_tools.py")]
# Without annotations: names that were called although they write.
WRITING = words(
    "add_note add_user format_disk eval_code resolve_ticket check_out request_time_off"
    " checkout_cart addTodo add_to_cart add_comment git_add resolve_incident evaluate_script"
    " check_in fetch_and_store translate_and_save get_and_lock list_for_sale sql_query"
    " add_issue_comment add_observations add_paragraph add_table format_text add_footnote_to_text"
    " add_task add_tag browser_eval compute"
)
# Without annotations: names that only read.
READING = ["get_user", "listItems", "ReadFile", "search.notes", "describe-table", "count"]
# With `readOnlyHint: true`: names with a noun that looks like a verb.
ANNOTATED = ["get_book", "get_post", "get_run", "view_charge", "get_update", "get_set", "add"]
# Annotations outweigh the name.
DENIED = {
    "get_state": {"readOnlyHint": False},
    "list_state": {"destructiveHint": True},
    "read_state": {"readOnlyHint": True, "destructiveHint": True},
    "find_state": {"readOnlyHint": False, "destructiveHint": False},
}
TOOLS = {
    **dict.fromkeys(WRITING),
    **dict.fromkeys(READING),
    **{key: {"readOnlyHint": True} for key in ANNOTATED},
    **DENIED,
}
COMMANDS = {
    "check": ["check", "server", "--revision", "2025-06-18", "--only", "tools"],
    "test": ["test", "--examples", "2"],
}


def run(command, target, tools=None, log=None, cwd=None):
    env = {"TOOLS": json.dumps(tools), "LOG": str(log)}
    words = target if isinstance(target, list) else [target]
    return command_line().run([*command, *words], cwd=cwd, env=env)


def calls_in(log):
    return Counter(log.read_text().split()) if log.exists() else Counter()


def logging_server(tools, called):
    server = Server("logged")

    def register(name, annotations):
        def tool(text: str = "") -> str:
            called[name] += 1
            return "done"

        server.tool(name=name, description=f"Log {name}.", annotations=annotations)(tool)

    for name, annotations in tools.items():
        register(name, annotations)
    return server


@pytest.mark.parametrize("command", COMMANDS)
def test_only_read_only_tools_of_a_launched_server_are_called(command, tmp_path):
    log = tmp_path / "log"
    done = run(COMMANDS[command], LOGGED, TOOLS, log)
    assert done.returncode == 0, done.stderr
    assert set(calls_in(log)) == {*READING, *ANNOTATED}


@pytest.mark.parametrize("command", COMMANDS)
def test_over_a_url_only_tools_with_a_read_only_hint_are_called(command):
    called = Counter()
    with serving(logging_server(TOOLS, called).asgi()) as port:
        done = run(COMMANDS[command], f"http://127.0.0.1:{port}/mcp")
    assert done.returncode in (0, 1), done.stderr
    assert set(called) == set(ANNOTATED)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--tool", "add_user"], {"add_user"}),
        (["--allow-writes"], {"add_user", "get_user", "find_state"}),
    ],
)
def test_over_a_url_the_user_may_allow_more_tools(command, options, expected):
    called = Counter()
    names = ["add_user", "get_user", "list_state", "find_state", "delete_user"]
    tools = {name: TOOLS.get(name) for name in names}
    with serving(logging_server(tools, called).asgi()) as port:
        run([*COMMANDS[command], *options], f"http://127.0.0.1:{port}/mcp")
    assert set(called) == expected


def test_annotations_of_the_newest_revision_count_in_the_one_without(tmp_path):
    log = tmp_path / "log"
    command = ["check", "server", "--revision", "2024-11-05", "--only", "tools"]
    tools = {"book": {"readOnlyHint": True}, "get_state": {"readOnlyHint": False}}
    run(command, LOGGED, tools, log)
    assert set(calls_in(log)) == {"book"}


# -- the plan


@pytest.mark.parametrize("command", COMMANDS)
def test_the_plan_is_reported_before_the_first_call(command, tmp_path):
    tools = {"get_user": None, "add_user": None}
    done = run(COMMANDS[command], LOGGED, tools, tmp_path / "log")
    first, second = done.stderr.splitlines()
    assert first.startswith("will call, each at most 150 times (--calls): get_user")
    assert second.startswith("will not call: add_user (it might change data (no readOnlyHint)")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("form", ["text", "json"])
def test_plan_alone_calls_no_tool(command, form, tmp_path):
    log = tmp_path / "log"
    tools = {"get_user": None, "add_user": None, "get_book": {"readOnlyHint": True}}
    options = ["--plan", "--calls", "7", "--format", form]
    done = run([*COMMANDS[command], *options], LOGGED, tools, log)
    assert (done.returncode, done.stderr) == (0, "")
    assert not log.exists()
    if form == "text":
        lines = done.stdout.splitlines()
        assert lines[0] == "will call, each at most 7 times (--calls): get_user, get_book"
        assert lines[1].startswith("will not call: add_user (")
    else:
        plan = json.loads(done.stdout)
        assert (plan["target"], plan["calls"]) == (" ".join(LOGGED[1:]), 7)
        assert plan["called"] == ["get_user", "get_book"]
        assert list(plan["not_called"]) == ["add_user"]


def test_plan_refuses_formats_other_than_text_and_json():
    done = run([*COMMANDS["check"], "--plan", "--format", "html"], LOGGED)
    assert (done.returncode, done.stdout) == (2, "")
    assert "text or json, not html" in done.stderr


@pytest.mark.parametrize(
    "form",
    [
        "text",
        "json",
        *(pytest.param(each, marks=pytest.mark.thorough) for each in ("markdown", "html")),
    ],
)
def test_the_report_names_the_tools_that_were_called_and_those_that_were_not(form, tmp_path):
    log = tmp_path / "log"
    tools = {"get_user": None, "add_user": None}
    done = run([*COMMANDS["check"], "--format", form], LOGGED, tools, log)
    made = calls_in(log)["get_user"]
    if form == "json":
        shown = json.loads(done.stdout)
        assert (shown["calls"], shown["called"]) == (150, {"get_user": made})
        assert "it might change data (no readOnlyHint)" in shown["not_called"]["add_user"]
    else:
        told = done.stdout.replace("\\_", "_")
        assert f"calls, at most 150 of each tool: get_user ({made})" in told
        assert "not called: add_user (it might change data (no readOnlyHint)" in told


# -- the number of calls


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("calls", [0, 1, 3])
def test_no_tool_gets_more_calls_than_allowed(command, calls, tmp_path):
    log = tmp_path / "log"
    tools = {"get_user": None, "get_book": {"readOnlyHint": True}}
    options = ["--calls", str(calls), "--format", "json"]
    done = run([*COMMANDS[command], *options], LOGGED, tools, log)
    assert done.returncode == 0, done.stdout
    assert calls_in(log) == Counter({"get_user": calls, "get_book": calls})
    shown = json.loads(done.stdout)
    assert shown["calls"] == calls


def test_a_check_of_all_revisions_respects_the_limit_of_calls_and_reports_what_it_left_out(
    tmp_path,
):
    log = tmp_path / "log"
    options = ["check", "server", "--calls", "5", "--format", "json"]
    done = run(options, LOGGED, {"get_user": None}, log)
    assert calls_in(log) == {"get_user": 5}
    shown = json.loads(done.stdout)
    assert {each["verdict"] for each in shown["results"]} <= {
        "pass",
        "not-exercised",
        "not-applicable",
        "warn",
    }
    left_out = [
        each["id"]
        for each in shown["results"]
        if each["verdict"] == "not-exercised" and "are used up (--calls 5)" in each["message"]
    ]
    assert {"tools.server.validates-inputs", "tools.call.structured-conforms"} <= set(left_out)


def test_a_check_over_http_respects_the_limit_of_calls():
    called = Counter()
    tools = {"get_user": {"readOnlyHint": True}}
    with serving(logging_server(tools, called).asgi()) as port:
        command = ["check", "server", "--calls", "4"]
        done = run(command, f"http://127.0.0.1:{port}/mcp")
    assert called == {"get_user": 4}
    assert "FAIL" not in done.stdout


def test_a_failing_input_is_made_smaller_only_while_there_are_calls():
    loose = Path(__file__).parent / "contract" / "loose.py"
    command = ["test", "--calls", "30", "--format", "json", "--", sys.executable, str(loose)]
    done = run(command, "misfit")
    assert done.returncode == 1
    shown = json.loads(done.stdout)
    assert shown["called"] == {"count": 30}
    verdicts = {each["name"]: each["verdict"] for each in shown["tests"]}
    assert verdicts["count answers valid arguments"] == "fail"
    assert verdicts["count refuses an unknown argument"] == "skip"


def test_calls_of_cases_are_made_and_counted(tmp_path):
    log = tmp_path / "log"
    cases = tmp_path / "cases.toml"
    cases.write_text(
        '[[case]]\nname = "one"\ncall = "add_user"\n[[case]]\nname = "two"\ncall = "get_user"\n'
    )
    command = ["test", "--cases", str(cases), "--format", "json"]
    tools = {"get_user": None, "add_user": None}
    done = run([*command, "--calls", "3"], LOGGED, tools, log)
    assert calls_in(log) == {"add_user": 1, "get_user": 3}
    verdicts = {each["name"]: each["verdict"] for each in json.loads(done.stdout)["tests"]}
    assert (verdicts["one"], verdicts["two"]) == ("pass", "pass")
    log.unlink()
    done = run([*command, "--calls", "0", "--only-cases"], LOGGED, tools, log)
    assert not log.exists()
    assert {each["verdict"] for each in json.loads(done.stdout)["tests"]} == {"skip"}


# -- the decision


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("get_user", ["get", "user"]),
        ("get-user", ["get", "user"]),
        ("getUser", ["get", "user"]),
        ("GetUser", ["get", "user"]),
        ("get.user", ["get", "user"]),
        ("get2users", ["get", "2", "users"]),
        ("getHTTPResponse", ["get", "http", "response"]),
        ("GETUser", ["get", "user"]),
        ("LIST_ALL", ["list", "all"]),
        ("notes/getAndLock", ["notes", "get", "and", "lock"]),
        ("", []),
    ],
)
def test_a_tool_name_is_split_into_words(name, words):
    assert split_name(name) == words


@pytest.mark.parametrize(
    "name",
    ["getAndLock", "get2lock", "findOrCreate", "listen", "getaway", "get_löschen", "gеt_user", ""],
)
def test_a_tool_whose_name_does_not_promise_reading_is_refused(name):
    assert tool_refusal({"name": name}) is not None


@pytest.mark.parametrize("hint", ["true", 1, "", {}])
def test_only_a_read_only_hint_of_true_allows_a_call(hint):
    assert tool_refusal({"name": "get_user", "annotations": {"readOnlyHint": hint}}) is not None


def test_a_tool_that_is_listed_twice_is_refused_if_either_entry_is():
    from accord_tools.check.probing.server_facts import ServerFacts

    facts = ServerFacts(revision="2025-06-18", transport="stdio")
    facts.tools = [
        {"name": "get_user", "inputSchema": {"type": "object"}},
        {
            "name": "get_user",
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": False},
        },
    ]
    facts.decide_calls()
    assert facts.callable_tools() == []


# -- how the calls were answered

FAILING = """
import sys
from accord import Server, ToolError

server = Server("shop")


@server.tool(annotations={"readOnlyHint": True})
def get_order(order_id: str) -> str:
    \"\"\"Get an order.\"\"\"
    return {}[order_id]


@server.tool(annotations={"readOnlyHint": True})
def list_orders() -> str:
    \"\"\"List the orders.\"\"\"
    return "none"
"""


@pytest.fixture
def failing(tmp_path):
    path = tmp_path / "shop.py"
    path.write_text(FAILING)
    return path


def test_a_check_counts_the_answers_and_warns_of_a_tool_that_never_succeeds(failing, tmp_path):
    files = [tmp_path / name for name in ("out.json", "out.xml", "out.txt", "out.html")]
    command = ["check", "server", "--revision", "2025-06-18", "--only", "tools.call"]
    done = run([*command, *(word for file in files for word in ("--output", file))], failing)
    assert done.returncode == 0
    shown = json.loads(files[0].read_text())
    order, listed = shown["tools"]
    assert (order["name"], order["succeeded"], listed["name"]) == ("get_order", 0, "list_orders")
    assert order["calls"] >= order["refused"] > 0
    assert listed["calls"] >= listed["succeeded"] > 0
    assert shown["called"] == {each["name"]: each["calls"] for each in shown["tools"]}
    xml = files[1].read_text()
    assert 'name="get_order: ' in xml
    assert "warning: no call succeeded" in xml
    text = files[2].read_text()
    assert "no call of get_order succeeded" in text
    assert "result: passed with warnings" in text
    assert "no call of get_order succeeded" in files[3].read_text()


def test_the_tests_count_the_answers_in_every_format(failing, tmp_path):
    files = [tmp_path / name for name in ("out.json", "out.xml", "out.txt")]
    command = ["test", "--examples", "2"]
    done = run([*command, *(word for file in files for word in ("--output", file))], failing)
    assert done.returncode == 0
    assert "1 warning; " in done.stdout
    report = json.loads(files[0].read_text())
    order = report["tools"][0]
    assert (order["name"], order["succeeded"]) == ("get_order", 0)
    assert order["calls"] == order["refused"] == report["called"]["get_order"]
    (warned,) = (each for each in report["tests"] if "warning" in each)
    assert warned["name"] == "get_order succeeds for some arguments"
    assert "warning: none of" in files[1].read_text()
    line = f"get_order: {order['calls']} calls, 0 succeeded, {order['calls']} refused\n"
    assert line in files[2].read_text()
