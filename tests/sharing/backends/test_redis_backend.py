"""What is special to Redis and Valkey: how they are reached, how they fail, and how they heal.

The contract suite checks what every backend does.
"""

import asyncio
import logging
import os
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from accord.errors import StoreFull, StoreUnavailable
from accord.sharing.backends.redis_backend import RedisBackend
from support.certificates import self_signed
from support.redis_stores import opened, until_works, use_everything
from support.valkey import (
    HOST,
    Valkey,
    free_port,
    running_valkey,
    tls_before,
)
from support.waiting import LONG, in_loop, run, until

pytestmark = pytest.mark.integration

PASSWORD = "tr0ub4dor"
# What a user of the engine needs to be allowed.
COMMANDS = (
    "+auth +ping +select +info +dbsize +role +time +cluster|slots "
    "+eval +evalsha +publish +subscribe +unsubscribe "
    "+get +getrange +set +del +unlink +pexpire "
    "+lindex +llen +lrange +lset +ltrim +lpush +rpush "
    "+zadd +zcount +zrange +zrangebyscore +zrem +zremrangebyscore +zscore"
)


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    """One that tests leave as it is."""
    with running_valkey() as server:
        yield server


# -- how they are reached


@in_loop
async def test_the_password_is_used_and_never_shown(caplog, tmp_path, monkeypatch):
    caplog.set_level(logging.DEBUG)
    with running_valkey(requirepass=PASSWORD) as server:
        async with opened(f"redis://:{PASSWORD}@{HOST}:{server.port}") as backend:
            assert backend.url == server.url
            await use_everything(backend, "name")
        texts = [repr(backend), repr(backend._target)]
        for url, cause in [
            (
                f"redis://:not-{PASSWORD}@{HOST}:{server.port}",
                "the user or the password (WRONGPASS)",
            ),
            (
                f"redis://user:{PASSWORD}@{HOST}:{server.port}",
                "the user or the password (WRONGPASS)",
            ),
            (f"redis://:{PASSWORD}@{HOST}:{free_port()}", "connection refused"),
            (f"redis://{HOST}:{server.port}", "it asks for a password, and the URL has none"),
        ]:
            with pytest.raises(StoreUnavailable) as caught:
                await RedisBackend(url).open()
            assert cause in str(caught.value)
            texts.append(str(caught.value))
        assert PASSWORD not in "".join(texts) + caplog.text


@in_loop
async def test_a_changed_password_file_is_read_for_the_next_connection(tmp_path, monkeypatch):
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    monkeypatch.setenv("STORE_PASSWORD", PASSWORD)
    with running_valkey(requirepass=PASSWORD) as server:
        url = f"redis://{HOST}:{server.port}"
        async with opened(f"{url}?password_variable=STORE_PASSWORD") as backend:
            await backend.put("r", b"x", ttl=60)
        async with opened(f"{url}?password_file={file}") as backend:
            with server.client(password=PASSWORD) as client:
                client.config_set("requirepass", "changed")
                file.write_text("changed\n")
                client.execute_command("CLIENT", "KILL", "TYPE", "normal")
            assert (await until_works(lambda: backend.get("r"))).value == b"x"


@in_loop
async def test_tls_checks_the_certificate_and_the_host(valkey, tmp_path):
    certificate = self_signed(tmp_path)
    async with tls_before(valkey, certificate) as port:
        async with opened(f"rediss://localhost:{port}?ssl_ca_certs={certificate[0]}") as backend:
            await use_everything(backend, "tls")
        async with opened(f"rediss://{HOST}:{port}?ssl_cert_reqs=none") as backend:
            await backend.put("tls", b"x" * 300_000, ttl=60)
            assert len((await backend.get("tls")).value) == 300_000
        for url, cause in [
            (f"rediss://localhost:{port}", "its certificate is not accepted: self-signed"),
            (f"rediss://{HOST}:{port}?ssl_ca_certs={certificate[0]}", "not valid for '127.0.0.1'"),
        ]:
            with pytest.raises(StoreUnavailable) as caught:
                await RedisBackend(url).open()
            assert cause in str(caught.value)


@in_loop
async def test_a_server_that_speaks_another_protocol_is_noticed(valkey, tmp_path):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n")
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(StoreUnavailable, match="it does not speak the protocol of Redis"):
        await RedisBackend(f"redis://{HOST}:{port}").open()
    server.close()
    with pytest.raises(StoreUnavailable, match=r"no answer within 0.2 s|closed"):
        await RedisBackend(f"rediss://localhost:{valkey.port}", timeout=0.2).open()


@in_loop
async def test_a_unix_socket_and_a_database_are_reached(tmp_path):
    path = tmp_path / "valkey.sock"
    with running_valkey(unixsocket=path) as server:
        async with (
            opened(f"redis+unix://{path}?db=3") as over_socket,
            opened(f"{server.url}/3") as same,
            opened(server.url) as other,
        ):
            assert not over_socket.is_remote
            await use_everything(over_socket, "name")
            await over_socket.put("r", b"x", ttl=60)
            assert await same.get("r") is not None
            assert await other.get("r") is None
    with pytest.raises(StoreUnavailable, match="no such file or directory"):
        await RedisBackend(f"redis+unix://{path}.other").open()


@in_loop
async def test_a_user_limited_to_the_namespace_is_enough(tmp_path):
    rules = f"~prod:* &prod:* -@all {COMMANDS}"
    (tmp_path / "users").write_text(f"user default off\nuser app on >{PASSWORD} {rules}\n")
    with running_valkey(aclfile=tmp_path / "users") as server:
        url = f"redis://app:{PASSWORD}@{HOST}:{server.port}"
        async with opened(url, namespace="prod") as backend:
            await use_everything(backend, "name")
            assert (await backend.describe())["engine"] == "valkey"
            await use_everything(backend, "again")
        async with opened(url, namespace="test") as stranger:
            for refused in (
                stranger.get("name"),
                stranger.append("name", [b"x"], ttl=60),
                stranger.notify("name"),
                stranger.follow("name", lambda: None),
            ):
                with pytest.raises(StoreUnavailable, match=r"app@127.*: NOPERM"):
                    await refused


@in_loop
async def test_a_user_without_info_is_enough(tmp_path):
    rules = "~* &* +@all -info -dbsize"
    (tmp_path / "users").write_text(f"user default on nopass {rules}\n")
    with running_valkey(aclfile=tmp_path / "users") as server:
        async with opened(server.url) as backend:
            await use_everything(backend, "name")


@in_loop
async def test_two_namespaces_do_not_see_each_other(valkey):
    async with (
        opened(valkey.url, namespace="one") as one,
        opened(valkey.url, namespace="two") as two,
    ):
        await one.put("n", b"x", ttl=60)
        await one.append("n", [b"x"], ttl=60)
        await one.add("n", ["x"], ttl=60)
        await one.take("n", cost=5, rate=0.001, burst=5)
        assert await two.get("n") is None
        assert await two.read("n") is None
        assert await two.count("n") == 0
        assert (await two.take("n", cost=5, rate=0.001, burst=5)).is_granted
        notified: list[int] = []
        await one.follow("n", lambda: notified.append(1))
        await two.follow("n", lambda: notified.append(2))
        await one.notify("n")
        await until(lambda: notified)
        await two.notify("n")
        await until(lambda: len(notified) > 1)
        assert notified == [1, 2]
    names = valkey.command("KEYS", "one:*")
    assert sorted(names) == ["one:b:n", "one:i:n", "one:l:n", "one:r:n"]
    assert all(valkey.command("PTTL", name) > 0 for name in names)


@in_loop
async def test_one_object_serves_several_users_and_opens_again(valkey):
    backend = RedisBackend(valkey.url)
    await asyncio.gather(backend.open(), backend.open())
    await backend.close()
    await backend.put("r", b"x", ttl=60)
    await backend.close()
    for use in (backend.get("r"), backend.follow("t", lambda: None)):
        with pytest.raises(StoreUnavailable, match="it is not open"):
            await use
    await backend.unfollow("t", lambda: None)
    await backend.close()
    await backend.open()
    assert await backend.get("r") is not None
    await backend.close()


def test_an_object_moves_to_the_next_loop_but_not_to_two(valkey):
    backend = RedisBackend(valkey.url)

    async def use() -> None:
        await backend.open()
        await backend.put("r", b"x", ttl=60)
        await backend.close()

    asyncio.run(use())
    asyncio.run(use())
    with closing(asyncio.new_event_loop()) as first:
        first.run_until_complete(backend.open())
        with pytest.raises(StoreUnavailable, match="it is open on another event loop"):
            asyncio.run(use())
        first.run_until_complete(backend.close())
        asyncio.run(use())


# -- many operations at once


@in_loop
async def test_many_operations_at_once_get_their_own_answers(valkey):
    async with opened(valkey.url) as backend:

        async def use(number: int) -> None:
            body = b"%d " % number * (number % 400)
            await backend.put(f"r{number}", body, ttl=60)
            await backend.append(f"l{number % 7}", [body], ttl=60)
            found = await backend.get(f"r{number}")
            assert found is not None
            assert found.value == body
            page = await backend.read(f"l{number % 7}")
            assert page is not None
            assert body in page.items

        await asyncio.gather(*map(use, range(1000)))
        # One for the operations, and none for notifications as nothing is followed.
        assert valkey.command("INFO", "clients")["connected_clients"] <= 3


@in_loop
async def test_cancelled_operations_do_not_disturb_the_others(valkey):
    async with opened(valkey.url) as backend:
        for number in range(50):
            await backend.put(f"r{number}", b"%d" % number, ttl=60)
        for start in range(50):
            tasks = [asyncio.create_task(backend.get(f"r{number}")) for number in range(50)]
            for _ in range(start % 4):
                await asyncio.sleep(0)
            for task in tasks[start % 3 :: 3]:
                task.cancel()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            for number, each in enumerate(found):
                assert isinstance(each, asyncio.CancelledError) or each.value == b"%d" % number


@in_loop
async def test_large_values_arrive_whole(valkey):
    async with opened(valkey.url, timeout=20) as backend:
        value = os.urandom(5_000_000)
        await backend.put("r", value, ttl=60)
        items = [os.urandom(10_000) for _ in range(1000)]
        await backend.append("l", items, ttl=60)
        found, page = await asyncio.gather(backend.get("r"), backend.read("l"))
        assert found.value == value
        assert page.items == items


def test_it_works_on_the_loop_of_uvloop(valkey):
    import uvloop

    async def use() -> None:
        async with opened(valkey.url) as backend:
            await asyncio.gather(*[use_everything(backend, f"uv{number}") for number in range(20)])

    uvloop.run(use())


# -- failures


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_an_answer_that_arrived_while_the_process_stood_still_counts(valkey, loop):
    async def use() -> None:
        async with opened(valkey.url, timeout=0.4) as backend:
            await until_works(lambda: backend.put("r", b"x", ttl=60))
            reading = asyncio.create_task(backend.get("r"))
            for _ in range(3):
                await asyncio.sleep(0)
            time.sleep(1)  # clock: a handler blocks the loop for longer than the time limit
            assert (await reading).value == b"x"

    if loop == "uvloop":
        import uvloop

        uvloop.run(use())
    else:
        run(use())


@in_loop
async def test_operations_that_wait_when_the_store_is_closed_are_unavailable(valkey):
    backend = RedisBackend(valkey.url)
    await backend.open()
    valkey.stop_process()
    try:
        waiting = [asyncio.create_task(backend.get("r")) for _ in range(5)]
        await asyncio.sleep(0)
        await backend.close()
    finally:
        valkey.continue_process()
    for each in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(each, StoreUnavailable)


@in_loop
async def test_a_server_that_stands_still_is_unavailable_and_heals(valkey):
    async with opened(valkey.url, timeout=0.5) as backend:
        notified: list[int] = []
        await until_works(lambda: backend.follow("t", lambda: notified.append(1)))
        await until_works(lambda: backend.put("r", b"x", ttl=60))
        valkey.stop_process()
        try:
            for operation in (
                backend.get("r"),
                backend.append("l", [b"x"], ttl=60),
                backend.follow("other", lambda: None),
            ):
                async with asyncio.timeout(LONG):
                    with pytest.raises(StoreUnavailable) as caught:
                        await operation
                assert str(caught.value) == (
                    f"the store {valkey.url} is not available: no answer within 0.5 s"
                )
        finally:
            valkey.continue_process()
        assert (await until_works(lambda: backend.get("r"))).value == b"x"
        await until(lambda: notified)


@in_loop
async def test_a_restart_heals_with_what_was_kept():
    with running_valkey(appendonly="yes", appendfsync="always") as server:
        async with opened(server.url) as backend:
            notified: list[int] = []
            await backend.follow("t", lambda: notified.append(1))
            version = await backend.put("r", b"x", ttl=60)
            await backend.append("l", [b"1", b"2"], ttl=60, fence=3, keep=1)
            server.kill()
            reads = asyncio.gather(*[backend.get("r") for _ in range(10)])
            await asyncio.sleep(0)
            server.start()
            assert {found.version for found in await reads} == {version}
            page = await backend.read("l")
            assert (page.items, page.first, page.last, page.fence) == ([b"2"], 2, 2, 3)
            assert await backend.put("r", b"y", ttl=60) > version
            await until(lambda: notified)  # notifications may have got lost
            notified.clear()
            await until_works(lambda: backend.notify("t"))
            await until(lambda: notified)


@in_loop
async def test_a_server_that_is_gone_is_reported_with_the_cause():
    with running_valkey() as server:
        async with opened(server.url, timeout=1.0) as backend:
            await backend.put("r", b"x", ttl=60)
            server.kill()
            for _ in range(3):
                with pytest.raises(StoreUnavailable) as caught:
                    await backend.get("r")
                assert server.url in str(caught.value)
            assert "connection refused" in str(caught.value)
            server.start()
            assert await until_works(lambda: backend.get("r")) is None


@in_loop
async def test_a_full_server_refuses_changes_whole_and_still_answers():
    with running_valkey() as server:
        async with opened(server.url) as backend:
            await backend.put("r", b"x", ttl=600)
            await backend.append("l", [b"x"], ttl=600)
            await backend.add("i", ["x"], ttl=600)
            server.command("CONFIG", "SET", "maxmemory", "500kb")  # less than it has
            for change in (
                backend.put("r", b"y", ttl=600),
                backend.append("l", [b"y"], ttl=600, fence=5, keep=1),
                backend.append("new", [b"y"], ttl=600),
                backend.add("i", ["y"], ttl=600),
                backend.seize("l", fence=0),
                backend.take("b", cost=1, rate=1, burst=5),
            ):
                with pytest.raises(StoreFull) as caught:
                    await change
                assert f"the store {server.url} has no room: OOM" in str(caught.value)
            assert (await backend.get("r")).value == b"x"
            page = await backend.read("l")
            assert (page.items, page.fence) == ([b"x"], 0)
            assert await backend.read("new") is None
            assert await backend.members("i") == ["x"]
            assert await backend.touch("r", ttl=600)
            assert await backend.remove("i", ["x"]) == 1
            assert await backend.delete("r")
            server.command("CONFIG", "SET", "maxmemory", "100mb")
            await use_everything(backend, "r")


@in_loop
async def test_scripts_are_loaded_again_when_the_server_forgot_them(valkey):
    async with opened(valkey.url) as backend:
        for name in ("before", "after"):
            valkey.command("SCRIPT", "FLUSH", "SYNC")
            await asyncio.gather(*[use_everything(backend, f"{name}{each}") for each in range(5)])


@in_loop
async def test_everything_is_notified_once_after_the_connection_broke(valkey):
    async with opened(valkey.url, namespace="topics") as backend:
        notified: list[str] = []
        for topic in ("a", "b", "c"):
            await backend.follow(topic, lambda topic=topic: notified.append(topic))
        gone = lambda: None  # noqa: E731
        await backend.follow("gone", gone)
        await backend.unfollow("gone", gone)
        assert valkey.command("CLIENT", "KILL", "TYPE", "pubsub") == 1
        await until(lambda: len(notified) >= 3)
        assert sorted(notified) == ["a", "b", "c"]
        notified.clear()
        await backend.notify("b", "b")
        await until(lambda: notified)
        await backend.notify("c")
        await until(lambda: "c" in notified)
        assert notified == ["b", "c"]
        channels = valkey.command("PUBSUB", "CHANNELS", "topics:*")
        assert sorted(channels) == ["topics:c:a", "topics:c:b", "topics:c:c"]


@in_loop
async def test_following_again_at_once_keeps_the_subscription(valkey):
    async with opened(valkey.url) as backend:
        notified: list[int] = []
        notify = lambda: notified.append(1)  # noqa: E731
        for _ in range(100):
            following = asyncio.create_task(backend.follow("t", notify))
            await asyncio.sleep(0)
            await backend.unfollow("t", notify)
            following.cancel()
            await asyncio.wait({following})
            await backend.follow("t", notify)
            notified.clear()
            await backend.notify("t")
            await until(lambda: notified)
            await backend.unfollow("t", notify)


# -- fitness


@pytest.mark.parametrize(
    ("config", "is_warned"),
    [
        ({"maxmemory": "100mb", "maxmemory_policy": "allkeys-lru"}, True),
        ({"maxmemory": "100mb", "maxmemory_policy": "volatile-ttl"}, True),
        ({"maxmemory": "100mb", "maxmemory_policy": "noeviction"}, False),
        ({"maxmemory_policy": "allkeys-lru"}, False),  # which never is full
    ],
)
def test_eviction_of_keys_is_warned_about_once(config, is_warned, caplog):
    with running_valkey(**config) as server:
        backend = RedisBackend(server.url)

        async def open_and_close() -> None:
            await backend.open()
            await backend.close()

        asyncio.run(open_and_close())
        asyncio.run(open_and_close())
    warned = [record.getMessage() for record in caplog.records]
    assert len(warned) == is_warned
    if is_warned:
        assert warned[0].startswith(
            f"{server.url} has maxmemory-policy {config['maxmemory_policy']}: when it is full"
        )


@in_loop
async def test_a_replica_is_not_fit():
    refused = pytest.raises(StoreUnavailable, match="it is a replica, which takes no changes")
    with (
        running_valkey() as master,
        running_valkey(replicaof=f"{HOST} {master.port}") as replica,
        refused,
    ):
        await RedisBackend(replica.url).open()


@in_loop
async def test_a_server_that_becomes_a_replica_takes_no_changes_until_it_is_a_master_again(valkey):
    with running_valkey() as server:
        async with opened(server.url, timeout=1.0) as backend:
            await backend.put("r", b"x", ttl=600)
            server.command("REPLICAOF", HOST, valkey.port)
            with pytest.raises(StoreUnavailable, match=r"READONLY|has become a replica"):
                await backend.put("r", b"y", ttl=600)
            server.command("REPLICAOF", "NO", "ONE")
            await until_works(lambda: backend.put("r", b"y", ttl=600))
