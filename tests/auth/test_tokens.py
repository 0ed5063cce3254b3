"""Where tokens are kept: in memory, and in a file that any number of processes share."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import time

import msgspec
import pytest

from accord import connect
from accord.auth import FileStore, MemoryStore, OAuth, tokens
from accord.auth.client_identity import ClientIdentity
from accord.auth.tokens import TokenGrant, default_path
from accord.errors import FlowFailed
from support.scripted_authorization import scripted
from support.waiting import run

PROCESSES = 8
CHILD = """
import asyncio, sys
from accord import connect
from accord.auth import FileStore, OAuth

def fail(url):
    raise AssertionError("a browser was opened")

async def main(url, path):
    oauth = OAuth(store=FileStore(path), open_browser=fail)
    async with connect(url, auth=oauth) as client:
        result = await client.call_tool("x")
        print(result.content[0].text)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else FileStore(tmp_path / "a" / "t.json")


def test_a_stored_text_is_read_until_it_is_removed(store):
    async def main():
        assert await store.read("k") is None
        await store.write("k", "v")
        await store.write("l", "w")
        assert await store.read("k") == "v"
        await store.write("k", None)
        await store.write("k", None)
        assert await store.read("k") is None
        assert await store.read("l") == "w"

    run(main())


def test_a_lock_is_held_by_one_at_a_time(store):
    async def main():
        inside, most = 0, 0

        async def enter():
            nonlocal inside, most
            async with store.lock("k"):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.001)
                inside -= 1

        await asyncio.gather(*(enter() for _ in range(10)))
        assert most == 1

    run(main())


def test_a_lock_is_free_again_after_a_failure(store):
    async def main():
        with pytest.raises(RuntimeError):
            async with store.lock("k"):
                raise RuntimeError
        async with store.lock("k"):
            pass

    run(main())


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_only_the_owner_can_read_the_file(tmp_path):
    path = tmp_path / "new" / "tokens.json"
    old = os.umask(0)
    try:
        run(FileStore(path).write("k", "v"))
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    run(FileStore(path).write("l", "w"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    leftovers = [each.name for each in path.parent.iterdir() if not each.name.endswith(".lock")]
    assert leftovers == ["tokens.json"]
    for lock in path.parent.glob("*.lock"):
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600


@pytest.mark.parametrize("broken", [b"{broken", b"[1]", b"", b"\xff\xfe{}", b"[" * 100_000])
def test_a_corrupt_file_is_logged_set_aside_and_never_overwritten(broken, tmp_path, caplog):
    path = tmp_path / "tokens.json"

    async def main():
        for number in range(1, 4):
            path.write_bytes(broken)
            if number == 1:
                assert await FileStore(path).read("k") is None
            await FileStore(path).write("k", f"v{number}")
            assert await FileStore(path).read("k") == f"v{number}"
            aside = sorted(tmp_path.glob("tokens.json.corrupt-*"))
            assert [each.read_bytes() for each in aside] == [broken] * number
            told = [each for each in caplog.messages if "cannot be read" in each]
            assert len(told) == number
            assert str(path) in told[-1]
            assert any(each.name in told[-1] for each in aside)

    run(main())


def test_values_of_other_versions_are_not_read_and_not_lost(tmp_path):
    path = tmp_path / "tokens.json"
    path.write_text('{"k": 1, "version": {"a": 2}}')
    store = FileStore(path)

    async def main():
        assert await store.read("k") is None
        await store.write("l", "w")
        assert sorted(await store.keys()) == ["k", "l", "version"]

    run(main())
    assert json.loads(path.read_text()) == {"k": 1, "version": {"a": 2}, "l": "w"}


@pytest.mark.parametrize("kind", ["folder is a file", "file is a folder"])
def test_an_unwritable_store_is_reported_before_the_user_is_asked(kind, tmp_path):
    path = tmp_path / "a" / "tokens.json"
    if kind == "folder is a file":
        path.parent.write_text("")
    else:
        path.mkdir(parents=True)
    opened = []

    async def main():
        async with scripted() as script:
            auth = OAuth(store=FileStore(path), open_browser=opened.append, timeout=5.0)
            with pytest.raises(FlowFailed, match="token store") as caught:
                async with connect(script.url, auth=auth):
                    pass
            assert str(path) in caught.value.asked
            with pytest.raises(FlowFailed, match="token store"):
                await FileStore(path).check()
            assert script.count("/register") == script.count("/authorize") == 0

    run(main())
    assert opened == []


def test_a_lock_that_another_process_keeps_is_given_up_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(tokens, "_LOCK_EXPECTED", 0.02)
    store = FileStore(tmp_path / "tokens.json")

    async def main():
        async with store.lock("k"):
            async with store.lock("other"):
                pass
            with pytest.raises(FlowFailed, match="another process keeps it"):
                async with store.lock("k"):
                    raise AssertionError("two hold one lock")

    run(main())


def test_a_failed_write_changes_nothing_and_leaves_nothing(tmp_path):
    store = FileStore(tmp_path / "tokens.json")
    run(store.write("k", "v"))
    with pytest.raises(UnicodeEncodeError):
        run(store.write("k", "\ud800"))
    assert run(store.read("k")) == "v"
    assert [each.suffix for each in tmp_path.iterdir() if each != store.path] == [".lock"]


def test_an_unwritable_path_is_reported_with_a_hint(tmp_path):
    (tmp_path / "file").write_text("")
    store = FileStore(tmp_path / "file" / "tokens.json")
    for work in (store.read("k"), store.write("k", "v")):
        with pytest.raises(FlowFailed, match="token store") as caught:
            run(work)
        assert caught.value.asked == str(store.path)
        assert "MemoryStore" in caught.value.hint


def test_the_default_place_follows_the_platform(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_path() == tmp_path / "accord" / "tokens.json"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/home/x")
    assert default_path().as_posix() == "/home/x/.config/accord/tokens.json"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_path().as_posix().endswith("Library/Application Support/accord/tokens.json")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert default_path() == tmp_path / "accord" / "tokens.json"


async def keep(store, script, **changes):
    """Leave a token in a store as an earlier run would have."""
    scope = "a"
    said = script.grant(scope)
    grant = TokenGrant(
        issuer=script.issuer,
        resource=script.url,
        client=ClientIdentity(client_id="me"),
        token_endpoint=f"{script.issuer}/token",
        access_token=said["access_token"],
        refresh_token=said["refresh_token"],
        expires_at=time.time() - 1,
        lifetime=3600,
        scopes=(scope,),
        asked=(scope,),
    )
    grant = msgspec.structs.replace(grant, **changes)
    await store.write(grant.key, msgspec.json.encode(grant).decode())
    await store.write(f"server {script.url}", grant.key)
    return grant


def test_eight_processes_and_a_strict_server_need_one_refresh(tmp_path):
    path = tmp_path / "tokens.json"

    async def main():
        async with scripted() as script:
            await keep(FileStore(path), script)
            script.expire()
            command = [sys.executable, "-c", CHILD, script.url, str(path)]
            children = [
                await asyncio.create_subprocess_exec(
                    *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
                )
                for _ in range(PROCESSES)
            ]
            outcomes = await asyncio.gather(*(each.communicate() for each in children))
            assert [out.decode().strip() for out, _ in outcomes] == ["done"] * PROCESSES, outcomes
            assert len(script.forms("/token")) == 1
            assert script.reused == 0
            assert script.count("/authorize") == 0

    run(main())


def test_a_stored_token_is_used_and_its_secrets_stand_nowhere_else(tmp_path):
    async def main():
        store = FileStore(tmp_path / "tokens.json")
        async with scripted() as script:
            grant = await keep(store, script, expires_at=time.time() + 1000)
            oauth = OAuth(store=FileStore(store.path))
            assert await oauth.token(script.url) == grant.access_token
            assert await oauth.token(f"{script.url}/other") is None
            assert await oauth.token("https://example.com/mcp") is None
            assert script.seen == []
            keys = list(json.loads(store.path.read_text()))
            assert grant.access_token not in str(keys)
            await store.write(f"client {grant.issuer}", "{}")
            assert await oauth.forget(script.url)
            assert not await oauth.forget(script.url)
            assert await oauth.token(script.url) is None
            assert await OAuth(store=store).token(script.url) is None
            assert json.loads(store.path.read_text()) == {}

    run(main())


def test_a_token_of_another_resource_in_the_store_is_not_used(tmp_path):
    async def main():
        store = MemoryStore()
        async with scripted() as script:
            await keep(store, script, resource="https://other.example/mcp")
            assert await OAuth(store=store).token(script.url) is None
            grant = await keep(store, script, expires_at=None)
            assert await OAuth(store=store).token(script.url) == grant.access_token
            assert (
                await OAuth(store=store, issuer="https://other.example").token(script.url) is None
            )
            # Nor is what some other version has written.
            await store.write(grant.key, '{"version": 2}')
            assert await OAuth(store=store).token(script.url) is None

    run(main())
