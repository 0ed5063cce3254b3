"""Servers behind a proxy that fail, flood or lie: they harm their own entries and calls alone."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from accord import Server, connect
from accord.compose import ProxySource, proxy
from accord.errors import AccordError, ConnectFailed, InternalError
from accord.types import CreateMessageResult, TextContent
from support.http_server import serving
from support.waiting import in_loop, until

SCRIPTED = str(Path(__file__).with_name("scripted.py"))


def scripted(manner: str, *more: str, **options: Any) -> ProxySource:
    command = [sys.executable, SCRIPTED, manner, *more]
    options.setdefault("revision", "2025-06-18")
    return proxy(command, name=manner, **options)


def hub_with(*sources: ProxySource) -> Server[Any]:
    """Return a server with a tool of its own and proxies, each under its name."""
    hub: Server[Any] = Server("hub")

    @hub.tool
    async def own() -> str:
        """Answer."""
        return "well"

    for source in sources:
        hub.mount(source, prefix=source.name)
    return hub


async def names(client: Any) -> list[str]:
    return [tool.name for tool in (await client.list_tools(fresh=True)).tools]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@in_loop
async def test_one_that_does_not_start_leaves_the_others_alone(caplog: Any) -> None:
    missing = proxy(["/does/not/exist"], name="missing")
    async with connect(hub_with(missing, scripted("good"))) as client:
        assert await names(client) == ["own", "good_work"]
        assert (await client.call_tool("own")).text == "well"
    assert "proxy('missing') is not available yet" in caplog.text


@in_loop
async def test_one_that_is_required_stops_the_start_and_is_named() -> None:
    hub = hub_with(proxy(["/does/not/exist"], name="missing", required=True))
    with pytest.raises(AccordError, match=r"missing.*is not available.*does/not/exist"):
        async with hub.run_lifespan():
            pass


@in_loop
async def test_one_that_says_nothing_delays_the_start_no_longer_than_it_may() -> None:
    silent = scripted("silent", start_timeout=0.05)
    async with connect(hub_with(silent, scripted("good"))) as client:
        assert (await client.call_tool("good_work")).text.isdigit()
        assert (await client.call_tool("own")).text == "well"


@in_loop
async def test_one_that_dies_fails_its_own_call_and_is_renewed(tmp_path: Path) -> None:
    started = tmp_path / "started"
    async with connect(hub_with(scripted("dies", str(started)), scripted("good"))) as client:
        for _ in range(2):
            failed = await client.call_tool("dies_work")
            assert (failed.is_error, failed.text) == (True, "dies: it is not available")
            assert (await client.call_tool("good_work")).text.isdigit()
            assert "dies_work" in await names(client)
            await until(lambda: not is_alive(int(started.read_text().split()[-1])))
    pids = [int(word) for word in started.read_text().split()]
    assert len(pids) >= 2
    await until(lambda: not any(map(is_alive, pids)))


@in_loop
async def test_a_call_that_hangs_is_given_up_and_others_go_on() -> None:
    async with connect(hub_with(scripted("hangs", timeout=0.2), scripted("good"))) as client:
        hanging = asyncio.create_task(client.call_tool("hangs_work"))
        assert (await client.call_tool("good_work")).text.isdigit()
        failed = await hanging
        assert (failed.is_error, failed.text) == (True, "hangs: no answer in time")


@in_loop
async def test_an_answer_that_breaks_the_protocol_is_the_failure_of_its_call() -> None:
    async with connect(hub_with(scripted("wrong"))) as client:
        failed = await client.call_tool("wrong_work")
        assert failed.is_error
        assert failed.text.startswith("wrong: its answer breaks the protocol")
        assert (await client.call_tool("own")).text == "well"


@in_loop
async def test_a_flood_of_changes_and_logs_ends_with_the_right_lists() -> None:
    seen: list[Any] = []
    hub = hub_with(scripted("floods"), scripted("good"))
    async with connect(hub, on_log=seen.append, revision="2025-06-18") as client:
        flood = asyncio.create_task(client.call_tool("floods_work"))
        assert (await client.call_tool("good_work")).text.isdigit()
        assert (await flood).text.isdigit()
        assert await names(client) == ["own", "floods_work", "good_work"]
        assert {message.data for message in seen} <= {f"line {n}" for n in range(3000)}


@in_loop
async def test_hostile_names_are_left_out_and_logged_without_their_control_characters(
    caplog: Any,
) -> None:
    async with connect(hub_with(scripted("hostile"))) as client:
        listed = await names(client)
        assert listed == ["own", "hostile_own", "hostile_twice", "hostile_work"]
        assert (await client.call_tool("own")).text == "well"
    assert "\x1b" not in caplog.text
    assert "'hostile_twice' is registered twice" in caplog.text


@in_loop
async def test_an_entry_whose_name_is_taken_is_left_out_and_the_other_one_stays(
    caplog: Any,
) -> None:
    hub = hub_with()
    hub.mount(scripted("hostile"))
    async with connect(hub) as client:
        assert (await client.call_tool("own")).text == "well"
        assert (await names(client)).count("own") == 1
    assert "tool 'own' is registered twice" in caplog.text


@in_loop
async def test_a_list_without_end_is_cut(caplog: Any) -> None:
    many, endless = scripted("many", most_entries=1500), scripted("endless", empty_pages=5)
    async with connect(hub_with(many, endless)) as client:
        listed = [tool.name async for tool in client.tools()]
        assert len(listed) == 1501
    assert "only 1500 of its tools are taken over" in caplog.text
    assert "endless" in caplog.text


@in_loop
async def test_a_question_reaches_the_client_whose_call_it_is() -> None:
    def answer(word: str) -> Any:
        return lambda params: CreateMessageResult("assistant", TextContent(word), "model")

    hub = hub_with(scripted("asks"))
    async with (
        connect(hub, on_sample=answer("first")) as first,
        connect(hub, on_sample=answer("second")) as second,
        connect(hub) as mute,
    ):
        calls = [each.call_tool("asks_work") for each in (first, second, mute)]
        one, two, none = [found.text for found in await asyncio.gather(*calls)]
    assert "first" in one
    assert "second" in two
    assert "-32" in none


@in_loop
async def test_each_session_has_a_connection_of_its_own_unless_they_are_shared() -> None:
    for connections, count in (("session", 2), ("shared", 1)):
        hub = hub_with(scripted("good", connections=connections))
        async with connect(hub) as first, connect(hub) as second:
            pids = [(await each.call_tool("good_work")).text for each in (first, second)]
            again = [(await each.call_tool("good_work")).text for each in (first, second)]
        assert pids == again
        assert len({*pids}) == count


@in_loop
async def test_nothing_is_left_when_the_server_ends(tmp_path: Path) -> None:
    started = tmp_path / "started"
    async with connect(hub_with(scripted("good", str(started)))) as client:
        await client.call_tool("good_work")
    pids = [int(word) for word in started.read_text().split()]
    assert pids
    await until(lambda: not any(map(is_alive, pids)))


# -- loops


@in_loop
async def test_a_proxy_to_its_own_server_is_found(caplog: Any) -> None:
    hub = hub_with()
    with serving(hub.asgi()) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        hub.mount(proxy(url, name="self"), prefix="self")
        async with connect(url) as client:
            await until(lambda: "leads back to its own server: that is a loop" in caplog.text)
            assert await names(client) == ["own"]


@in_loop
async def test_two_servers_that_are_proxies_of_each_other_are_found(caplog: Any) -> None:
    one, two = hub_with(), hub_with()
    with serving(one.asgi()) as port, serving(two.asgi()) as other_port:
        first, second = (f"http://127.0.0.1:{each}/mcp" for each in (port, other_port))
        one.mount(proxy(second, name="two"), prefix="two")
        async with connect(first) as client:
            await until(lambda: one.find("tools", "two_own"))
            two.mount(proxy(first, name="one"), prefix="one")
            async with connect(second) as other:
                await until(lambda: "that is a loop" in caplog.text)
                assert await names(other) == ["own"]
            assert await names(client) == ["own", "two_own"]


@in_loop
async def test_a_command_that_launches_itself_is_launched_once(tmp_path: Path) -> None:
    path, started = tmp_path / "again.py", tmp_path / "started"
    path.write_text(
        "import os, sys\n"
        "from accord import Server\n"
        "from accord.compose import proxy\n"
        f"open({str(started)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        "server = Server('again')\n"
        "server.mount(proxy([sys.executable, __file__], name='again'), prefix='again')\n"
        "@server.tool\n"
        "def own() -> str:\n"
        "    'Answer.'\n"
        "    return 'well'\n"
        "if __name__ == '__main__':\n"
        "    server.run()\n"
    )
    async with connect([sys.executable, str(path)]) as client:
        assert (await client.call_tool("own")).text == "well"
    pids = started.read_text().split()
    assert len(pids) <= 3
    await until(lambda: not any(is_alive(int(pid)) for pid in pids))


def test_a_chain_in_the_environment_that_names_the_proxy_is_refused(monkeypatch: Any) -> None:
    source = proxy(["some-server"], name="some")
    chain = source.with_chain({})["env"]["ACCORD_PROXY_CHAIN"]
    monkeypatch.setenv("ACCORD_PROXY_CHAIN", os.pathsep.join(["other", chain]))
    with pytest.raises(ConnectFailed, match="launches itself"):
        source.with_chain({})


def test_a_request_that_has_passed_too_many_proxies_is_refused() -> None:
    source = proxy(["some-server"], name="some")
    with pytest.raises(InternalError, match="has passed 16 proxies"):
        source.check_via([str(number) for number in range(16)])
