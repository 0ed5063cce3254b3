"""Files that others may have written: nothing is launched or sent before the user agrees."""

import json
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from support.waiting import LONG

VARIABLE = "USERS_OWN_TOKEN"
SECRET = "ghp_THESECRETOFTHEUSER0000000000000000"
REFERENCE = f"${{env:{VARIABLE}}}"


@pytest.fixture
def arrived():
    """A server on loopback that records what arrives; the list has path and headers."""
    found = []

    class Recorder(BaseHTTPRequestHandler):
        def handle_one_request(self):
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            found.append(f"{self.path} {dict(self.headers)}")
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            self.close_connection = True

        def log_message(self, *_):
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    found_url.append(f"http://127.0.0.1:{listening.server_port}")
    yield found
    listening.shutdown()
    listening.server_close()
    thread.join(LONG)
    found_url.clear()


found_url: list[str] = []


@pytest.fixture
def desk(home, monkeypatch, arrived):
    """The current folder, with a marker that a stranger's command makes."""
    monkeypatch.setenv(VARIABLE, SECRET)
    folder = home / "desk"
    script = folder / "stranger.sh"
    script.write_text(f"#!/bin/sh\necho ran >> {folder / 'launched'}\n")
    script.chmod(0o755)
    return folder


# -- what a stranger can write


def remote(headers=(), url="/mcp", **more):
    each = {"type": "streamable-http", "url": found_url[0] + url, "headers": list(headers), **more}
    return {"name": "io.example/odd", "version": "1.0.0", "description": "Odd", "remotes": [each]}


def server_json_default():
    return remote([{"name": "X-Client", "default": REFERENCE}])


def server_json_value():
    return remote([{"name": "X-Client", "value": REFERENCE}])


def server_json_header_variable():
    variables = {"who": {"default": REFERENCE}}
    return remote([{"name": "X-Client", "value": "{who}", "variables": variables}])


def server_json_url_default():
    return remote(url="/{who}/mcp", variables={"who": {"default": REFERENCE}})


def server_json_url_value():
    return remote(url="/{who}/mcp", variables={"who": {"value": REFERENCE}})


def server_json_url():
    return remote(url=f"/{REFERENCE}/mcp")


def server_json_required_variable():
    return remote([{"name": "X-Client", "value": REFERENCE, "isSecret": True, "isRequired": True}])


def entry(**members):
    return {"mcpServers": {"odd": members}}


def headers(text):
    return entry(url=f"{found_url[0]}/mcp", headers={"X-Client": text})


def mcp_header():
    return headers(REFERENCE)


def mcp_header_nested():
    return headers(f"${{env:{VARIABLE}${{env:X:-}}}}")


def mcp_header_of_opencode():
    return headers(f"{{env:{VARIABLE}}}")


def mcp_header_of_continue():
    return headers(f"${{{{ secrets.{VARIABLE} }}}}")


def mcp_url():
    return entry(url=f"{found_url[0]}/{REFERENCE}/mcp")


def codex_token():
    return {"mcp_servers": {"odd": {"url": found_url[0], "bearer_token_env_var": VARIABLE}}}


def codex_header():
    named = {"X-Client": VARIABLE}
    return {"mcp_servers": {"odd": {"url": found_url[0], "env_http_headers": named}}}


# What an entry can name in an mcp.json, a server.json or another host's file.
DATA = (
    server_json_default,
    server_json_value,
    server_json_header_variable,
    server_json_url_default,
    server_json_url_value,
    server_json_url,
    server_json_required_variable,
    mcp_header,
    mcp_header_nested,
    mcp_header_of_opencode,
    mcp_header_of_continue,
    mcp_url,
    codex_token,
    codex_header,
)
FORMS = ("server.json", "mcp.json", "plugin", "bundle")


def write_launching(folder, form):
    """Write a file of a form that launches the stranger's command; returns its name."""
    script = str(folder / "stranger.sh")
    if form == "mcp.json":
        (folder / "foreign.json").write_text(json.dumps(entry(command=script)))
        return "foreign.json"
    if form == "server.json":
        package = {"registryType": "other", "identifier": script, "transport": {"type": "stdio"}}
        data = {"name": "io.example/odd", "version": "1.0.0", "description": "Odd"}
        (folder / "odd-server.json").write_text(json.dumps({**data, "packages": [package]}))
        return "odd-server.json"
    if form == "plugin":
        plugin = folder / "plugin"
        plugin.mkdir()
        (plugin / "plugin.json").write_text('{"name": "odd"}')
        (plugin / "mcp.json").write_text(json.dumps(entry(command=script)))
        return "plugin"
    manifest = {
        "manifest_version": "0.3",
        "name": "odd",
        "version": "1.0.0",
        "description": "Odd",
        "author": {"name": "Odd"},
        "server": {
            "type": "binary",
            "entry_point": "run.sh",
            "mcp_config": {"command": "${__dirname}/run.sh", "args": []},
        },
    }
    with zipfile.ZipFile(folder / "odd.mcpb", "w") as bundle:
        bundle.writestr("manifest.json", json.dumps(manifest))
        info = zipfile.ZipInfo("run.sh")
        info.external_attr = 0o100755 << 16
        bundle.writestr(info, (folder / "stranger.sh").read_text())
    return "odd.mcpb"


def check_nothing_happened(desk, arrived, said):
    assert arrived == []
    assert not (desk / "launched").exists()
    assert SECRET not in said


# -- accord add


@pytest.mark.parametrize("make", DATA, ids=lambda each: each.__name__)
def test_a_variable_that_a_file_names_is_not_used_until_the_user_names_it(
    accord, desk, arrived, make
):
    (desk / "foreign.json").write_text(json.dumps(make()))
    code, out, err = accord("add", "foreign.json", "--host", "cursor", "--yes")
    check_nothing_happened(desk, arrived, out + err)
    assert code == 2
    assert "odd needs " in err
    assert "--env " in err


@pytest.mark.parametrize(
    "words", [(), ("--format", "json"), ("--print", "cursor"), ("--no-check",)]
)
@pytest.mark.parametrize("host", ["vscode", "claude-code", "claude-desktop", "codex"])
def test_no_host_and_no_option_uses_a_variable_that_is_not_named(
    accord, desk, arrived, host, words
):
    (desk / "foreign.json").write_text(json.dumps(mcp_header()))
    code, out, err = accord("add", "foreign.json", "--host", host, *words)
    check_nothing_happened(desk, arrived, out + err)
    assert code == 2
    assert f"odd needs {VARIABLE}" in err


def test_the_default_of_a_variable_is_used_where_the_user_does_not_name_it(accord, desk, arrived):
    (desk / "foreign.json").write_text(json.dumps(headers(f"${{env:{VARIABLE}:-none}}")))
    accord("add", "foreign.json", "--host", "cursor", "--yes")
    assert "'X-Client': 'none'" in arrived[0]
    assert SECRET not in "".join(arrived)


def test_a_variable_that_the_user_names_is_sent_after_consent(accord, desk, arrived):
    (desk / "foreign.json").write_text(json.dumps(mcp_header()))
    words = ("add", "foreign.json", "--host", "cursor", "--env", VARIABLE)
    code, out, err = accord(*words)
    check_nothing_happened(desk, arrived, out + err)
    assert code == 2
    assert f"odd contacts {found_url[0]}/mcp, and sends {VARIABLE} to it" in err
    assert "no terminal" in err
    assert "--yes" in err
    accord(*words, "--yes")
    assert SECRET in arrived[0]


def test_text_like_a_variable_is_sent_as_it_stands(accord, desk, arrived):
    (desk / "foreign.json").write_text(json.dumps(headers(f"${{{VARIABLE}}}")))
    accord("add", "foreign.json", "--host", "claude-desktop", "--yes")
    assert f"${{{VARIABLE}}}" in arrived[0]
    assert SECRET not in "".join(arrived)


def test_text_that_the_host_would_fill_in_is_refused(accord, desk, arrived):
    (desk / "foreign.json").write_text(json.dumps(headers(f"${{{VARIABLE}}}")))
    code, out, err = accord("add", "foreign.json", "--host", "claude-code", "--yes")
    assert code == 2
    assert "Claude Code would fill in or run a part of" in err
    check_nothing_happened(desk, arrived, out + err)


@pytest.mark.parametrize("form", FORMS)
def test_a_command_of_a_file_is_launched_after_consent_alone(accord, desk, arrived, form):
    name = write_launching(desk, form)
    code, out, err = accord("add", name, "--host", "cursor")
    assert code == 2
    assert "odd launches " in err
    assert "no terminal" in err
    assert "--no-check" in err
    check_nothing_happened(desk, arrived, out + err)
    accord("add", name, "--host", "cursor", "--yes")
    assert (desk / "launched").exists()


def test_an_answer_of_no_launches_nothing_and_writes_nothing(
    accord, desk, home, arrived, monkeypatch
):
    asked = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "n")
    code, out, err = accord("add", write_launching(desk, "mcp.json"), "--host", "cursor")
    assert (code, asked) == (1, ["try it now? [y/N] "])
    assert "nothing was launched, and nothing was written" in err
    check_nothing_happened(desk, arrived, out + err)
    assert not (home / ".cursor").exists()


def test_a_command_that_the_user_typed_is_launched_at_once(accord, desk):
    code, _, err = accord("add", "desk.py", "--host", "cursor")
    assert code == 2
    assert "launches" not in err
    accord("add", "--host", "cursor", "--name", "own", "--", str(desk / "stranger.sh"))
    assert (desk / "launched").exists()


# -- all other commands that read such files

TAKING_A_FILE = {
    ("call", "FILE", "add"): 2,
    ("list", "FILE"): 2,
    ("check", "server", "FILE"): 2,
    ("test", "FILE"): 2,
    ("lock", "FILE"): 2,
    ("doctor", "FILE"): 2,
    ("inspect", "FILE", "--no-open"): 2,
    ("fleet", "FILE"): 2,
    ("fleet", "trust", "FILE"): 2,
    ("fleet", "import", "FILE", "--dry-run"): None,
    ("add", "FILE", "--host", "cursor", "--dry-run"): None,
    ("add", "FILE", "--link", "cursor"): None,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("words", TAKING_A_FILE, ids=" ".join)
def test_no_command_launches_what_a_file_of_others_names(accord, desk, arrived, words, form):
    name = write_launching(desk, form)
    code, out, err = accord(*(name if each == "FILE" else each for each in words))
    check_nothing_happened(desk, arrived, out + err)
    expected = TAKING_A_FILE[words]
    if expected is not None:
        assert code == expected
        assert err.splitlines()[-1].startswith("accord: ")


IN_A_FOLDER = {
    ("hosts",): 0,
    ("hosts", "check"): None,
    ("hosts", "check", "odd"): None,
    ("hosts", "check", "--deep"): None,
    ("hosts", "check", "--no-launch"): None,
    ("hosts", "repair"): None,
    ("hosts", "repair", "--yes"): None,
    ("hosts", "sync", "cursor", "vscode", "--scope", "project"): None,
    ("hosts", "sync", "cursor", "vscode", "--scope", "project", "--yes"): None,
    ("inspect", "odd", "--no-open"): 2,
    ("inspect", "odd", "--no-open", "--host", "cursor"): 2,
    ("inspect", "odd", "--no-open", "--watch"): 2,
    ("call", "odd", "add", "--host", "cursor"): 2,
    ("list", "odd", "--host", "cursor"): 2,
    ("check", "server", "odd", "--host", "cursor"): 2,
    ("test", "odd", "--host", "cursor"): 2,
    ("lock", "odd", "--host", "cursor"): 2,
    ("fleet",): 2,
    ("fleet", "fleet.toml"): 2,
    ("fleet", "trust"): 2,
    ("fleet", "init", "--hosts", "--output", "new.toml"): 0,
    ("call", "odd", "add"): 2,
    ("list", "odd"): 2,
    ("check", "server", "odd"): 2,
    ("test", "odd"): 2,
    ("doctor", "odd"): 2,
    ("remove", "odd", "--yes"): None,
}


@pytest.mark.parametrize("kind", ["command", "url"])
@pytest.mark.parametrize("words", IN_A_FOLDER, ids=" ".join)
def test_no_command_launches_what_a_file_in_the_folder_names(accord, desk, arrived, words, kind):
    data = entry(command=str(desk / "stranger.sh")) if kind == "command" else mcp_header()
    (desk / ".cursor").mkdir()
    (desk / ".cursor" / "mcp.json").write_text(json.dumps(data))
    made = data["mcpServers"]["odd"]
    lines = ["[mcpServers.odd]"]
    lines += [f"{name} = {json.dumps(each)}" for name, each in made.items() if name != "headers"]
    lines += [f'headers = {{ X-Client = "{REFERENCE}" }}'] if kind == "url" else []
    for name in ("accord-fleet.toml", "fleet.toml"):
        (desk / name).write_text("\n".join(lines) + "\n")
    code, out, err = accord(*words)
    check_nothing_happened(desk, arrived, out + err)
    expected = IN_A_FOLDER[words]
    if expected is not None:
        assert code == expected
    is_named = words[0] == "inspect" or "--host" in words
    if (is_named or words[:2] == ("hosts", "check")) and "--no-launch" not in words:
        happens = "odd launches " if kind == "command" else "contacts http://127.0.0.1:"
        assert "--yes" in err
        assert happens.removeprefix("odd ") in err


def test_a_project_server_gets_the_variables_that_are_named_beside_yes(accord, desk, arrived):
    (desk / ".cursor").mkdir()
    (desk / ".cursor" / "mcp.json").write_text(json.dumps(mcp_header()))
    _, out, err = accord("hosts", "check", "--yes")
    assert f"--env {VARIABLE} lets it have" in out
    check_nothing_happened(desk, arrived, out + err)
    _, _, err = accord("inspect", "odd", "--no-open", "--yes")
    assert f"asks for {VARIABLE}: others may have written this file" in err
    check_nothing_happened(desk, arrived, err)
    accord("hosts", "check", "--yes", "--env", VARIABLE)
    assert SECRET in arrived[0]
