"""Servers of entries, launched and reached as their host would."""

import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from accord import Server
from accord_tools.hosts.definition import EntryShape, PlaceholderForms
from support.certificates import self_signed
from support.checked_hosts import DESKTOP, PYTHON, TINY, URL, check, config_at, machine_at
from support.http_server import bounded, free_port, serving
from support.waiting import until_sync

ROOT = Path(__file__).parents[2]


def tiny(text=TINY, **env):
    program, *options = PYTHON
    entry = {"command": program, "args": [*options, "-c", text]}
    return {**entry, "env": env} if env else entry


def codes(report):
    return {each.code: each for each in report.findings}


def test_a_launched_server_is_reported_with_its_lists(tmp_path):
    args = ["-P", "-m", "accord", "run", str(ROOT / "examples" / "ten_lines.py")]
    entry = {"command": sys.executable, "args": args, "env": {"PYTHONPATH": str(ROOT / "src")}}
    report = check(tmp_path, entry)
    assert report.findings == ()
    facts = report.launched
    assert (facts.server, facts.version, facts.transport) == ("adder", "0.0.0", "stdio")
    assert facts.counts == {"tools": 1}
    assert facts.revision == "2025-11-25"
    assert facts.milliseconds > 0
    assert report.entry.command[0] == sys.executable


def test_a_server_of_the_newest_revision_alone_needs_no_handshake(tmp_path):
    file = tmp_path / "modern.py"
    file.write_text(
        "from accord import Server\nServer('modern', revisions=['2026-07-28']).run('stdio')\n"
    )
    env = {"PYTHONPATH": str(ROOT / "src")}
    report = check(tmp_path, {"command": sys.executable, "args": [str(file)], "env": env})
    assert report.findings == ()
    assert (report.launched.server, report.launched.revision) == ("modern", "2026-07-28")


def test_a_server_gets_the_environment_of_its_host_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("ONLY_OF_THE_TESTS", "1")
    text = TINY.replace("os.environ.get(", "','.join(sorted(os.environ)) or str(")
    machine = machine_at(tmp_path, LANG="C.UTF-8", MINE="2")
    report = check(tmp_path, tiny(text, GIVEN="3"), machine=machine)
    names = set(report.launched.server.split(","))
    assert names - {"LC_CTYPE"} == {"GIVEN", "HOME", "LANG", "PATH", "TMPDIR"}


def test_a_missing_module_is_the_fault_of_the_machine(tmp_path):
    finding = codes(check(tmp_path, tiny("import no_such_module")))["server-exited"]
    assert finding.blame == "machine"
    assert "no_such_module" in finding.message
    assert "install the missing module" in finding.change


def test_a_server_that_ends_shows_its_last_lines_without_secrets(tmp_path):
    text = "import os, sys; sys.exit('refused: ' + os.environ['API_KEY'])"
    report = check(tmp_path, tiny(text, API_KEY="abcdef-123456"))
    finding = codes(report)["server-exited"]
    assert "refused: masked-0" in finding.message
    assert report.launched.stderr == ("refused: masked-0",)
    assert "123456" not in repr(report.findings)


def test_notices_of_package_managers_do_not_hide_the_reason(tmp_path):
    lines = "the reason\nnpm notice one\nnpm notice two\nnpm notice three\n"
    text = f"import sys; sys.stderr.write({lines!r}); sys.exit(1)"
    assert codes(check(tmp_path, tiny(text)))["server-exited"].message.endswith(
        "; stderr: the reason"
    )


def test_a_silent_server_ends_with_all_that_it_started(tmp_path):
    file = tmp_path / "pid"
    text = (
        "import os, subprocess, sys, time\n"
        f"child = subprocess.Popen(['sleep', '600'], stdin=subprocess.DEVNULL)\n"
        f"open({str(file)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)"
    )
    report = check(tmp_path, tiny(text), seconds=5.0)
    finding = codes(report)["server-silent"]
    assert "no answer to the handshake within 5 s" in finding.message
    pid = int(file.read_text())
    until_sync(lambda: not is_running(pid))


def test_a_program_that_downloads_may_only_need_more_time(tmp_path):
    program = tmp_path / "npx"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    finding = codes(check(tmp_path, {"command": str(program)}, seconds=1.0))["server-silent"]
    assert "first start downloads" in finding.change


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_noise_and_broken_rules_are_the_fault_of_the_server(tmp_path):
    text = "print('hello', flush=True)\n" + TINY.replace('"name": "a", ', "")
    found = codes(check(tmp_path, tiny(text)))
    assert "'hello'" in found["stdout-noise"].message
    assert found["rule-broken"].message.startswith("tools.")
    assert {each.blame for each in found.values()} == {"server"}


def test_a_refused_handshake_and_a_failing_list_are_reported(tmp_path):
    refused = TINY.replace('"result": answer', '"error": {"code": -32603, "message": "not today"}')
    finding = codes(check(tmp_path, tiny(refused)))["handshake-refused"]
    assert finding.message == "initialize: error -32603, not today"
    failing = TINY.replace(
        "    print(json",
        "    if asked['method'] == 'tools/list':\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'],"
        " 'error': {'code': -32603, 'message': 'no list'}}), flush=True)\n"
        "        continue\n"
        "    print(json",
    )
    report = check(tmp_path, tiny(failing))
    assert codes(report)["list-failed"].message == "tools/list: error -32603, no list"
    assert report.launched.server == "tiny"


@pytest.mark.parametrize(
    ("entry", "scope", "why"),
    [
        ({**tiny("x"), "disabled": True}, "user", "it is switched off"),
        ({"command": "/no/such/program"}, "user", "its host does not get that far"),
        (tiny("x"), "project", "it is of a project's file, which others may have written"),
        (
            tiny("x", A="${input:token}"),
            "user",
            "its host asks for a value; set ACCORD_INPUT_TOKEN",
        ),
    ],
)
def test_some_servers_are_not_launched(tmp_path, entry, scope, why):
    shape = EntryShape(members={**DESKTOP.stdio.members, "disabled": "disabled"})
    forms = PlaceholderForms(input="${input:NAME}")
    host = replace(DESKTOP, stdio=shape, placeholders=forms)
    report = check(tmp_path, entry, host, scope=scope)
    assert report.launched is None
    assert why in codes(report)["launch-skipped"].message


def test_a_server_of_a_project_is_launched_if_that_is_allowed(tmp_path):
    report = check(tmp_path, tiny(), scope="project", granted=())
    assert (report.launched.server, report.worst) == ("tiny", None)


def test_an_input_may_be_given_for_a_check(tmp_path):
    host = replace(DESKTOP, placeholders=PlaceholderForms(input="${input:NAME}"))
    machine = machine_at(tmp_path, ACCORD_INPUT_NAME_ID="given")
    report = check(tmp_path, tiny(TINY_NAME="${input:name-id}"), host, machine=machine)
    assert report.launched.server == "given"


def test_a_deep_check_adds_score_and_failures(tmp_path):
    report = check(tmp_path, tiny(), deep=True)
    assert report.launched.score is not None
    assert report.launched.failed
    assert all(each.blame == "server" for each in report.findings)


# -- URLs


def app():
    server = Server("remote")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return server.asgi()


def test_a_server_at_a_url_is_reached(tmp_path):
    with bounded(app()) as port:
        report = check(tmp_path, {"url": f"http://127.0.0.1:{port}/mcp"})
        wrong = check(tmp_path, {"url": f"http://127.0.0.1:{port}/other"})
    assert report.findings == ()
    assert (report.launched.server, report.launched.counts) == ("remote", {"tools": 1})
    assert report.launched.transport == "http"
    assert "url-refused" in codes(wrong)


def test_a_url_where_nothing_listens_is_unreachable(tmp_path):
    report = check(tmp_path, {"url": f"http://127.0.0.1:{free_port()}/mcp"})
    finding = codes(report)["url-unreachable"]
    assert finding.blame == "machine"


def test_a_certificate_that_is_not_trusted_is_the_fault_of_the_machine(tmp_path):
    certificate, key = self_signed(tmp_path)
    options = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    with serving(app(), **options) as port:
        report = check(tmp_path, {"url": f"https://localhost:{port}/mcp"})
    finding = codes(report)["url-unreachable"]
    assert "certificate" in finding.message
    assert finding.change == "trust its certificate on this machine, or renew it"


def test_a_server_that_wants_a_sign_in_is_only_noted(tmp_path):
    async def locked(scope, receive, send):
        if scope["type"] == "http":
            head = {"type": "http.response.start", "status": 401, "headers": []}
            await send(head)
            await send({"type": "http.response.body", "body": b""})

    with serving(locked, lifespan="off") as port:
        report = check(tmp_path, {"url": f"http://127.0.0.1:{port}/mcp"})
    assert (report.worst, report.launched.needs_sign_in) == ("note", True)
    assert "sign-in" in codes(report)


def test_the_older_form_of_http_is_recognised_and_the_entry_mended(tmp_path):
    typed = {form: replace(URL, constants={"type": form}) for form in ("http", "sse")}
    host = replace(DESKTOP, http=typed["http"], sse=typed["sse"])
    server = Server("older")
    with bounded(server.asgi(sse=True)) as port:
        entry = {"type": "http", "url": f"http://127.0.0.1:{port}/sse"}
        finding = codes(check(tmp_path, entry, host))["url-form"]
        file = config_at(tmp_path, {"desk": entry}, host)
        changed = json.loads(finding.repair.compute(file.path.read_bytes()))["mcpServers"]["desk"]
        assert changed == {**entry, "type": "sse"}
        report = check(tmp_path, changed, host)
        free = check(tmp_path, {"url": entry["url"]})  # a host that finds it out by itself
    assert (free.findings, free.launched.transport) == ((), "sse")
    assert report.findings == ()
    assert (report.launched.server, report.launched.transport) == ("older", "sse")
