"""Several servers of Redis or Valkey: sentinels, failovers and clusters."""

import asyncio
from typing import Any

import pytest

from accord.errors import StoreUnavailable
from accord.sharing.backends.redis_backend import RedisBackend
from accord.sharing.backends.redis_connection import EngineError
from accord.sharing.backends.redis_routes import find_slot
from support.redis_stores import in_turn, opened, scripted_engine, until_works, use_everything
from support.valkey import (
    HOST,
    Valkey,
    free_port,
    running_cluster,
    running_sentinel,
    running_valkey,
)
from support.waiting import in_loop, until

pytestmark = pytest.mark.integration


@in_loop
async def test_sentinels_lead_to_the_new_master_after_a_failover():
    with running_sentinel() as sentinels:
        url = sentinels.url.replace("://", f"://{HOST}:{free_port()},")  # one that is away
        async with opened(url) as backend:
            await use_everything(backend, "name")
            notified: list[int] = []
            await backend.follow("t", lambda: notified.append(1))
            version = await backend.put("r", b"x", ttl=600)
            with sentinels.replica.client() as replica:
                await until(lambda: replica.get("accord:r:r"))
            sentinels.master.kill()
            kept = await until_works(lambda: backend.get("r"))
            assert (kept.value, kept.version) == (b"x", version)
            await until_works(lambda: backend.put("r", b"y", ttl=600))
            assert sentinels.replica.command("GET", "accord:r:r").endswith("y")
            await until(lambda: notified)
            await use_everything(backend, "other")


@pytest.mark.thorough  # sentinels look at a server that they demoted every ten seconds
@in_loop
async def test_a_demoted_master_is_left():
    with running_sentinel() as sentinels:
        async with opened(sentinels.url) as backend:
            await backend.put("r", b"x", ttl=600)
            with sentinels.replica.client() as replica:
                await until(lambda: replica.get("accord:r:r"))
            sentinels.sentinel.command("SENTINEL", "FAILOVER", sentinels.name)
            await until(lambda: sentinels.master.command("ROLE")[0] == "slave")
            await until_works(lambda: backend.put("r", b"y", ttl=600))
            assert sentinels.replica.command("GET", "accord:r:r").endswith("y")


@in_loop
async def test_sentinels_that_do_not_help_are_named():
    with running_valkey() as server:
        away = free_port()
        for url, cause in [
            (f"redis+sentinel://{HOST}:{away}/main", f"{HOST}:{away}: connection refused"),
            (f"redis+sentinel://{HOST}:{server.port}/main", "unknown command 'SENTINEL'"),
        ]:
            with pytest.raises(StoreUnavailable) as caught:
                await RedisBackend(url).open()
            assert "no sentinel names the master" in str(caught.value)
            assert cause in str(caught.value)


def port_of(url: str) -> bytes:
    return url.rpartition(":")[2].encode()


@pytest.mark.parametrize(
    ("role", "cause"),
    [
        ([b"slave", b"127.0.0.1", 1], "is not a master any more"),
        ([b"master", 0, []], None),
        (EngineError("NOPERM no permissions to run the 'role' command"), None),
    ],
)
@in_loop
async def test_a_server_that_sentinels_name_too_late_is_not_used(role, cause):
    async with scripted_engine(lambda words: role if words[0] == b"ROLE" else None) as master:
        address = [HOST.encode(), port_of(master)]
        async with scripted_engine(
            lambda words: address if words[0] == b"SENTINEL" else None
        ) as sentinel:
            backend = RedisBackend(sentinel.replace("redis:", "redis+sentinel:") + "/main")
            if cause is None:
                await backend.open()
                await backend.close()
                return
            with pytest.raises(StoreUnavailable, match=cause):
                await backend.open()


@in_loop
async def test_a_master_that_sentinels_do_not_know_is_named():
    with running_sentinel() as sentinels:
        backend = RedisBackend(f"redis+sentinel://{HOST}:{sentinels.sentinel.port}/other")
        with pytest.raises(StoreUnavailable, match="it does not know 'other'"):
            await backend.open()


class ScriptedNode:
    """A node of a cluster that says what a test wants."""

    def __init__(self) -> None:
        self.layout: list[Any] = []
        self.got: Any = b"0000000000000001x"
        self.asked: list[bytes] = []

    def answer(self, words: list[bytes]) -> Any:
        self.asked.append(words[0])
        if words[0] == b"CLUSTER":
            return self.layout
        return self.got if words[0] == b"GET" else None


@in_loop
async def test_a_node_that_left_the_cluster_is_not_asked_any_more():
    first, second = ScriptedNode(), ScriptedNode()
    async with scripted_engine(first.answer) as one, scripted_engine(second.answer) as two:
        ports = [int(port_of(url)) for url in (one, two)]
        # Nodes that do not know their own host are at the one that was asked.
        both = [[0, 8191, [None, ports[0]]], [8192, 16383, [b"", ports[1]]]]
        alone = [[0, 16383, [HOST.encode(), ports[0]]]]
        first.layout = second.layout = both
        low, high = name_in(range(8192)), name_in(range(8192, 16384))
        async with opened(f"redis+cluster://{HOST}:{ports[1]}") as backend:
            assert await backend.get(low) is not None
            assert await backend.get(high) is not None
            first.layout = second.layout = alone
            second.got = EngineError(f"MOVED {slot_of(high)} :{ports[0]}")
            assert await backend.get(high) is not None
            assert second.asked.count(b"GET") == 2
            await until(lambda: len(backend._routes._links) == 1)
            second.asked.clear()
            for number in range(50):
                assert await backend.get(f"n{number}") is not None
            assert second.asked == []


@pytest.mark.parametrize(
    ("layout", "cause"),
    [([], "it has no slots"), (EngineError("NOPERM no permissions"), "NOPERM no permissions")],
)
@in_loop
async def test_a_node_without_a_layout_is_not_fit(layout, cause):
    node = ScriptedNode()
    node.layout = layout
    async with scripted_engine(node.answer) as url:
        with pytest.raises(StoreUnavailable, match=f"no node knows the layout: .*{cause}"):
            await RedisBackend(url.replace("redis:", "redis+cluster:")).open()


def name_in(slots: range) -> str:
    """A name in these slots, whatever has it."""
    return next(name for name in map("{{n{}}}".format, range(100_000)) if slot_of(name) in slots)


def slot_of(name: str) -> int:
    return find_slot(name.encode())


@in_loop
async def test_a_cluster_keeps_everything_wherever_it_is():
    with running_cluster(3) as nodes:
        url = f"redis+cluster://{HOST}:{free_port()},{HOST}:{nodes[1].port}"
        with pytest.raises(StoreUnavailable, match="needs a redis\\+cluster:// URL"):
            await RedisBackend(nodes[0].url).open()
        async with opened(url) as backend:
            names = [f"name{number}" for number in range(12)] + ["{tag}a", "b{tag}c", "{}", "d}{"]
            await asyncio.gather(*[use_everything(backend, name) for name in names])
            for name in names:
                await backend.put(name, name.encode(), ttl=600)
            assert {node.command("DBSIZE") > 0 for node in nodes} == {True}
            tagged = [node for node in nodes if node.command("KEYS", "accord:r:*{tag}*")]
            assert len(tagged) == 1
            await check_moving_a_slot(backend, nodes)
            await check_losing_a_node(backend, nodes)
    with pytest.raises(StoreUnavailable, match=r"no node knows the layout: .* connection refused"):
        await RedisBackend(url).open()


async def check_moving_a_slot(backend: RedisBackend, nodes: list[Valkey]) -> None:
    """While a slot moves, its keys are found on both nodes; then on the other."""
    name = name_in(range(5461))
    key = f"accord:r:{name}"
    slot = slot_of(key)
    source, target = nodes[0], nodes[2]
    await backend.put(name, b"stays", ttl=600)
    ids = {node.port: node.command("CLUSTER", "MYID") for node in nodes}
    target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source.port])
    source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target.port])
    assert (await backend.get(name)).value == b"stays"
    source.command("MIGRATE", HOST, target.port, key, 0, 5000)
    assert (await backend.get(name)).value == b"stays"  # by ASK
    version = await backend.put(name, b"moved", ttl=600)
    for node in nodes:
        node.command("CLUSTER", "SETSLOT", slot, "NODE", ids[target.port])
    assert await backend.put(name, b"again", ttl=600, expect=version) > version  # by MOVED
    assert target.command("GET", key).endswith("again")


async def check_losing_a_node(backend: RedisBackend, nodes: list[Valkey]) -> None:
    """Keys of a node that is away are unavailable, the others are not; it heals."""
    lost, kept = name_in(range(1000)), name_in(range(11000, 16000))
    notified: list[int] = []
    await backend.follow("t", lambda: notified.append(1))
    await backend.put(kept, b"x", ttl=600)
    nodes[0].kill()
    with pytest.raises(StoreUnavailable, match=r"connection refused|closed|CLUSTERDOWN"):
        await in_turn([backend.put(lost, b"x", ttl=600) for _ in range(1000)])
    assert (await until_works(lambda: backend.get(kept))).value == b"x"
    await until(lambda: notified)  # the notifications come from another node now
    notified.clear()
    await until_works(lambda: backend.append(kept, [b"x"], ttl=600, notify=["t"]))
    await until(lambda: notified)
    nodes[0].start()
    await until_works(lambda: backend.put(lost, b"y", ttl=600))
    await until_works(lambda: use_everything(backend, lost))


@in_loop
async def test_a_server_alone_is_not_a_cluster():
    refused = pytest.raises(StoreUnavailable, match="it is not part of a cluster; use a redis://")
    with running_valkey() as valkey, refused:
        await RedisBackend(f"redis+cluster://{HOST}:{valkey.port}").open()


@pytest.mark.thorough  # the nodes agree on a new master after some seconds
@in_loop
async def test_a_replica_takes_over_from_the_node_of_a_cluster_that_is_gone():
    with running_cluster(3, replicas=1) as nodes:
        first, second, _, replica = nodes
        async with opened(f"redis+cluster://{HOST}:{second.port}") as backend:
            notified: list[int] = []
            await backend.follow("t", lambda: notified.append(1))
            name = name_in(range(5461))
            await backend.put(name, b"x", ttl=600)
            with replica.client() as client:
                client.execute_command("READONLY")
                await until(lambda: client.get(f"accord:r:{name}"))
            first.kill()
            await until_works(lambda: backend.put(name, b"y", ttl=600))
            assert replica.command("GET", f"accord:r:{name}").endswith("y")
            await until_works(lambda: use_everything(backend, name))
            notified.clear()
            await backend.notify("t")
            await until(lambda: notified)
