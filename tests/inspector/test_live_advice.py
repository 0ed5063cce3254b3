"""What the page says to do about a server that cannot be reached."""

from accord import Server
from accord.auth import AuthorizationServer
from accord.cli.connection import advise_in_options
from accord.client.server_spec import ServerSpec
from accord.errors import ConnectFailed, TransportError
from accord_tools.inspector.definition import InspectOptions
from accord_tools.inspector.live.live_connection import advise_connection
from inspector.live_page import launch, live_page
from support.http_server import serving
from support.running import on_a_loop
from support.tables import cases

FAILURES = [
    ("no connection: connection refused", "start the server, and check that it listens at desk:1"),
    ("no connection: name or service not known", "correct the name of the host: desk:1"),
    ("TLS failed: the server there does not speak TLS; is it http://?", "write http://"),
    ("TLS failed: self-signed certificate", "mend the certificate of the server, or trust it"),
    ("HTTP 301 (the server redirects elsewhere)", "start accord inspect with the URL that"),
    ("HTTP 404: not found", "check the path of the URL: /mcp serves no MCP"),
    ("HTTP 403: forbidden", "check the credentials"),
    ("HTTP 502: bad gateway", "look at what the server itself has logged"),
    ("no answer to initialize within 3 s", "check that desk:1 answers; --timeout gives it more"),
    ("HTTP 200: Welcome (the body is text/html)", "check that desk:1 serves MCP at this path"),
]


@cases(("failure", "advice"), FAILURES)
def test_each_failure_of_an_address_has_an_advice(failure, advice):
    target = ServerSpec(name="desk", url="http://user:word@desk:1/mcp")
    error = TransportError(f"http://desk:1/mcp: {failure}")
    given = advise_connection(target, error, ())
    assert given.startswith(advice)
    assert "word" not in given


def test_certificates_are_trusted_by_a_variable_on_the_command_line():
    said = "TLS failed (HttpClientOptions(verify=...) sets which certificates are trusted)"
    assert "SSL_CERT_FILE" in advise_in_options(said)
    assert "HttpClientOptions" not in advise_in_options(said)


@on_a_loop
async def test_a_failure_names_the_file_and_not_the_command_that_runs_it(tmp_path):
    file = tmp_path / "desk.py"
    file.write_text("import sys\nprint('mend line 3', file=sys.stderr)\nsys.exit(3)\n")
    target = {
        "command": ("python3", "-I", "-S", "desk.py"),
        "cwd": str(tmp_path),
        "shown": "desk.py",
        "options": InspectOptions(reloads=True),
    }
    async with live_page(is_ready=False, **target) as page:
        error = (await page.until_state("failed"))["error"]
    assert error["message"].startswith("the server: ended with exit code 3")
    assert error["stderr"] == ["mend line 3"]
    assert "it starts anew when its code changes" in error["advice"]


@on_a_loop
async def test_a_mistake_in_a_file_is_the_message(tmp_path):
    file = tmp_path / "desk.py"
    file.write_text("def f(:\n")
    target = {"command": launch(file), "shown": "desk.py"}
    async with live_page(is_ready=False, **target) as page:
        error = (await page.until_state("failed"))["error"]
    assert error["message"] == f"{file}:1: invalid syntax: def f(:"
    assert (error["advice"], error["stderr"]) == ("mend the code, then restart", [])


def test_a_server_of_another_library_is_launched_by_its_command():
    target = ServerSpec(name="fast.py", shown="fast.py", command=("python", "fast.py"))
    error = ConnectFailed("fast.py: ended with exit code 2", exit_code=2)
    said = ["accord: mcp is a FastMCP of another library; a command works with any: -- python x.py"]
    assert advise_connection(target, error, said) == "start accord inspect -- python x.py"


@on_a_loop
async def test_a_server_that_never_answers_gets_the_time_of_the_command_line():
    silent = {"command": ("sleep", "60"), "timeout": 0.2, "connect_timeout": 0.2}
    async with live_page(is_ready=False, **silent) as page:
        error = (await page.until_state("failed"))["error"]
    assert "within 0.2 s" in error["message"]


@on_a_loop
async def test_a_challenge_is_shown_without_the_body_that_repeats_it():
    server = Server("notes", auth=AuthorizationServer({"ada": "lovelace"}))
    with serving(server.asgi(grace=0)) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with live_page(is_ready=False, url=url) as page:
            error = (await page.until_state("failed"))["error"]
    assert f"{url}: HTTP 401 (it wants authorization); it says: " in error["message"]
    assert "authorization pane" in error["advice"]
