from pathlib import Path
from typing import Any

import pytest

from accord import Context, Server, connect
from accord.errors import ConnectFailed, RegistrationError
from support.tables import cases
from support.waiting import in_loop, run


def test_decorators_leave_functions_as_they_are() -> None:
    server = Server("desk")

    def tool() -> str:
        return "t"

    def prompt() -> str:
        return "p"

    def reader() -> str:
        return "r"

    assert server.tool(tool) is tool
    assert server.tool(name="again")(tool) is tool
    assert server.prompt(prompt) is prompt
    assert server.prompt(name="again")(prompt) is prompt
    assert server.resource("note://x")(reader) is reader
    assert repr(server) == "Server('desk')"


@pytest.mark.parametrize(
    ("revisions", "reported"),
    [(["1999-01-01"], "1999-01-01"), (["2025-06-18", "x"], "'x'"), ([], "revisions is empty")],
)
def test_unknown_revisions_are_refused(revisions: Any, reported: str) -> None:
    with pytest.raises(ValueError, match=reported):
        Server("desk", revisions=revisions)


def test_revisions_stand_in_their_order() -> None:
    server = Server("desk", revisions=["2025-06-18", "2024-11-05"])
    assert server._core.revisions == ("2024-11-05", "2025-06-18")


def test_inline_is_for_functions_that_are_not_async() -> None:
    async def slow() -> str:
        return "x"

    with pytest.raises(RegistrationError, match="inline"):
        Server("desk").add_tool(slow, inline=True)


def test_a_name_can_be_registered_once() -> None:
    server = Server("desk")
    server.add_tool(lambda: "x", name="x")
    with pytest.raises(RegistrationError, match="registered twice"):
        server.add_tool(lambda: "y", name="x")


def test_a_tool_without_docstring_is_described_by_its_name() -> None:
    entry = Server("desk").add_tool(lambda: "x", name="quiet")
    assert entry.item.description == "quiet"


def test_capabilities_name_only_the_kinds_that_have_entries() -> None:
    server = Server("desk")
    assert server._core.capabilities().tools is None
    assert server._core.capabilities().completions is None
    server.add_tool(lambda: "x", name="x")
    server.add_prompt(lambda: "x", name="x")
    capabilities = server._core.capabilities()
    assert capabilities.tools is not None
    assert capabilities.completions is not None
    assert capabilities.resources is None


@pytest.mark.parametrize("uri", ["note://today", "note://{name}"], ids=["fixed", "template"])
def test_resources_of_either_kind_are_declared(uri: str) -> None:
    server = Server("desk")
    server.add_resource(uri, lambda name="": name)
    capabilities = server._core.capabilities()
    assert capabilities.resources is not None
    assert (capabilities.completions is not None) == ("{" in uri)


@in_loop
async def test_files_and_directories_are_resources(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha")
    server = Server("desk")
    server.add_file(tmp_path / "a.txt", "note://a")
    server.add_directory(tmp_path, "notes://{+path}")
    async with connect(server) as client:
        (one,) = (await client.read_resource("note://a")).contents
        (two,) = (await client.read_resource("notes://a.txt")).contents
        assert (one.text, two.text) == ("alpha", "alpha")


def test_an_unknown_transport_is_refused() -> None:
    with pytest.raises(ValueError, match="'pigeon'"):
        Server("desk").run("pigeon")  # type: ignore[call-overload]


def test_run_is_refused_in_a_running_loop() -> None:
    async def main() -> None:
        Server("desk").run()

    with pytest.raises(RuntimeError, match=r"await server.serve\('stdio'\)"):
        run(main())


def test_a_lifespan_that_fails_fails_the_connection() -> None:
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def lifespan(server: Server[None]) -> Any:
        raise OSError("no database")
        yield

    async def main() -> None:
        async with connect(Server("desk", lifespan=lifespan)):
            pass

    with pytest.raises(OSError, match="no database"):
        run(main())


def test_a_lifespan_that_cannot_be_called_is_refused_at_once() -> None:
    with pytest.raises(RegistrationError, match="lifespan is 3, expected a function of the server"):
        Server("desk", lifespan=3)  # type: ignore[arg-type]


def test_a_lifespan_that_is_not_a_context_manager_says_what_is_missing() -> None:
    async def lifespan(server: Server[None]) -> Any:
        yield

    async def main() -> None:
        async with connect(Server("desk", lifespan=lifespan)):  # type: ignore[arg-type]
            pass

    with pytest.raises(ConnectFailed, match=r"put @contextlib\.asynccontextmanager on"):
        run(main())


def test_asking_timeouts_and_limits_are_settings() -> None:
    server = Server("desk", ask_timeout=1, in_flight=2, page_size=3, log_level="error", debug=True)
    assert (server._core.ask_timeout, server._core.in_flight, server._core.log_level) == (
        1,
        2,
        "error",
    )
    assert server._core.debug


def test_one_server_serves_loops_one_after_another() -> None:
    server = Server("desk")

    @server.tool
    async def where(ctx: Context) -> str:
        return ctx.method

    async def main() -> None:
        async with connect(server) as client:
            await client.call_tool("where")

    for _ in range(3):
        run(main())
    assert len(server._core._watchdogs) <= 2


@cases("name", ["auth", "debug", "principal", "lifespan", "limits"])
def test_a_setting_that_is_assigned_later_is_refused(name: str) -> None:
    server = Server("desk")
    with pytest.raises(AttributeError, match=f"{name} is set when a server is made"):
        setattr(server, name, object())
