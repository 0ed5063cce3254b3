"""The end of a connection: whatever causes it, nothing is left and no call waits for ever."""

import asyncio
import gc
import json
import os
import random
import subprocess
import sys
import threading

import pytest

from accord.client import connect
from accord.errors import ConnectionClosed
from support.leftovers import Leftovers
from support.running import to_the_end
from support.waiting import until, until_sync

QUICK = {"exit_grace": 0.2, "terminate_grace": 0.2}


async def grandchild(client, **how):
    return int((await client.call_tool("spawn", how)).content[0].text)


# -- what close leaves


@to_the_end
async def test_nothing_is_left_after_close(wayward):
    async def cycle():
        client = await connect(wayward())
        await client.call_tool("echo")
        await client.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    await cycle()
    left = Leftovers()
    for _ in range(10):
        await cycle()
    assert not left


def test_a_server_that_ends_with_its_input_is_given_the_time(wayward, run, tmp_path):
    goodbye = tmp_path / "goodbye"

    async def main():
        async with connect(wayward(goodbye=str(goodbye)), exit_grace=30):
            pass

    run(main())
    assert goodbye.read_text() == "goodbye"


@pytest.mark.parametrize("stubborn", [False, True], ids=["ends by SIGTERM", "ends by SIGKILL"])
def test_a_server_that_stays_is_made_to_go(stubborn, wayward, run, tmp_path, is_running):
    pid_file = tmp_path / "pid"

    async def main():
        target = wayward(stays=True, stubborn=stubborn, pid_file=str(pid_file))
        async with connect(target, **QUICK):
            assert is_running(int(pid_file.read_text()))

    run(main())
    assert not is_running(int(pid_file.read_text()))


@pytest.mark.parametrize("stubborn", [False, True], ids=["plain", "stubborn"])
@pytest.mark.parametrize("quiet", [True, False], ids=["quiet", "holding the pipes"])
def test_children_of_the_server_are_gone_after_close(stubborn, quiet, wayward, run, is_running):
    async def main():
        async with connect(wayward(), **QUICK) as client:
            pid = await grandchild(client, stubborn=stubborn, quiet=quiet)
            assert is_running(pid)
        return pid

    assert not is_running(run(main()))


def test_children_of_a_server_that_died_are_gone_too(wayward, run, is_running):
    async def main():
        client = await connect(wayward(), **QUICK)
        pid = await grandchild(client, quiet=False)
        with pytest.raises(ConnectionClosed):
            await client.call_tool("leave", {"code": 1})
        await client.close()
        return pid

    assert not is_running(run(main()))


def test_an_error_inside_the_block_ends_the_server_and_stays_itself(wayward, run, is_running):
    pids = []

    async def main():
        async with connect(wayward(), **QUICK) as client:
            pids.append(await grandchild(client))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(main())
    assert not is_running(pids[0])


# -- closing from other tasks and threads


@to_the_end
async def test_closing_twice_or_at_once_from_many_tasks_is_fine(wayward):
    client = await connect(wayward())
    await asyncio.gather(*(client.close() for _ in range(5)))
    await client.close()
    assert client.is_closed


@to_the_end
async def test_connect_in_one_task_and_close_in_another(wayward):
    client = await asyncio.create_task(_connected(wayward()))
    await client.ping()
    await asyncio.create_task(client.close())


async def _connected(target):
    return await connect(target)


@to_the_end
async def test_many_clients_close_in_any_order(wayward):
    clients = await asyncio.gather(*(_connected(wayward()) for _ in range(6)))
    random.Random(4).shuffle(clients)
    for client in clients:
        await client.ping()
        await client.close()


@to_the_end
async def test_a_callback_may_close_the_client(wayward):
    closed = asyncio.Event()

    async def on_log(message):
        closed.set()
        await client.close()

    client = await connect(wayward(), on_log=on_log)
    notice = {"method": "notifications/message", "params": {"level": "info", "data": 1}}
    with pytest.raises(ConnectionClosed):
        await asyncio.gather(
            client.call_tool("never"), client.call_tool("tell", {"notices": [notice]})
        )
    await closed.wait()
    await client.close()


def test_closing_on_another_loop_works(wayward, is_running):
    async def opened():
        client = await connect(wayward())
        return client, await grandchild(client)

    loop = asyncio.new_event_loop()
    client, pid = loop.run_until_complete(opened())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run(client.close())
    assert not is_running(pid)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)
    loop.close()


def test_a_closing_that_is_cancelled_still_ends_the_server(wayward, run, is_running, eventually):
    async def main():
        client = await connect(
            wayward(stays=True, stubborn=True), exit_grace=0.3, terminate_grace=0.1
        )
        pid = await grandchild(client)
        closing = asyncio.ensure_future(client.close())
        await asyncio.sleep(0.05)  # clock: within the time that the server may take to end
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await client.close()
        return pid

    assert not is_running(run(main()))


# -- calls under way


@to_the_end
async def test_calls_under_way_fail_when_we_close(wayward):
    client = await connect(wayward())
    calls = [asyncio.ensure_future(client.call_tool("never")) for _ in range(3)]
    await client.ping()
    await client.close()
    for call in calls:
        with pytest.raises(ConnectionClosed, match="the client is closed"):
            await call
    with pytest.raises(ConnectionClosed):
        await client.call_tool("echo")
    with pytest.raises(ConnectionClosed):
        await client.roots_changed()


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"code": 4, "words": "out of memory\n"}, "ended with exit code 4"),
        ({"wound": True}, "was ended by SIGKILL"),
    ],
    ids=["exit", "signal"],
)
@to_the_end
async def test_calls_under_way_fail_when_the_server_ends(how, told, wayward):
    async with connect(wayward()) as client:
        waiting = asyncio.ensure_future(client.call_tool("never"))
        with pytest.raises(ConnectionClosed, match=told):
            await client.call_tool("leave", how)
        with pytest.raises(ConnectionClosed, match=told):
            await waiting
        for _ in range(2):
            with pytest.raises(ConnectionClosed, match=told):
                await client.ping()
        assert client.is_closed


@to_the_end
async def test_the_last_words_of_a_server_are_part_of_the_error(wayward):
    async with connect(wayward()) as client:
        with pytest.raises(ConnectionClosed, match="out of memory"):
            await client.call_tool("leave", {"code": 4, "words": "out of memory\n"})


@to_the_end
async def test_a_server_that_closes_its_output_has_ended(wayward):
    async with connect(wayward(), **QUICK) as client:
        with pytest.raises(ConnectionClosed, match="closed its output"):
            await client.call_tool("hush")


# -- forgotten clients


def test_a_forgotten_client_is_ended_by_the_garbage_collector(wayward, run, is_running, caplog):
    async def main():
        client = await connect(wayward(), **QUICK)
        pid = await grandchild(client)
        del client
        gc.collect()
        await until(lambda: not is_running(pid) and len(asyncio.all_tasks()) == 1)

    run(main())
    assert "was not closed" in caplog.text


def test_a_client_that_outlives_its_loop_is_ended_with_it(wayward, is_running):
    async def opened():
        client = await connect(wayward(), **QUICK)
        return client, await grandchild(client)

    client, pid = asyncio.run(opened())
    assert not is_running(pid)
    assert client.is_closed
    asyncio.run(client.close())


def test_a_client_on_a_loop_that_just_stops_is_ended_when_it_is_forgotten(wayward, is_running):
    left = Leftovers()

    async def opened():
        client = await connect(wayward(), **QUICK)
        return client, await grandchild(client)

    loop = asyncio.new_event_loop()
    client, pid = loop.run_until_complete(opened())
    loop._selector.close()  # as a crash would
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False
    loop._closed = True
    del client
    gc.collect()
    until_sync(lambda: not is_running(pid))  # a signal takes its time
    loop._ssock.close()
    loop._csock.close()
    assert left.descriptors() <= 1


FORGETFUL = """
import asyncio, sys, json
from accord.client import connect
async def main():
    client = await connect(json.loads(sys.argv[1]))
    pid = (await client.call_tool("spawn", {"stubborn": True})).content[0].text
    print(pid, flush=True)
    if sys.argv[2] == "exit":
        raise SystemExit(0)
    loop.stop()
loop = asyncio.new_event_loop()
if sys.argv[2] == "exit":
    asyncio.run(main())
else:
    keep = loop.create_task(main())
    loop.run_forever()
"""


@pytest.mark.parametrize("way", ["exit", "stop"])
def test_no_process_survives_a_program_that_forgets_to_close(way, wayward, is_running, eventually):
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL, json.dumps(wayward()), way],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    pid = int(done.stdout)
    assert eventually(lambda: not is_running(pid)), done.stderr


def test_connecting_and_closing_over_and_over_leaves_no_process(wayward, run):
    def children():
        return subprocess.run(
            ["ps", "--ppid", str(os.getpid()), "-o", "pid=,comm="],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.splitlines()

    before = children()  # those of other tests, such as the one that forks the command line

    async def main():
        for _ in range(15):
            async with connect(wayward()) as client:
                await client.ping()

    run(main())
    until_sync(lambda: not [each for each in children() if "python" in each and each not in before])
