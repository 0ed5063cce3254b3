"""Files of cases: read, refused with the line of the mistake, and run."""

import json
import sys
from pathlib import Path

import pytest

from accord import Server
from accord.errors import AccordError
from accord_tools.contract.cases import (
    CaseError,
    case_test,
    read_cases,
    resolve_target,
    rules_of,
    server_of,
)
from accord_tools.contract.runner import plan_tests
from accord_tools.contract.tested_server import TestedServer

LOOSE = Path(__file__).parent / "loose.py"
GOOD = """
target = "desk.py:server"
timeout = 2
tools = ["count"]

[[case]]
name = "counts"
call = "count"
arguments = { a = 3 }
expect = { structured = { n = 3 }, within = 2 }

[[case]]
name = "reads"
read = "note://1"
"""
CASE = '[[case]]\nname = "one"\ncall = "count"\n'
MISTAKES = {
    "syntax": ("[[case]\nname = 1", ":1: expected ']]' at the end of an array declaration"),
    "no table": ("case = 1", ": case is not a list; write [[case]] with two brackets"),
    "unknown setting": ("targte = 'x'", " has no key targte; did you mean target?"),
    "setting of a wrong type": ("timeout = 'x'", ": timeout is a text, expected a number"),
    "name misspelt": (
        '\n[[case]]\nnme = "x"\ncall = "x"',
        ":2: case 1 has no key nme; did you mean name?",
    ),
    "no name": ('\n[[case]]\ncall = "x"', ":2: case 1 has no name"),
    "nothing to ask": ('[[case]]\nname = "n"', ":1: case 'n' has nothing to ask; expected one of"),
    "two things": (f'{CASE}read = "x://y"', ":1: case 'one' has both call and read; expected one"),
    "unknown key": (f"{CASE}zzz = {{}}", ":1: case 'one' has no key zzz; known: call, read"),
    "near key": (
        f"{CASE}expects = {{}}",
        ":1: case 'one' has no key expects; did you mean",
    ),
    "unknown expectation": (
        f'{CASE}expect = {{ contain = "x" }}',
        ":1: case 'one': expect has no key contain; did you mean contains?",
    ),
    "wrong type": (
        f"{CASE}expect = {{ code = 'x' }}",
        ":1: case 'one': expect.code is a text, expected a whole number",
    ),
    "bad pattern": (
        f"{CASE}expect = {{ matches = '(' }}",
        ":1: case 'one': matches is not a regular expression: missing ), unterminated subpattern",
    ),
    "two of a name": (f"{CASE}\n{CASE}", ":5: there are two cases 'one'"),
    "arguments of a resource": (
        '[[case]]\nname = "n"\nread = "x://y"\narguments = { a = 1 }',
        ":1: case 'n': a resource takes no arguments; write them into the URI",
    ),
    "structure of a prompt": (
        '[[case]]\nname = "n"\nprompt = "p"\nexpect = { partly = {} }',
        ":1: case 'n': only a tool has a structured result",
    ),
    "offers without a kind": (
        '[[case]]\nname = "n"\noffers = "count"',
        ":1: case 'n': offers is a kind and a name; the kinds are tool, resource, template, prompt",
    ),
    "offers with an expectation": (
        '[[case]]\nname = "n"\noffers = "tool count"\nexpect = { text = "x" }',
        ":1: case 'n': a case with offers has neither arguments nor expect",
    ),
    "number for a prompt": (
        '[[case]]\nname = "n"\nprompt = "p"\narguments = { a = 1 }',
        ":1: case 'n': arguments of a prompt must be strings",
    ),
}
# An expectation that does not hold, and the report.
UNMET = {
    "text": ({"text": "3"}, 'expected: the text "3"', 'received: "{\\"n\\": 3}"'),
    "contains": ({"contains": ["n", "x"]}, 'a text that contains "x"', "received:"),
    "matches": ({"matches": "^n"}, "a text that matches ^n", "received:"),
    "structured": ({"structured": {"n": 4}}, 'the structured content {"n": 4}', '{"n": 3}'),
    "a flag for a number": ({"partly": {"n": True}}, "with n = true", '{"n": 3}'),
    "partly": ({"partly": {"m": {"x": 1}}}, "an object as m", '{"n": 3}'),
    "an error": ({"error": True}, "expected: an error", "received:"),
    "a code": ({"code": -32602}, "expected: an error", "received:"),
    "time": ({"within": 0}, "an answer within 0 s", "one after 0."),
}


LISTED = """
call = "nosuch"
expect = { error = true }
"""
SEQUENCE = """
[[case.steps]]
call = "count"
arguments = { a = 3 }
save = { n = "structuredContent.n", text = "content[0].text" }

[[case.steps]]
call = "count"
arguments = { a = "${n}" }
expect = { structured = { n = "${n}" } }

[[case.steps]]
read = "note://${n}"
expect = { code = -32602, error = "no such" }
"""


def file_with(tmp_path, text, name="cases.toml"):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


def test_a_file_of_cases_is_read(tmp_path):
    file = read_cases(file_with(tmp_path, GOOD))
    assert [each.name for each in file.case] == ["counts", "reads"]
    assert file.case[0].arguments == {"a": 3}
    assert rules_of(file).tools == {"count"}


def test_yaml_and_toml_give_the_same_cases(tmp_path):
    text = "target: desk.py\ncase:\n  - name: counts\n    call: count\n    arguments: {a: 3}\n"
    file = read_cases(file_with(tmp_path, text, "cases.yaml"))
    assert (file.target, file.case[0].arguments) == ("desk.py", {"a": 3})


def test_a_mistake_in_yaml_names_the_line(tmp_path):
    path = file_with(tmp_path, "target: x\ncase: [", "cases.yml")
    with pytest.raises(CaseError, match=r"cases\.yml:2: "):
        read_cases(path)
    path = file_with(tmp_path, "case:\n  - name: n\n    calls: x\n", "cases.yml")
    with pytest.raises(CaseError, match=r"cases\.yml:2: case 'n' has no key calls; did you mean"):
        read_cases(path)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_names_its_line(tmp_path, mistake):
    text, said = MISTAKES[mistake]
    path = file_with(tmp_path, text)
    with pytest.raises(CaseError) as raised:
        read_cases(path)
    assert str(raised.value).lower().startswith(f"{path}{said}".lower())


def test_a_missing_or_binary_file_is_reported(tmp_path):
    with pytest.raises(CaseError, match="No such file"):
        read_cases(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(CaseError, match="not UTF-8"):
        read_cases(tmp_path / "bytes.toml")


@pytest.fixture(scope="module")
def server():
    with TestedServer([sys.executable, "-S", "-E", str(LOOSE)], patience=5) as found:
        yield found


def outcome_of(server, tmp_path, lines):
    path = file_with(tmp_path, '[[case]]\nname = "it"\n' + lines)
    (case,) = read_cases(path).case
    return case_test(case).run(server)


@pytest.mark.parametrize(
    "lines",
    [
        'call = "count"\narguments = { a = 3 }\nexpect = { text = \'{"n": 3}\' }',
        'call = "count"\narguments = { a = 3 }\nexpect = { contains = "3", matches = "^.*3.$" }',
        'call = "count"\narguments = { a = 3 }\nexpect = { structured = { n = 3.0 } }',
        'call = "count"\narguments = { a = 3 }\nexpect = { partly = {}, within = 5 }',
        'call = "count"\narguments = { a = 333 }\nexpect = { error = "no" }',
        'call = "count"\narguments = { a = 333 }\nexpect = { error = true, text = "no" }',
        'read = "note://1"\nexpect = { text = "a note" }',
        'read = "note://2"\nexpect = { code = -32602, error = "no such" }',
        'prompt = "hello"\narguments = { name = "Ada" }\nexpect = { text = "hello Ada" }',
        'offers = "tool count"',
        'offers = "resource note://1"',
        'offers = "prompt hello"',
        'call = "count"\narguments = { a = 3 }\nexpect = { not_empty = true }',
        'read = "note://1"\nexpect = { not_empty = "contents[0].text" }',
        'prompt = "hello"\narguments = { name = "Ada" }\nexpect = { not_empty = true }',
        'call = "count"\narguments = { a = 3 }\nexpect = { at = { "structuredContent.n" = 3 } }',
        'read = "note://1"\nexpect = { at = { "contents[*].uri" = "note://1" } }',
        'call = "count"\narguments = { a = 3 }\nexpect = { not = { contains = ["4", "error"] } }',
        'call = "count"\narguments = { a = 333 }\nexpect = { error = "no", not = { text = "x" } }',
    ],
    ids=lambda lines: lines.partition("\n")[2].replace("\n", " ") or lines,
)
def test_a_case_whose_expectations_hold_passes(server, tmp_path, lines):
    assert outcome_of(server, tmp_path, lines).verdict == "pass"


@pytest.mark.parametrize("name", UNMET)
def test_a_broken_expectation_shows_what_the_server_sent(server, name):
    from accord_tools.contract.cases import Case, Expectation

    expect, *said = UNMET[name]
    case = Case(name="it", call="count", arguments={"a": 3}, expect=Expectation(**expect))
    text = case_test(case).run(server).failure.text()
    assert 'sent:     count {"a": 3}' in text
    for each in said:
        assert each in text


def test_an_unexpected_error_fails_the_case(server, tmp_path):
    outcome = outcome_of(server, tmp_path, 'read = "note://2"')
    assert "expected: no error\nreceived: error -32602: no such note" in outcome.failure.text()
    outcome = outcome_of(server, tmp_path, 'read = "note://2"\nexpect = { code = -32002 }')
    assert "expected: error -32002\nreceived: error -32602" in outcome.failure.text()
    outcome = outcome_of(server, tmp_path, 'read = "note://2"\nexpect = { error = "gone" }')
    assert "expected: an error that contains 'gone'" in outcome.failure.text()


def test_an_entry_that_is_not_offered_fails_the_case_and_shows_those_that_are(server, tmp_path):
    text = outcome_of(server, tmp_path, 'offers = "prompt goodbye"').failure.text()
    assert "sent:     a list of prompts\nexpected: the prompt goodbye\nreceived: hello" in text
    with TestedServer(Server("plain")) as plain:
        text = outcome_of(plain, tmp_path, 'offers = "template note://{id}"').failure.text()
    assert "received: nothing" in text


def test_an_undeclared_capability_fails_the_case_and_not_the_run(tmp_path):
    with TestedServer(Server("plain")) as plain:
        outcome = outcome_of(plain, tmp_path, 'read = "note://1"')
    assert "received: resources/read needs the capability resources" in outcome.failure.text()


def test_a_target_is_found_beside_its_file(tmp_path):
    path = file_with(tmp_path, "")
    file_with(tmp_path, "", "desk.py")
    assert resolve_target("desk.py", path) == str(tmp_path / "desk.py")
    assert resolve_target("desk.py:made", path) == f"{tmp_path / 'desk.py'}:made"
    assert resolve_target("package.module:server", path) == "package.module:server"
    assert resolve_target("http://127.0.0.1:8000/mcp", path) == "http://127.0.0.1:8000/mcp"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no server; expected target"),
        ("target = 'x'\ncommand = ['y']", "names no server; expected target"),
        ("target = 'x'\ntransport = 'pigeon'", "transport is 'pigeon', expected stdio"),
        ("target = 'x'\nrevision = '1999-01-01'", "revision is '1999-01-01', expected one of"),
        ("target = 'none.py'\ntransport = 'memory'", "in memory a target is a Python file"),
        ("target = 'two.py'\ntransport = 'memory'", "has 2 servers, expected one"),
    ],
)
def test_a_file_with_unusable_server_options_is_refused(tmp_path, text, said):
    file_with(tmp_path, "from accord import Server\na, b = Server('a'), Server('b')", "two.py")
    path = file_with(tmp_path, text)
    with pytest.raises(CaseError, match=said):
        server_of(read_cases(path), path)


def test_a_server_named_in_a_file_runs_in_memory(tmp_path):
    file_with(tmp_path, "from accord import Server\na, b = Server('a'), Server('b')", "two.py")
    path = file_with(tmp_path, "target = 'two.py:b'\ntransport = 'memory'")
    with server_of(read_cases(path), path) as server:
        assert server.client.server_info.name == "b"


# -- tools that are not listed


def test_a_case_of_a_tool_that_is_not_listed_fails_unless_it_is_about_that(server, tmp_path):
    text = outcome_of(server, tmp_path, LISTED).failure.text()
    assert "expected: a listed tool nosuch\nreceived: count, delete_all; {" in text
    about = 'call = "nosuch"\nexpect = { error = "no" }'
    assert outcome_of(server, tmp_path, about).verdict == "pass"


# -- several requests in one case


def test_a_step_uses_what_an_earlier_one_saved(server, tmp_path):
    outcome = outcome_of(server, tmp_path, SEQUENCE)
    assert (outcome.verdict, outcome.calls) == ("pass", 3)


def test_a_failing_step_is_named_with_what_was_sent(server, tmp_path):
    lines = SEQUENCE.replace("structured = {", "partly = { m = 1,")
    text = outcome_of(server, tmp_path, lines).failure.text()
    assert 'sent:     step 2: count {"a": 3}' in text
    lines = SEQUENCE.replace("structuredContent.n", "structuredContent.m")
    text = outcome_of(server, tmp_path, lines).failure.text()
    assert "expected: a value at structuredContent.m, to save as n" in text


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (SEQUENCE.replace("${n}", "${m}"), "step 2: no earlier step saves m"),
        (SEQUENCE.replace("content[0]", "content[x]"), "'content[x].text' is not a path"),
        (SEQUENCE.replace("read =", "reed ="), "step 3 has no key reed; did you mean read?"),
        (f'call = "count"{SEQUENCE}', "has both call and steps; expected one of"),
        (f"arguments = {{ a = 1 }}{SEQUENCE}", "arguments, expect and snapshot belong to its"),
        ('call = "count"\nsave = { n = "content" }', "save belongs to a step"),
        ('call = "count"\nexpect = { not = { textt = "" } }', "expect.not has no key textt; did"),
        ('call = "count"\nexpect = { not = { code = 1 } }', "not cannot have not, error, code"),
        ('call = "count"\nexpect = { at = { "a..b" = 1 } }', "'a..b' is not a path"),
        ('call = "count"\norigin = ["a", "b"]', "has no key origin"),
    ],
)
def test_a_mistake_in_steps_and_paths_is_refused(tmp_path, lines, said):
    path = file_with(tmp_path, '[[case]]\nname = "it"\n' + lines)
    with pytest.raises(CaseError) as raised:
        read_cases(path)
    assert said in str(raised.value)


def test_the_calls_of_all_steps_are_reserved(tmp_path):
    path = file_with(tmp_path, '[[case]]\nname = "it"\n' + SEQUENCE)
    with TestedServer(Server("plain")) as plain:
        _, plan = plan_tests(plain, None, read_cases(path).case, calls=2)
    assert plan.cases == {"count": 2}


# -- results that are kept


def kept(tmp_path):
    return json.loads((tmp_path / "cases.snapshots.json").read_text())


def test_a_result_is_compared_with_the_one_that_was_kept(server, tmp_path):
    lines = 'call = "count"\narguments = { a = 3 }\nsnapshot = true'
    text = outcome_of(server, tmp_path, lines).failure.text()
    assert "--update-snapshots writes it\nreceived: no earlier result" in text
    server.updates_snapshots = True
    try:
        assert outcome_of(server, tmp_path, lines).verdict == "pass"
    finally:
        server.updates_snapshots = False
    assert kept(tmp_path)["it"]["1"]["structuredContent"] == {"n": 3}
    assert outcome_of(server, tmp_path, lines).verdict == "pass"
    changed = lines.replace("3", "4")
    text = outcome_of(server, tmp_path, changed).failure.text()
    assert '"n": 3' in text
    assert '"n": 4' in text
    excluded = 'snapshot = { without = ["structuredContent.n", "content[*].text"] }'
    without = changed.replace("snapshot = true", excluded)
    assert outcome_of(server, tmp_path, without).verdict == "pass"


def test_a_broken_file_of_snapshots_is_an_error(server, tmp_path):
    (tmp_path / "cases.snapshots.json").write_text("[]")
    lines = 'call = "count"\narguments = { a = 3 }\nsnapshot = true'
    with pytest.raises(AccordError, match="is not a file of snapshots"):
        outcome_of(server, tmp_path, lines)
