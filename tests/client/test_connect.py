"""Making a connection: targets, the handshake, and what is said when it does not come about."""

import asyncio
import json
import sys

import pytest

from accord.client import blocking, connect
from accord.errors import ConnectFailed, ConnectionClosed, MissingExtra
from accord.protocol.revisions import HANDSHAKE
from accord.types import Implementation, Root
from support.running import to_the_end


async def opening(client):
    result = await client.call_tool("history")
    return result.structured_content["messages"]


def failed(run, target, **options):
    """Connect in vain; returns the error."""

    async def main():
        with pytest.raises(ConnectFailed) as caught:
            await connect(target, **options)
        return caught.value

    error = run(main())
    assert len(str(error)) <= 300
    return error


# -- the handshake


@to_the_end
async def test_the_client_asks_for_the_newest_revision_and_says_initialized(wayward):
    options = {"revisions": list(HANDSHAKE), "client_info": Implementation("mine", "2")}
    async with connect(wayward(), **options) as client:
        initialize, initialized, *_ = await opening(client)
        assert initialize["method"] == "initialize"
        assert initialize["params"]["protocolVersion"] == "2025-11-25"
        assert initialize["params"]["clientInfo"] == {"name": "mine", "version": "2"}
        assert initialize["params"]["capabilities"] == {}
        assert initialized["method"] == "notifications/initialized"


@to_the_end
async def test_without_client_info_the_library_gives_its_own_name(wayward):
    async with connect(wayward(), revisions=list(HANDSHAKE)) as client:
        info = (await opening(client))[0]["params"]["clientInfo"]
        assert info["name"] == "accord"
        assert info["version"]


@to_the_end
async def test_capabilities_follow_from_the_callbacks(wayward, tmp_path):
    async with connect(
        wayward(),
        revision="2025-06-18",
        on_sample=print,
        on_elicit=print,
        roots=[tmp_path],
    ) as client:
        assert (await opening(client))[0]["params"]["capabilities"] == {
            "sampling": {},
            "elicitation": {},
            "roots": {"listChanged": True},
        }


@to_the_end
async def test_capabilities_that_the_revision_lacks_are_not_declared(wayward):
    async with connect(wayward(), revision="2025-03-26", on_elicit=print) as client:
        assert (await opening(client))[0]["params"]["capabilities"] == {}


@to_the_end
async def test_an_older_revision_in_the_answer_is_accepted(wayward):
    async with connect(wayward(version="2024-11-05")) as client:
        assert client.revision == "2024-11-05"


@to_the_end
async def test_an_error_that_names_supported_revisions_is_an_offer(wayward):
    supported = ["1999-01-01", "2024-11-05", "2025-03-26"]
    async with connect(wayward(supported=supported)) as client:
        assert client.revision == "2025-03-26"


def test_an_offer_outside_our_own_choice_is_refused(wayward, run):
    error = failed(run, wayward(supported=["2024-11-05"]), revision="2025-06-18")
    assert error.phase == "initialize"
    assert "2024-11-05" in str(error)


def test_an_unsupported_answer_names_both_revisions(wayward, run):
    error = failed(run, wayward(version="2031-01-01"), revisions=["2025-06-18", "2024-11-05"])
    assert "asked for revision 2025-06-18" in str(error)
    assert "'2031-01-01'" in str(error)
    assert error.phase == "initialize"


def test_a_revision_that_was_not_offered_is_refused_although_it_exists(wayward, run):
    error = failed(run, wayward(version="2024-11-05"), revision="2025-06-18")
    assert "2024-11-05" in str(error)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"revision": "2025-06-19"}, "2025-06-19"),
        ({"revisions": ["2024-11-05", "latest"]}, "latest"),
        ({"revisions": []}, "at least one"),
    ],
    ids=str,
)
def test_revisions_that_cannot_be_negotiated_are_refused_at_once(options, named):
    with pytest.raises(ValueError, match=named):
        connect(["never-run"], **options)


def test_an_unknown_option_is_refused_at_once():
    with pytest.raises(TypeError, match="on_elicitation"):
        connect(["never-run"], on_elicitation=print)


@pytest.mark.parametrize(
    "opening",
    [
        {"protocolVersion": "2025-06-18"},
        {"protocolVersion": 3, "capabilities": {}, "serverInfo": {"name": "a", "version": "1"}},
    ],
)
def test_an_invalid_answer_to_initialize_is_reported_with_the_reason(opening, wayward, run):
    error = failed(run, wayward(opening=opening))
    assert "answered initialize wrongly" in str(error)
    assert error.phase == "initialize"


@to_the_end
async def test_news_before_the_answer_does_no_harm(wayward):
    params = {"level": "info", "data": 1}
    early = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
    async with connect(wayward(stdout=[json.dumps(early), "warming up"])) as client:
        await client.ping()


# -- servers that do not start


def test_a_program_that_does_not_exist_is_named(run):
    error = failed(run, ["no-such-program", "--serve"])
    assert "'no-such-program' was not found" in str(error)
    assert error.command == ("no-such-program", "--serve")
    assert error.phase == "starting"
    assert error.exit_code is None


def test_a_file_that_may_not_be_executed_is_named(run, tmp_path):
    file = tmp_path / "server"
    file.write_text("not a program")
    assert "may not be executed" in str(failed(run, [str(file)]))


def test_a_folder_that_does_not_exist_is_named(wayward, run, tmp_path):
    assert "nowhere" in str(failed(run, wayward(), cwd=tmp_path / "nowhere"))


def test_an_empty_command_is_refused(run):
    assert "empty" in str(failed(run, []))


def test_a_server_that_crashes_at_start_tells_why(wayward, run):
    words = [f"line {n}" for n in range(100)] + ["ModuleNotFoundError: no module named 'desk'"]
    error = failed(run, wayward(stderr=words, exit=3))
    assert "ended with exit code 3" in str(error)
    assert str(error).endswith("ModuleNotFoundError: no module named 'desk'")
    assert error.exit_code == 3
    assert error.phase == "starting"
    assert error.command[0] == sys.executable
    assert error.stderr.splitlines()[-2:] == words[-2:]


def test_a_server_that_says_on_stdout_why_it_leaves_is_quoted_too(wayward, run):
    error = failed(run, wayward(stdout=["usage: server --port PORT"], exit=2))
    assert "usage: server --port PORT" in str(error)
    assert error.phase == "initialize"


def test_a_server_that_never_answers_is_given_up(wayward, run, tmp_path, is_running):
    pid_file = tmp_path / "pid"
    target = wayward(silent=True, stderr=["loading"], pid_file=str(pid_file))
    error = failed(run, target, connect_timeout=1.0, exit_grace=0.1)
    assert "no answer to initialize within 1 s" in str(error)
    assert "loading" in str(error)
    assert error.phase == "initialize"
    assert not is_running(int(pid_file.read_text()))


def test_the_message_stays_short_whatever_the_server_and_its_command_say(wayward, run):
    error = failed(run, [*wayward(stderr=["e" * 5000] * 3, exit=1), "a" * 5000])
    assert error.exit_code == 1
    assert "eeee" in str(error)


# -- targets


def test_a_string_without_a_file_explains_what_a_command_is(run):
    assert "a command is a list" in str(failed(run, "npx -y some-server"))


def test_a_python_file_that_does_not_exist_is_named(run, tmp_path):
    assert "desk.py" in str(failed(run, tmp_path / "desk.py"))


def test_a_url_needs_an_extra(run, monkeypatch):
    async def main():
        with pytest.raises(MissingExtra, match="needs the extra 'http'"):
            await connect("https://example.com/mcp")

    for name in ("aiohttp", "httptools"):
        monkeypatch.setitem(sys.modules, name, None)
    run(main())


@to_the_end
async def test_any_other_type_of_target_is_refused():
    with pytest.raises(TypeError, match="not a int"):
        await connect(3)


@to_the_end
async def test_roots_other_than_folders_are_refused_before_anything_starts():
    for roots in (["https://example.com"], [Root("s3://bucket")]):
        with pytest.raises(ValueError, match="file://"):
            await connect(["never-run"], roots=roots)
    with pytest.raises(TypeError, match="list of folders"):
        await connect(["never-run"], roots="/home")


# -- giving up


def test_a_cancelled_connect_leaves_no_process(wayward, run, tmp_path, is_running, eventually):
    pid_file = tmp_path / "pid"

    async def main():
        target = wayward(silent=True, pid_file=str(pid_file))
        connecting = asyncio.ensure_future(connect(target, exit_grace=0.1))
        while not pid_file.exists() or not pid_file.read_text():
            await asyncio.sleep(0.01)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting

    run(main())
    assert not is_running(int(pid_file.read_text()))


@to_the_end
async def test_a_connection_can_be_made_again_with_the_same_words(wayward):
    connecting = connect(wayward())
    for _ in range(2):
        async with connecting as client:
            await client.ping()
        with pytest.raises(ConnectionClosed):
            await client.ping()


def test_a_misspelt_option_and_a_callback_that_cannot_be_called_are_refused():
    with pytest.raises(TypeError, match="no keyword 'on_ellicit'; did you mean 'on_elicit'"):
        connect(["server"], on_ellicit=print)
    with pytest.raises(TypeError, match="on_sample is 5, expected a function"):
        connect(["server"], on_sample=5)


def test_a_command_as_one_text_is_refused_with_the_list_to_write(run):
    assert 'such as ["python", "server.py"]' in str(failed(run, "python server.py"))


def test_a_connection_that_was_not_awaited_says_how_it_is_made():
    with pytest.raises(AttributeError, match="write `async with connect"):
        connect(["server"]).call_tool("add")


@pytest.mark.parametrize(
    ("given", "shown"),
    [(("http://x/mcp",), "'http://x/mcp'"), ((["python", "x.py"],), "..."), (("x" * 200,), "...")],
    ids=["a URL", "a command", "a long text"],
)
def test_making_a_client_by_hand_is_refused_with_the_call_to_write(given, shown):
    from accord import Client

    with pytest.raises(TypeError) as caught:
        Client(*given)
    assert f"write `async with connect({shown}) as client`" in str(caught.value)
    with pytest.raises(TypeError, match="async with connect"):
        Client(*given, auth="x")


def test_a_plain_with_is_refused_with_the_code_to_write():
    with pytest.raises(TypeError) as caught, connect("server.py"):
        pass
    assert "`async with connect(...) as client`" in str(caught.value)
    assert "accord.client.blocking.connect(...)" in str(caught.value)


@pytest.mark.parametrize("make", [connect, blocking.connect], ids=["asyncio", "blocking"])
def test_the_configuration_of_a_host_is_refused_with_what_to_do(make):
    config = {"mcpServers": {"files": {"command": "x"}, "web": {"url": "http://x"}}}
    with pytest.raises(TypeError) as caught:
        make(config)
    assert "one server, not a configuration (files, web)" in str(caught.value)
    assert "`async with connect_all(configuration) as clients`" in str(caught.value)
    with pytest.raises(TypeError, match="not a configuration: write"):
        make({})
