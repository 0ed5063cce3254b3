"""`accord inspect`: which servers the words name, what is printed, and how it ends."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from accord.cli.main import _parse, main
from accord_tools.inspector.command import _read_options
from accord_tools.inspector.command_targets import read_targets
from accord_tools.inspector.target_access import code_folders
from cli.conftest import ACCORD, PLAIN
from support.waiting import LONG, until_sync

ROOT = Path(__file__).parents[2]
OPENING = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    '"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
)
ENTRY = {"command": "npx", "args": ["-y", "files-server", "--token", "s3cr3t-abcdef123456"]}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user without hosts, in a folder without servers."""
    folder = tmp_path / "home"
    (folder / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder / "work")
    return folder


def write_servers(path, **servers):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))


def targets(*words):
    return read_targets(_parse(["inspect", *map(str, words)]))


def complaint(capsys, *words):
    try:
        code = main(["inspect", *map(str, words)])
    except SystemExit as end:
        code = end.code
    assert code == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    return shown.err


# -- targets of the command line


def test_a_url_is_shown_without_secrets(home):
    (found,) = targets(
        "https://user:pass@example.com/mcp?key=s3cr3t",
        *("--header", "X-Team: blue", "--bearer", "token", "--transport", "sse"),
        *("--timeout", "5", "--revision", "2025-06-18"),
    )
    assert found.url == "https://user:pass@example.com/mcp?key=s3cr3t"
    assert "pass" not in found.shown + found.name
    assert "s3cr3t" not in found.shown + found.name
    assert found.headers == {"x-team": "blue"}
    assert (found.transport, found.timeout, found.revision) == ("sse", 5.0, "2025-06-18")
    assert found.auth is not None


@pytest.mark.parametrize("url", ["http://[::1", "http://host:99999999/", "http://host:x/"])
def test_a_wrong_url_is_an_error(home, capsys, url):
    assert "is not a URL" in complaint(capsys, url)


def test_a_command_is_shown_without_secrets(home):
    (found,) = targets(
        *("--env", "API_KEY=hidden", "--cwd", home, "--bearer", "x", "--transport", "http"),
        *("--", "/usr/bin/npx", "-y", "files-server", "--token", "s3cr3t-abcdef123456"),
    )
    assert found.command == ("/usr/bin/npx", "-y", "files-server", "--token", "s3cr3t-abcdef123456")
    assert found.name == "npx files-server"
    assert found.shown.startswith("-- /usr/bin/npx -y files-server --token ")
    assert "s3cr3t" not in found.shown
    assert found.env["API_KEY"] == "hidden"
    assert found.environment["HOME"] == str(home)
    assert found.cwd == str(home)
    # A launched server has no HTTP.
    assert (found.auth, found.transport) == (None, None)


def test_a_python_file_is_launched_and_watched_for_changes(home):
    file = home / "work" / "server.py"
    file.write_text("")
    (found,) = targets("server.py:mcp")
    assert found.command[0] == sys.executable
    assert found.command[-1] == f"{file}:mcp"
    assert found.shown == "server.py:mcp"
    assert code_folders(found) == (file.parent,)
    assert found.env == {}


def test_a_command_that_runs_a_python_file_is_watched_for_changes(home):
    folder = home / "work" / "desk"
    folder.mkdir()
    (folder / "server.py").write_text("")
    assert code_folders(targets("--", "uv", "run", "desk/server.py")[0]) == (folder,)
    assert code_folders(targets("--cwd", folder, "--", "python", "server.py")[0]) == (folder,)
    assert code_folders(targets("--", "python", "missing.py")[0]) == ()


@pytest.mark.parametrize(("words", "reloads"), [((), True), (("--no-reload",), False)])
def test_an_option_leaves_servers_as_they_are_when_their_code_changes(words, reloads):
    assert _read_options(_parse(["inspect", *words, "server.py"])).reloads is reloads


def test_the_folder_of_a_package_is_watched_for_changes(home):
    package = home / "work" / "shop"
    (package / "tools").mkdir(parents=True)
    for each in (package, package / "tools"):
        (each / "__init__.py").write_text("")
    (package / "tools" / "server.py").write_text("")
    assert code_folders(targets("shop.tools.server:mcp")[0]) == (package,)
    assert code_folders(targets("shop/tools/server.py")[0]) == (package,)


def test_installed_packages_are_not_watched(home):
    assert code_folders(targets("msgspec:server")[0]) == ()


def test_several_targets_stand_side_by_side(home):
    (home / "work" / "server.py").write_text("")
    found = targets("http://127.0.0.1:8000/mcp", "server.py", "--no-open", "--", "npx", "it")
    assert [each.name for each in found] == ["127.0.0.1:8000/mcp", "server.py", "npx it"]


# -- servers of hosts


def test_a_server_of_a_host_is_found_by_its_name(home):
    write_servers(home / ".cursor/mcp.json", files={**ENTRY, "env": {"ROOT": "${env:HOME}/x"}})
    (found,) = targets("files")
    assert found.name == "files"
    assert found.command == ("npx", "-y", "files-server", "--token", "s3cr3t-abcdef123456")
    assert found.env["ROOT"] == f"{home}/x"
    assert found.environment["PATH"] == "/usr/bin:/bin"
    assert "s3cr3t" not in found.shown


def test_a_url_of_a_host_keeps_its_headers(home):
    entry = {"url": "https://example.com/mcp", "headers": {"X-Key": "${env:KEY}"}}
    write_servers(home / ".cursor/mcp.json", remote=entry)
    (found,) = targets("remote", "--env", "KEY=value", "--header", "X-More: 1")
    assert found.url == "https://example.com/mcp"
    assert found.headers == {"x-key": "value", "x-more": "1"}


def test_a_missing_variable_of_an_entry_is_an_error(home, capsys):
    write_servers(home / ".cursor/mcp.json", files={**ENTRY, "env": {"A": "${env:NOT_SET_1}"}})
    said = complaint(capsys, "files")
    assert "asks for NOT_SET_1: set it in this shell, or with --env NAME=VALUE" in said
    assert "Cursor" in said


def test_equal_entries_of_several_hosts_are_one_server(home):
    write_servers(home / ".cursor/mcp.json", files=ENTRY)
    write_servers(home / ".codeium/windsurf/mcp_config.json", files=ENTRY)
    assert targets("files")[0].name == "files"


def test_different_entries_of_several_hosts_need_the_host(home, capsys):
    write_servers(home / ".cursor/mcp.json", files=ENTRY)
    write_servers(home / ".codeium/windsurf/mcp_config.json", files={"command": "other"})
    said = complaint(capsys, "files")
    assert "several hosts have a server 'files'" in said
    assert "Cursor" in said
    assert "--host" in said
    assert targets("files", "--host", "windsurf")[0].command == ("other",)
    assert "cursor has no server 'file'; did you mean files?" in complaint(
        capsys, "file", "--host", "cursor"
    )
    assert "there is no host" in complaint(capsys, "files", "--host", "nothing-like-it")


def test_a_module_of_the_same_name_needs_a_decision(home, capsys):
    (home / "work" / "files.py").write_text("")
    write_servers(home / ".cursor/mcp.json", files=ENTRY, time={"command": "clock"})
    assert "files is a module, and a server of Cursor" in complaint(capsys, "files")
    # Python's own modules have no servers.
    assert targets("time")[0].command == ("clock",)


def test_a_server_of_a_configuration_is_found(home, capsys):
    file = home / "work" / ".vscode" / "mcp.json"
    write_servers(
        file, files={**ENTRY, "cwd": "sub", "env": {"A": "${env:B:-fallback}"}}, other=ENTRY
    )
    (found,) = targets("--config", file, "files")
    assert found.cwd == str(home / "work" / "sub")
    assert found.env["A"] == "fallback"
    assert [each.name for each in targets("--config", file, "files", "other")] == [
        "files",
        "other",
    ]
    assert "has no server 'fles'; did you mean files?" in complaint(
        capsys, "--config", file, "fles"
    )
    assert "there is no file" in complaint(capsys, "--config", home / "none.json", "files")
    assert "say which after --config FILE, as files: files, other" in complaint(
        capsys, "--config", file
    )


# -- mistakes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nothing-like-this", "there is no module nothing-like-this"),
        ("missing.py", "there is no file missing.py"),
        ("localhost:8000", "a URL begins with http:// or https://: http://localhost:8000/mcp"),
        ("x --bind 0.0.0.0", "--bind needs --public-url"),
        ("http://x/ --output none/r.html", "none/r.html: there is no folder none"),
        ("--trace missing.jsonl", "--trace: there is no file missing.jsonl"),
        ("http://x/ --transport poem", "unknown transport 'poem'; known: http, sse"),
        ("http://x/ --revision 1999", "unknown revision '1999'"),
        ("http://x/ --keep 0", "'0' is not a number of megabytes, expected 1 or more"),
        ("http://x/ --scope a", "--scope needs --oauth"),
        ("http://x/ --cwd missing", "--cwd: there is no folder missing"),
        ("http://x/ --listen 1", "--listen needs --watch"),
        ("--watch", "--watch needs one server: a URL, or a command after --"),
        ("--watch http://x/ http://y/", "--watch needs one server"),
        ("--watch --listen 1 -- cat", "--listen is for the URL of a server"),
        ("--watch --json -- cat", "--json prints to stdout, which belongs to the client"),
        ("--watch --cwd / -- cat", "--watch launches the command in the current folder"),
        ("http://x/ --public-url https://a/b", "--public-url has a path"),
        ("ftp://x/mcp", "the URL of a server begins with http:// or https://"),
        ("--record missing/x.jsonl", "--record: there is no folder missing"),
        ("--record .", "--record: . is a folder; name a file in it"),
    ],
)
def test_a_mistake_is_one_line(words, said, home, capsys):
    assert said in complaint(capsys, *words.split())


# -- the process


@pytest.fixture
def inspecting(home):
    """Launch the command; returns the process, and its page when that answers."""
    launched = []

    def launch(*words, **env):
        process = subprocess.Popen(
            [*ACCORD, "inspect", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**PLAIN, "HOME": str(home), **env},
        )
        launched.append(process)
        return process

    yield launch
    for each in launched:
        each.kill()
        each.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_page_is_served_until_a_signal_arrives(number, inspecting):
    process = inspecting("--json", "--no-history")
    url = json.loads(process.stdout.readline())["url"]
    with urllib.request.urlopen(url.partition("#")[0]) as answer:
        assert b"<title>accord inspect</title>" in answer.read()
    process.send_signal(number)
    out, err = process.communicate(timeout=LONG)
    assert (process.returncode, out) == (0, "")
    assert err == f"accord inspect: {url}\naccord inspect: Ctrl-C ends\n"


def test_the_page_ends_where_the_shell_ignores_ctrl_c(inspecting):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as for jobs in the background
    try:
        process = inspecting("--json", "--no-history")
    finally:
        signal.signal(signal.SIGINT, before)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.poll() is None
    process.terminate()
    process.communicate(timeout=LONG)
    assert process.returncode == 0


def test_a_user_of_another_machine_learns_how_to_reach_the_page(inspecting):
    process = inspecting("--port", "0", SSH_CONNECTION="10.0.0.1 22 10.0.0.2 22", DISPLAY=":0")
    address = process.stderr.readline()
    port = address.partition("#")[0].rpartition(":")[2].strip("/")
    assert f"ssh -L {port}:127.0.0.1:{port} " in process.stderr.readline()
    process.terminate()
    assert process.communicate(timeout=LONG)[0] == ""


def test_a_page_for_other_machines_warns_and_has_one_name(inspecting):
    process = inspecting("--bind", "127.0.0.1", "--public-url", "http://desk.example:8000")
    assert process.stderr.readline().startswith("accord inspect: http://desk.example:8000/#key=")
    assert "WARNING" in process.stderr.readline()


def ask(url, action, **params):
    """Run an action of the page."""
    base, _, key = url.partition("/#key=")
    headers = {"x-accord-key": key, "content-type": "application/json"}
    body = json.dumps(params).encode()
    request = urllib.request.Request(f"{base}/api/{action}", data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=LONG) as answer:
        return json.load(answer)


def children_of(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the processes of Linux")
def test_launched_servers_end_with_the_page(inspecting, good):
    process = inspecting(good, "--json", "--no-history")
    url = json.loads(process.stdout.readline())["url"]
    until_sync(lambda: ask(url, "app.state")["targets"][0]["state"] == "ready")
    (child,) = children_of(process.pid)
    process.terminate()
    assert process.wait(LONG) == 0
    assert not Path(f"/proc/{child}").exists()


def test_a_recording_is_shown_without_a_server(inspecting):
    file = ROOT / "examples" / "traces" / "2025-06-18-faulty.jsonl"
    process = inspecting("--trace", file, "--json", "--no-history")
    url = json.loads(process.stdout.readline())["url"]
    until_sync(lambda: [each["state"] for each in ask(url, "app.state")["targets"]] == ["ready"])
    assert ask(url, "log.summary", target=0)["counters"]["messages"] > 0
    assert ask(url, "app.state")["keeps_history"] is False


def test_reports_of_all_sessions_are_written_at_the_end(inspecting, tmp_path):
    folder = ROOT / "examples" / "traces"
    words = (
        "--trace",
        folder / "2025-06-18-faulty.jsonl",
        "--trace",
        folder / "2025-06-18-clean.jsonl",
    )
    process = inspecting(*words, "--output", tmp_path / "report.html", "--json", "--no-history")
    url = json.loads(process.stdout.readline())["url"]
    until_sync(
        lambda: [each["state"] for each in ask(url, "app.state")["targets"]] == ["ready"] * 2
    )
    assert list(tmp_path.glob("*.html")) == []
    process.terminate()
    _, err = process.communicate(timeout=LONG)
    assert process.returncode == 0
    files = [tmp_path / "report.html", tmp_path / "report-2.html"]
    assert err.splitlines()[-2:] == [f"accord inspect: wrote {each}" for each in files]
    for file, title in zip(
        files, ("2025-06-18-faulty.jsonl", "2025-06-18-clean.jsonl"), strict=True
    ):
        assert f"<title>{title}" in file.read_text()


def test_the_traffic_of_another_client_is_shown_over_stdio(home, good):
    command = [sys.executable, "-m", "accord.cli.main", "run", "--stdio", str(good)]
    kept = ["--no-history", "--output", "report.html"]
    process = subprocess.Popen(
        [*ACCORD, "inspect", "--watch", "--no-open", *kept, "--", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**PLAIN, "HOME": str(home)},
    )
    url = process.stderr.readline().removeprefix("accord inspect: ").strip()
    process.stdin.write(OPENING)
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["result"]["protocolVersion"] == "2025-06-18"
    until_sync(lambda: ask(url, "log.summary", target=0)["counters"]["messages"] == 2)
    state = ask(url, "app.state")["targets"][0]
    assert (state["kind"], state["state"]) == ("watch", "ready")
    out, _ = process.communicate(timeout=LONG)
    assert (process.returncode, out) == (0, "")
    assert "2025-06-18" in Path("report.html").read_text()


def test_the_traffic_of_another_client_is_shown_over_http(inspecting, desk):
    process = inspecting("--watch", desk, "--no-history", "--no-open")
    url = process.stderr.readline().removeprefix("accord inspect: ").strip()
    said = [process.stderr.readline(), process.stderr.readline()]
    place = said[-1].rpartition(" ")[2].strip()
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }
    request = urllib.request.Request(place, data=OPENING.encode(), headers=headers)
    with urllib.request.urlopen(request, timeout=LONG) as answer:
        assert answer.status == 200
    until_sync(lambda: ask(url, "log.summary", target=0)["counters"]["messages"] == 2)


def test_a_port_that_is_taken_ends_with_two(home, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} is taken" in complaint(capsys, "--port", port)


def test_a_page_without_its_extra_says_what_to_install(home, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "accord_tools.inspector.web.serving", raising=False)
    monkeypatch.setitem(sys.modules, "accord.http.server.listener", None)
    assert "accord inspect needs the extra 'http'" in complaint(capsys, "--no-open")
