"""Values that only holders of the keys can read."""

import sys

import pytest

from accord.errors import Conflict, DamagedRecord, MissingExtra, StoreError
from accord.sharing.backends.memory_backend import MemoryBackend
from accord.sharing.backends.sealed_backend import KeyRing, SealedBackend
from support.waiting import in_loop, until

OLD, NEW, FOREIGN = "o" * 32, "n" * 32, "f" * 32
SECRET = b"the secret of a session"


class Namespaced(MemoryBackend):
    """One that belongs to a deployment."""

    def __init__(self, namespace: str) -> None:
        super().__init__()
        self.namespace = namespace


def sealed(backend, *keys):
    return SealedBackend(backend, KeyRing(keys or [OLD]))


async def raw_entries(backend, log):
    page = await backend.read(log)
    return page.items


@in_loop
async def test_records_and_entries_are_kept_encrypted_and_read_in_clear():
    inner = MemoryBackend()
    backend = sealed(inner)
    version = await backend.put("r", SECRET, ttl=60)
    await backend.append("l", [SECRET, b""], ttl=60)

    assert (await backend.get("r")).value == SECRET
    assert (await backend.get("r")).version == version == (await inner.get("r")).version
    page = await backend.read("l", after=0)
    assert (page.items, page.first, page.last) == ([SECRET, b""], 1, 2)
    for value in [(await inner.get("r")).value, *await raw_entries(inner, "l")]:
        assert SECRET not in value
        assert value[:1] == b"\x01"


@in_loop
async def test_equal_values_are_kept_as_different_bytes():
    inner = MemoryBackend()
    await sealed(inner).append("l", [SECRET] * 50, ttl=60)
    assert len(set(await raw_entries(inner, "l"))) == 50


@in_loop
async def test_a_conflict_shows_the_record_in_clear():
    backend = sealed(MemoryBackend())
    version = await backend.put("r", SECRET, ttl=60)
    for change in (
        backend.put("r", b"x", ttl=60, expect=0),
        backend.delete("r", expect=version + 1),
    ):
        with pytest.raises(Conflict) as caught:
            await change
        assert caught.value.record.value == SECRET
        assert caught.value.record.version == version
    with pytest.raises(Conflict) as caught:
        await backend.put("none", b"x", ttl=60, expect=5)
    assert caught.value.record is None
    await backend.append("l", [b"1"], ttl=60)
    with pytest.raises(Conflict) as caught:
        await backend.append("l", [b"2"], ttl=60, after=7)
    assert caught.value.last == 1


@in_loop
async def test_values_of_an_older_key_open_as_long_as_it_is_in_the_list():
    inner = MemoryBackend()
    await sealed(inner, OLD).put("r", SECRET, ttl=60)
    await sealed(inner, OLD).append("l", [SECRET], ttl=60)
    rotated = sealed(inner, NEW, OLD)
    assert (await rotated.get("r")).value == SECRET
    await rotated.append("l", [b"more"], ttl=60)
    assert (await rotated.read("l")).items == [SECRET, b"more"]

    ids = KeyRing([NEW, OLD]).ids
    with pytest.raises(StoreError) as caught:
        await sealed(inner, NEW).get("r")
    assert str(caught.value) == (
        f"the record 'r' does not open: it was sealed with key {ids[1].hex()}, "
        f"and the keys here are {ids[0].hex()}"
    )
    with pytest.raises(StoreError, match=r"entry 1 of the log 'l' does not open: .* key"):
        await sealed(inner, NEW).read("l")
    with pytest.raises(StoreError, match=r"entry 2 of the log 'l' does not open: .* key"):
        await sealed(inner, OLD).read("l", after=1)


@in_loop
async def test_a_value_does_not_open_under_another_name_or_as_another_kind():
    inner = MemoryBackend()
    backend = sealed(inner)
    await backend.put("r", SECRET, ttl=60)
    await backend.append("l", [SECRET], ttl=60)
    value, [entry] = (await inner.get("r")).value, await raw_entries(inner, "l")

    await inner.put("other", value, ttl=60)
    await inner.put("l", entry, ttl=60)
    for name in ("other", "l"):
        with pytest.raises(StoreError, match=f"record '{name}' does not open: it was altered, or"):
            await backend.get(name)
    await inner.append("r", [value], ttl=60)
    with pytest.raises(StoreError, match=r"entry 1 of the log 'r' does not open: it was altered"):
        await backend.read("r")


@in_loop
async def test_a_value_does_not_open_in_another_deployment_with_the_same_keys():
    here, there = Namespaced("here"), Namespaced("there")
    await sealed(here).put("r", SECRET, ttl=60)
    await there.put("r", (await here.get("r")).value, ttl=60)
    with pytest.raises(StoreError, match="altered"):
        await sealed(there).get("r")


@in_loop
async def test_every_altered_byte_is_noticed():
    inner = MemoryBackend()
    backend = sealed(inner)
    await backend.put("r", SECRET, ttl=60)
    value = (await inner.get("r")).value
    for place in range(len(value)):
        altered = bytearray(value)
        altered[place] ^= 1
        await inner.put("r", bytes(altered), ttl=60)
        with pytest.raises(StoreError, match="the record 'r' does not open"):
            await backend.get("r")


@pytest.mark.parametrize("size", [0, 1, 20, 48])
@in_loop
async def test_a_value_that_is_too_short_or_in_clear_does_not_open(size):
    inner = MemoryBackend()
    await inner.put("r", b"\x01" * size, ttl=60)
    with pytest.raises(DamagedRecord, match="the record 'r' does not open: it was cut off"):
        await sealed(inner).get("r")
    await inner.put("r", b'{"plain": "JSON of an older worker without keys, long enough"}', ttl=60)
    with pytest.raises(StoreError, match="it is not sealed, or by a newer version of") as caught:
        await sealed(inner).get("r")
    assert type(caught.value) is StoreError  # what it is can be read by others


@in_loop
async def test_values_of_many_workers_open_with_a_bounded_number_of_ciphers(monkeypatch):
    monkeypatch.setattr("accord.sharing.backends.sealed_backend._CIPHERS", 8)
    inner = MemoryBackend()
    for number in range(30):
        await sealed(inner).append("l", [b"%d" % number], ttl=60)
    reader = sealed(inner)
    for _ in range(2):
        assert (await reader.read("l")).items == [b"%d" % number for number in range(30)]
    assert len(reader._seal._ciphers) == 8


@in_loop
async def test_the_salt_changes_after_many_values(monkeypatch):
    monkeypatch.setattr("accord.sharing.backends.sealed_backend._VALUES_PER_SALT", 10)
    inner = MemoryBackend()
    backend = sealed(inner)
    await backend.append("l", [SECRET] * 25, ttl=60)
    assert len({entry[:21] for entry in await raw_entries(inner, "l")}) == 3
    assert (await backend.read("l")).items == [SECRET] * 25


@in_loop
async def test_everything_else_passes_through():
    inner = MemoryBackend()
    backend = sealed(inner)
    assert (backend.url, backend.is_shared, backend.is_remote) == ("memory:", False, False)
    await backend.open()
    assert await backend.now() == pytest.approx(await inner.now(), abs=60)
    await backend.add("i", ["a", "b"], ttl=60)
    assert sorted(await backend.members("i", limit=5)) == ["a", "b"]
    assert await backend.remove("i", ["a"]) == 1
    assert await backend.count("i") == 1
    notified = []
    notify = lambda: notified.append(1)  # noqa: E731
    await backend.follow("t", notify)
    await backend.append("l", [b"x"], ttl=60, fence=3, notify=["t"])
    await until(lambda: notified)
    await backend.unfollow("t", notify)
    await backend.notify("t")
    assert await backend.seize("l", fence=3)
    assert await backend.extend("l", ttl=60)
    await backend.append("l", [], ttl=60, fence=4, final=True)
    assert (await backend.read("l")).is_closed
    await backend.drop("l")
    assert await backend.read("l") is None
    assert await backend.get("none") is None
    await backend.put("r", b"x", ttl=60)
    assert await backend.touch("r", ttl=60)
    assert await backend.delete("r")
    assert (await backend.take("b", cost=1, rate=1, burst=1)).is_granted
    assert (await backend.describe())["engine"] == "memory"
    await backend.close()
    assert notified == [1]


def test_without_the_library_that_encrypts_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(MissingExtra, match="sealing what workers share needs the extra 'redis'"):
        sealed(MemoryBackend())
