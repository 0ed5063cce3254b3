"""Folders of plugins: real files that change while clients call their tools."""

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from accord import Server
from accord.client import Client
from accord.compose import PluginFolder, folder
from accord.errors import RequestError
from accord.testing import connected
from support.waiting import in_loop, until

TOOL = '''
from accord import Server

server = Server("{name}")


@server.tool
async def {tool}() -> str:
    """Say something."""
    return "{text}"
'''


def write(path: Path, text: str) -> Path:
    """Write a file as editors do: another one takes its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}~")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)
    return path


def plugin(path: Path, tool: str, text: str = "x") -> Path:
    return write(path, TOOL.format(name=path.stem, tool=tool, text=text))


async def names(client: Client) -> list[str]:
    return sorted([tool.name for tool in (await client.list_tools()).tools])


class Heard(list[str]):
    """The changes of the list of tools that a client heard of."""

    async def wait(self, count: int = 1) -> None:
        """Wait for so many more."""
        await until(lambda: len(self) >= count)
        self.clear()


@asynccontextmanager
async def serving(source: Any, heard: Heard | None = None, **options: Any) -> Any:
    hub = Server("hub")
    hub.tool(name="own")(lambda: "own")
    hub.mount(source)
    listening = {} if heard is None else {"on_tools_changed": lambda: heard.append("tools")}
    async with connected(hub, revision="2025-06-18", **listening, **options) as client:
        yield client


def watched(path: Path, **options: Any) -> PluginFolder:
    return folder(path, interval=0.01, **options)


# -- what a plugin is


@in_loop
async def test_files_packages_and_functions_that_register_are_plugins(tmp_path: Path) -> None:
    plugin(tmp_path / "a.py", "one")
    write(
        tmp_path / "b.py",
        "def register(server):\n    server.tool(name='two')(lambda: server.name)\n",
    )
    plugin(tmp_path / "package" / "__init__.py", "three")
    plugin(tmp_path / "odd-name.v2.py", "four")
    write(
        tmp_path / "c.py", TOOL.format(name="c", tool="five", text="x").replace("server", "tools")
    )
    for skipped in ("_helper.py", ".hidden.py", "notes.txt"):
        write(tmp_path / skipped, "raise SystemExit")
    (tmp_path / "data").mkdir()
    async with serving(folder(tmp_path)) as client:
        assert await names(client) == ["five", "four", "one", "own", "three", "two"]
        assert (await client.call_tool("two")).text == "b"


@in_loop
async def test_a_pattern_and_prefixes_are_chosen(tmp_path: Path) -> None:
    plugin(tmp_path / "a_tools.py", "one")
    plugin(tmp_path / "b_tools" / "__init__.py", "one")
    plugin(tmp_path / "other.py", "one")
    write(tmp_path / "package" / "__init__.py", "raise SystemExit")
    async with serving(folder(tmp_path, pattern="*_tools.py", prefix=True)) as client:
        assert await names(client) == ["a_tools_one", "b_tools_one", "own"]
        assert (await client.call_tool("a_tools_one")).text == "x"
    source = folder(
        tmp_path,
        pattern="*.py",
        prefix=lambda path: None if path.stem == "other" else path.stem[0].upper(),
    )
    async with serving(source.without("B_*")) as client:
        assert await names(client) == ["A_one", "one", "own"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match=r"there is no folder .*nowhere"):
        folder(tmp_path / "nowhere")


@in_loop
async def test_two_folders_have_files_and_helpers_of_the_same_names(tmp_path: Path) -> None:
    hub = Server("hub")
    for name in ("first", "second"):
        write(tmp_path / name / "_common.py", f"NAME = {name!r}\n")
        write(tmp_path / name / "helper" / "__init__.py", "from helper.deep import NAME\n")
        write(tmp_path / name / "helper" / "deep.py", f"NAME = {name.upper()!r}\n")
        write(
            tmp_path / name / "plugin.py",
            "from . import _common\n"
            "import helper\n"
            "def register(server):\n"
            "    @server.tool\n"
            "    def show() -> str:\n"
            "        'Show.'\n"
            "        from ._common import NAME as again\n"
            "        return f'{_common.NAME} {helper.NAME} {again}'\n",
        )
        hub.mount(folder(tmp_path / name, pattern="p*.py"), prefix=name)
    assert (await hub.call_tool("first_show")).text == "first FIRST first"
    assert (await hub.call_tool("second_show")).text == "second SECOND second"
    assert "helper" not in sys.modules
    assert "_common" not in sys.modules


# -- mistakes


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x = 1\ndef f(:\n", 2, "invalid syntax"),
        ("import os\nimport no_such_module\n", 2, "ModuleNotFoundError: No module named"),
        ("\n\n1 / 0\n", 3, "ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
        ("x = 1\n", None, "offers nothing: write server = Server"),
        ("def register(server):\n    raise ValueError('no')\n", 2, "ValueError: no"),
        ("async def register(server):\n    pass\n", None, "register is async"),
        ("from accord import Server\na = Server('a')\nb = Server('b')\n", None, "several servers"),
        ("x = '\x00'\n", None, "null bytes"),
        (
            "from accord import Server\nserver = Server('a')\nserver._core.auth = object()\n",
            None,
            "is protected",
        ),
    ],
)
def test_a_mistake_is_named_with_file_and_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, line: int | None, message: str
) -> None:
    plugin(tmp_path / "good.py", "good")
    bad = write(tmp_path / "bad.py", text)
    source = folder(tmp_path)
    assert [entry.key for entry in source.entries("tools")] == ["good"]
    assert list(source.failures) == [bad]
    said = str(source.failures[bad])
    assert said.startswith(str(bad) if line is None else f"{bad}:{line}: ")
    assert message in said
    assert said in caplog.text
    assert not [name for name in sys.modules if name.endswith(".bad")]


@in_loop
async def test_a_mistake_in_a_helper_is_named_there_and_mended_there(tmp_path: Path) -> None:
    helper = write(tmp_path / "_helper.py", "\n1 / 0\n")
    bad = write(
        tmp_path / "bad.py",
        "from ._helper import NAME\n"
        "def register(server):\n"
        "    server.tool(name=NAME)(lambda: NAME)\n",
    )
    late = write(tmp_path / "late.py", "import not_yet\nserver = not_yet.server\n")
    source, heard = watched(tmp_path), Heard()
    assert str(source.failures[bad]).startswith(f"{helper}:2: ZeroDivisionError")
    async with serving(source, heard) as client:
        assert await names(client) == ["own"]
        write(helper, "NAME = 'mended'\n")
        await heard.wait()
        assert await names(client) == ["mended", "own"]
        assert list(source.failures) == [late]
        plugin(tmp_path / "not_yet.py", "there")  # which is a plugin as well, and comes later
        await heard.wait()
        assert await names(client) == ["mended", "own", "there"]


@in_loop
async def test_of_two_tools_with_one_name_the_first_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = plugin(tmp_path / "a.py", "same", "first")
    two = plugin(tmp_path / "b.py", "same", "second")
    source, heard = watched(tmp_path), Heard()
    async with serving(source, heard) as client:
        assert (await client.call_tool("same")).text == "first"
        assert list(source.failures) == [two]
        said = str(source.failures[two])
        assert said.startswith(f"{two}:7: 'same' is left out: {one}:7")
        assert caplog.text.count(said) == 1
        one.unlink()
        await heard.wait()
        assert (await client.call_tool("same")).text == "second"
        assert source.failures == {}


@in_loop
async def test_links_and_unreadable_files_do_not_stop_the_others(tmp_path: Path) -> None:
    real = plugin(tmp_path / "elsewhere" / "real.txt", "linked")
    inside = tmp_path / "plugins"
    plugin(inside / "good.py", "good")
    (inside / "linked.py").symlink_to(real)
    (inside / "nowhere.py").symlink_to(tmp_path / "nothing")
    (inside / "circle.py").symlink_to(inside / "circle.py")
    (inside / "folder.py").mkdir()
    async with serving(folder(inside)) as client:
        assert await names(client) == ["good", "linked", "own"]


# -- changes


@pytest.mark.parametrize("transport", ["memory", "http"])
@in_loop
async def test_files_come_change_and_go_while_clients_are_connected(
    tmp_path: Path, transport: Any
) -> None:
    file = plugin(tmp_path / "a.py", "one", "1")
    heard = Heard()
    async with serving(watched(tmp_path), heard, transport=transport) as client:
        assert (await client.call_tool("one")).text == "1"
        plugin(file, "one", "2")  # of the same size, perhaps within the same second
        await heard.wait()
        assert (await client.call_tool("one")).text == "2"
        plugin(tmp_path / "b.py", "two")
        await heard.wait()
        assert await names(client) == ["one", "own", "two"]
        file.unlink()
        await heard.wait()
        assert await names(client) == ["own", "two"]
        with pytest.raises(RequestError, match="unknown tool 'one'"):
            await client.call_tool("one")


@in_loop
async def test_a_file_that_becomes_faulty_keeps_its_last_version(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = plugin(tmp_path / "a.py", "one", "1")
    source, heard = watched(tmp_path), Heard()
    async with serving(source, heard) as client:
        write(file, "def f(:\n")
        await until(lambda: "its last version stays in use" in caplog.text)
        assert list(source.failures) == [file]
        assert (await client.call_tool("one")).text == "1"
        plugin(file, "one", "2")
        await heard.wait()
        assert source.failures == {}
        assert (await client.call_tool("one")).text == "2"


SLOW = '''
import asyncio
from contextlib import asynccontextmanager
from accord import Context, Server

@asynccontextmanager
async def lifespan(server):
    LOG.append("begins {text}")
    yield "{text}"
    LOG.append("ends {text}")

server = Server("slow", lifespan=lifespan)
LOG = __import__("sys").modules["plugin_log"].LOG

@server.tool
async def slow(ctx: Context) -> str:
    """Wait until it may go on."""
    LOG.append("called {text}")
    await __import__("sys").modules["plugin_log"].GO.wait()
    return f"{text} {{ctx.state}}"

@server.tool
async def fast(ctx: Context) -> str:
    """Say which version it is."""
    return f"{text} {{ctx.state}}"

@server.resource("data://slow")
async def read(ctx: Context) -> str:
    return await slow(ctx)

@server.prompt
async def ask(ctx: Context) -> str:
    """Ask."""
    return await slow(ctx)
'''


@pytest.fixture
def plugin_log(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that plugins report to."""
    from types import ModuleType

    module: Any = ModuleType("plugin_log")
    module.LOG, module.GO = [], asyncio.Event()
    monkeypatch.setitem(sys.modules, "plugin_log", module)
    return module


@pytest.mark.parametrize("transport", ["memory", "http"])
@in_loop
async def test_calls_under_way_end_in_the_old_version(
    tmp_path: Path, plugin_log: Any, transport: Any
) -> None:
    file = write(tmp_path / "a.py", SLOW.format(text="old"))
    heard, events = Heard(), plugin_log.LOG
    async with serving(watched(tmp_path), heard, transport=transport) as client:
        calls = [
            asyncio.ensure_future(client.call_tool("slow")),
            asyncio.ensure_future(client.read_resource("data://slow")),
            asyncio.ensure_future(client.get_prompt("ask")),
        ]
        await until(lambda: events.count("called old") == 3)
        write(file, SLOW.format(text="new"))
        await until(lambda: heard)
        assert (await client.call_tool("fast")).text == "new new"
        assert "ends old" not in events
        plugin_log.GO.set()
        tool, resource, prompt = await asyncio.gather(*calls)
        assert tool.text == "old old"
        assert resource.contents[0].text == "old old"
        assert prompt.messages[0].content.text == "old old"
        await until(lambda: "ends old" in events)
        assert heard == ["tools"]
        assert events.index("begins new") < events.index("ends old")
    assert events[-1] == "ends new"


@in_loop
async def test_the_old_version_ends_after_its_grace(tmp_path: Path, plugin_log: Any) -> None:
    file = write(tmp_path / "a.py", SLOW.format(text="old"))
    events = plugin_log.LOG
    source = folder(tmp_path, watch=False, grace=0.01)
    async with serving(source) as client:
        call = asyncio.ensure_future(client.call_tool("slow"))
        await until(lambda: "called old" in events)
        write(file, SLOW.format(text="new"))
        await source.reload()
        await until(lambda: "ends old" in events)
        assert not call.done()
        plugin_log.GO.set()
        assert (await call).text.startswith("old")
        files = [getattr(each, "__file__", None) for each in [*sys.modules.values()]]
        assert files.count(str(file)) == 1


@in_loop
async def test_a_version_that_cannot_start_leaves_the_last_one_in_use(
    tmp_path: Path, plugin_log: Any
) -> None:
    file = write(tmp_path / "a.py", SLOW.format(text="old"))
    plugin(tmp_path / "b.py", "other")
    source = folder(tmp_path, watch=False)
    async with serving(source) as client:
        write(
            file,
            SLOW.format(text="new").replace("    yield", "    raise OSError('no disk')\n    yield"),
        )
        await source.reload()
        assert str(source.failures[file]).startswith(f"{file}:9: OSError: no disk")
        assert (await client.call_tool("fast")).text == "old old"
    # At the start of a server it is left out, and the others are served.
    source = folder(tmp_path, watch=False)
    async with serving(source) as client:
        assert await names(client) == ["other", "own"]
        assert list(source.failures) == [file]
        write(file, SLOW.format(text="newest"))
        await source.reload()
        assert (await client.call_tool("fast")).text == "newest newest"


@in_loop
async def test_helpers_are_loaded_with_the_plugin(tmp_path: Path) -> None:
    helper = write(tmp_path / "_words.py", "WORD = 'a'\n")
    write(
        tmp_path / "say.py",
        "from ._words import WORD\n"
        "def register(server):\n"
        "    server.tool(name='say')(lambda: WORD)\n",
    )
    heard = Heard()
    async with serving(watched(tmp_path), heard) as client:
        assert (await client.call_tool("say")).text == "a"
        write(helper, "WORD = 'b'\n")
        await heard.wait()
        assert (await client.call_tool("say")).text == "b"


@in_loop
async def test_a_file_that_is_written_in_two_steps_is_loaded_once(tmp_path: Path) -> None:
    file = plugin(tmp_path / "a.py", "one", "1")
    text = TOOL.format(name="a", tool="one", text="2")
    source, heard = watched(tmp_path), Heard()
    async with serving(source, heard) as client:
        with file.open("w", encoding="utf-8") as opened:  # emptied first
            opened.write(text[:30])
            opened.flush()
            await asyncio.sleep(0.02)  # clock: a writer pauses between two writes
            opened.write(text[30:])
        await heard.wait()
        assert (await client.call_tool("one")).text == "2"
        assert source.failures == {}


@in_loop
async def test_without_watching_files_are_loaded_once_and_by_hand(tmp_path: Path) -> None:
    file = plugin(tmp_path / "a.py", "one", "1")
    source, heard = folder(tmp_path, watch=False), Heard()
    async with serving(source, heard) as client:
        plugin(file, "one", "2")
        plugin(tmp_path / "b.py", "two")
        assert (await client.call_tool("one")).text == "1"
        await source.reload()
        assert (await client.call_tool("one")).text == "2"
        await heard.wait()
        assert await names(client) == ["one", "own", "two"]
        await source.reload()  # nothing has changed
        assert heard == []


@in_loop
async def test_a_plugin_changes_its_own_tools_while_it_runs(tmp_path: Path) -> None:
    write(
        tmp_path / "a.py",
        "def register(server):\n"
        "    @server.tool\n"
        "    async def grow() -> str:\n"
        "        'Offer another tool.'\n"
        "        server.tool(name='grown')(lambda: 'grown')\n"
        "        return 'x'\n",
    )
    heard = Heard()
    async with serving(folder(tmp_path, prefix=True), heard) as client:
        await client.call_tool("a_grow")
        await heard.wait()
        assert (await client.call_tool("a_grown")).text == "grown"


@in_loop
async def test_a_folder_that_vanishes_keeps_its_plugins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin(tmp_path / "plugins" / "a.py", "one")
    source = watched(tmp_path / "plugins")
    async with serving(source) as client:
        (tmp_path / "plugins").rename(tmp_path / "away")
        await until(lambda: "its plugins stay in use" in caplog.text)
        assert (await client.call_tool("one")).text == "x"
        (tmp_path / "away").rename(tmp_path / "plugins")
        await until(lambda: source.failures == {})
        assert (await client.call_tool("one")).text == "x"


@in_loop
async def test_the_watcher_ends_with_the_server(tmp_path: Path) -> None:
    import threading

    plugin(tmp_path / "a.py", "one")
    source = watched(tmp_path)
    for _ in range(2):
        async with serving(source) as client:
            assert (await client.call_tool("one")).text == "x"
        await until(
            lambda: not [each for each in threading.enumerate() if each.name == "accord-plugins"]
        )
