"""`accord run --http`: options, variables of the environment, logs."""

import argparse
import contextlib
import json
import signal
import subprocess
import urllib.request
from urllib.error import HTTPError

import pytest

from accord.cli.commands import LIBRARY
from accord.cli.run_settings import http_settings, read_settings
from cli.conftest import ACCORD, PLAIN
from support.waiting import LONG

SERVER = """\
import logging
from accord import Server

server = Server("desk")

@server.tool
def add(a: int, b: int) -> int:
    "Add."
    logging.getLogger("accord.http").info("adding")
    return a + b
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "desk.py"
    path.write_text(SERVER)
    return path


@contextlib.contextmanager
def running(file, *options, **env):
    """Start the command; yields its URL, and a list that holds what it printed in the end."""
    process = subprocess.Popen(
        [*ACCORD, "run", str(file), *options],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**PLAIN, **env},
        text=True,
    )
    printed = []
    try:
        line = process.stderr.readline()
        while " is served at " not in line:
            assert line, printed
            printed.append(line)
            line = process.stderr.readline()
        yield line.split(" is served at ")[1].split(";")[0], printed
    finally:
        process.send_signal(signal.SIGTERM)
        # Not by communicate(), which overlooks what readline() has read ahead.
        printed.append(process.stderr.read())
        process.stderr.close()
        process.wait(timeout=LONG)
    assert process.returncode == 0


def post(url, message, **headers):
    """Send a message; return the status and the answer."""
    asked = urllib.request.Request(
        url,
        json.dumps(message).encode(),
        {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **headers,
        },
    )
    try:
        with urllib.request.urlopen(asked, timeout=LONG) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "add", "arguments": {"a": 1, "b": 2}},
}


def test_the_variables_of_a_container_choose_everything_and_options_win(file):
    with running(
        file,
        "--path",
        "/desk",
        ACCORD_TRANSPORT="http",
        ACCORD_HOST="0.0.0.0",
        ACCORD_PORT="0",
        ACCORD_PATH="/other",
        ACCORD_ALLOWED_HOSTS="desk.lan, desk",
        ACCORD_ALLOWED_ORIGINS="https://page.example",
        ACCORD_SESSIONS="0",
        ACCORD_ACCESS_LOG="json",
        ACCORD_LOG_LEVEL="info",
        ACCORD_GRACE="0.5",
    ) as (url, printed):
        assert url.startswith("http://0.0.0.0:")
        assert url.endswith("/desk")
        url = url.replace("0.0.0.0", "127.0.0.1")
        status, answer = post(url, CALL, Host="desk.lan", Origin="https://page.example")
        assert (status, json.loads(answer)["result"]["content"][0]["text"]) == (200, "3")
        assert post(url, CALL, Host="evil.example")[0] == 403
        assert post(url, CALL, Origin="https://evil.example")[0] == 403
    *logged, _ = "".join(printed).split("\n")
    lines = [json.loads(each) for each in logged if each.startswith("{")]
    assert [(each["path"], each["status"]) for each in lines] == [
        ("/desk", 200),
        ("/desk", 403),
        ("/desk", 403),
    ]
    assert (lines[0]["call"], lines[0]["name"]) == ("tools/call", "add")
    assert [each for each in logged if each.endswith(" INFO accord.http: adding")]
    assert "only requests to localhost" not in "".join(printed)


def test_the_warning_names_the_options_and_the_log_is_plain_text(file):
    with (
        running(file, "--http", "--host", "0.0.0.0", "--port", "0", "--access-log") as (
            url,
            printed,
        ),
        urllib.request.urlopen(url.replace("0.0.0.0", "127.0.0.1")[:-3] + "healthz"),
    ):
        pass
    shown = "".join(printed)
    assert "only requests to localhost are served; name the host that clients use with" in shown
    assert "--public-url or --allowed-host" in shown
    assert " INFO accord.access: GET /healthz 200 " in shown


def test_a_server_that_configures_logging_keeps_its_own_format(file, accord):
    file.write_text(
        "import logging\nlogging.basicConfig(format='own: %(message)s', level='INFO')\n"
        + SERVER
        + "logging.getLogger('accord.server').debug('loaded')\n"
    )
    done = accord("run", file, "--log-level", "debug", data="")
    assert done.returncode == 0
    assert "own: loaded\n" in done.stderr


@pytest.mark.parametrize(
    ("words", "env", "said"),
    [
        (["--port", "80"], {}, "--port is for HTTP; add --http"),
        (["--access-log"], {}, "--access-log is for HTTP; add --http"),
        (["--allowed-host", "x"], {}, "--allowed-host is for HTTP; add --http"),
        (["--reload"], {}, "--reload is for HTTP, add --http: over stdio the host holds the pipe"),
        (["--http", "--stdio"], {}, "either --http or --stdio, not both"),
        (["--http", "--reload-dir", "."], {}, "--reload-dir names what --reload watches; add"),
        (["--http", "--sse", "--no-sessions"], {}, "--sse needs sessions, which --no-sessions"),
        (["--http", "--path", "x"], {}, "argument --path: 'x' is not a path of a URL, expected"),
        (["--http", "--path", "/healthz"], {}, "path is '/healthz', which the app uses already"),
        (
            ["--http", "--public-url", "example.com"],
            {},
            "argument --public-url: 'example.com' is invalid, expected http(s)://host[:port][/path]",
        ),
        (
            ["--http", "--allowed-host", "http://x"],
            {},
            "argument --allowed-host: 'http://x' is invalid, expected host or host:port, or '*'",
        ),
        (
            ["--http", "--allowed-origin", "x"],
            {},
            "argument --allowed-origin: 'x' is invalid, expected scheme://host[:port], or '*'",
        ),
        (
            ["--log-level", "loud"],
            {},
            "argument --log-level: 'loud' is not a level, expected debug, info, warning, error or",
        ),
        (
            ["--http", "--access-log", "xml"],
            {},
            "argument --access-log: 'xml' is unknown, expected",
        ),
        ([], {"TRANSPORT": "pigeon"}, "variable ACCORD_TRANSPORT: 'pigeon' is unknown, expected"),
        ([], {"GRACE": "soon"}, "variable ACCORD_GRACE: 'soon' is not a number of seconds"),
        ([], {"LOG_LEVEL": "loud"}, "variable ACCORD_LOG_LEVEL: 'loud' is not a level"),
        (["--http"], {"PORT": "x"}, "variable ACCORD_PORT: 'x' is not a port, expected 0 to 65535"),
        (["--http"], {"PATH": "x"}, "variable ACCORD_PATH: 'x' is not a path of a URL, expected"),
        (["--http"], {"PUBLIC_URL": "x"}, "variable ACCORD_PUBLIC_URL: 'x' is invalid, expected"),
        (["--http"], {"ALLOWED_HOSTS": "a,/b"}, "variable ACCORD_ALLOWED_HOSTS: '/b' is invalid"),
        (["--http"], {"ALLOWED_ORIGINS": "a"}, "variable ACCORD_ALLOWED_ORIGINS: 'a' is invalid"),
        (["--http"], {"SESSIONS": "maybe"}, "variable ACCORD_SESSIONS: 'maybe' is neither yes"),
        (["--http"], {"STATELESS": "maybe"}, "variable ACCORD_STATELESS: 'maybe' is neither yes"),
        (["--http"], {"SSE": "2"}, "variable ACCORD_SSE: '2' is neither yes nor no, expected 1 or"),
        (["--http"], {"ACCESS_LOG": "x"}, "variable ACCORD_ACCESS_LOG: 'x' is unknown, expected 1"),
        (["--http"], {"RELOAD": "x"}, "variable ACCORD_RELOAD: 'x' is neither yes nor no"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_option_or_variable(
    accord, file, words, env, said
):
    variables = {f"ACCORD_{name}": value for name, value in env.items()}
    done = accord("run", file, *words, **variables)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"accord: {said}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "env", "said", "has_sessions"),
    [
        (["--no-sessions"], {}, "", False),
        ([], {"SESSIONS": "0"}, "", False),
        ([], {"SESSIONS": "1"}, "", True),
        (["--stateless"], {}, "accord: --stateless is now --no-sessions\n", False),
        ([], {"STATELESS": "1"}, "accord: ACCORD_STATELESS=1 is now ACCORD_SESSIONS=0\n", False),
        ([], {"STATELESS": "0"}, "accord: ACCORD_STATELESS=0 is now ACCORD_SESSIONS=1\n", True),
        ([], {"SESSIONS": "1", "STATELESS": "1"}, "", True),
        (["--stateless"], {"SESSIONS": "1"}, "accord: --stateless is now --no-sessions\n", False),
    ],
)
def test_sessions_are_turned_off_under_the_present_names_and_the_former(
    monkeypatch, capsys, words, env, said, has_sessions
):
    for name in ("SESSIONS", "STATELESS"):
        monkeypatch.delenv(f"ACCORD_{name}", raising=False)
    for name, value in env.items():
        monkeypatch.setenv(f"ACCORD_{name}", value)
    for command in ("run", "proxy"):
        parser = argparse.ArgumentParser()
        LIBRARY[command].register(parser.add_subparsers())
        options = parser.parse_args([command, "server.py", "--http", *words])
        settings = read_settings(options)
        assert (http_settings(settings)["sessions"] is not False) is has_sessions
        assert capsys.readouterr() == ("", said)


def test_variables_for_http_do_not_matter_over_stdio(accord, file):
    done = accord("run", file, "--stdio", data="", ACCORD_TRANSPORT="http", ACCORD_PORT="x")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "url"),
    [
        (["--path", "/desk"], "http://127.0.0.1:8000/desk"),
        (["--public-url", "https://example.com/desk/mcp"], "https://example.com/desk/mcp"),
        (["--public-url", "https://example.com/", "--path", "/x"], "https://example.com/x"),
        (["--access-log"], "http://127.0.0.1:8000/mcp"),
    ],
)
def test_the_printed_configuration_has_the_url_that_clients_use(accord, file, words, url):
    done = accord("run", "--http", *words, file, "--print-config")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["mcpServers"]["desk"]["url"] == url


def test_a_lifespan_that_fails_is_exit_code_1(accord, file):
    file.write_text(
        "from contextlib import asynccontextmanager\nfrom accord import Server\n"
        "@asynccontextmanager\nasync def life(server):\n"
        "    raise OSError('no database')\n    yield\n"
        "server = Server('failing', lifespan=life)\n"
    )
    done = accord("run", file, "--http", "--port", "0")
    assert done.returncode == 1
    assert "OSError: no database" in done.stderr
