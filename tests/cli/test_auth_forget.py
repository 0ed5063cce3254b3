"""`accord auth forget`: stored tokens and registrations are removed."""

import json
import subprocess
import sys

import pytest

from accord import connect
from accord.auth import FileStore, OAuth
from support.scripted_authorization import browse, scripted
from support.waiting import LONG, in_loop, run


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return FileStore(tmp_path / "accord" / "tokens.json")


def forget(*args):
    done = subprocess.run(
        [sys.executable, "-m", "accord.cli.main", "auth", "forget", *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


async def log_in(script, store, **given):
    auth = OAuth(store=store, open_browser=browse, timeout=LONG, **given)
    async with connect(script.url, auth=auth) as client:
        await client.call_tool("x")


def stored(store):
    return json.loads(store.path.read_text())


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="tokens are kept elsewhere")
@in_loop
async def test_the_tokens_of_one_server_are_forgotten_for_all_its_clients(store):
    async with scripted() as one, scripted() as other:
        await log_in(one, store)
        await log_in(one, store, client_id="by hand")
        await log_in(other, store)
        theirs = {key: value for key, value in stored(store).items() if other.issuer in key}
        code, out, err = forget(f"{one.url}/")
        assert (code, err) == (0, "")
        assert one.url in out
        assert str(store.path) in out
        assert stored(store) == theirs
        before = one.count("/register")
        await log_in(one, store)
        assert one.count("/register") == before + 1


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="tokens are kept elsewhere")
def test_stored_tokens_are_listed_without_their_secrets(store):
    def listed(*args):
        done = subprocess.run(
            [sys.executable, "-m", "accord.cli.main", "auth", "list", *args],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0
        return done.stdout, done.stderr

    assert listed() == ("", f"no tokens in {store.path}\n")

    async def main():
        async with scripted() as one:
            await log_in(one, store)
            (grant,) = (json.loads(v) for k, v in stored(store).items() if k.startswith("tokens "))
            out, err = listed()
            assert out.startswith(f"{one.url}: issuer {one.issuer}, scopes ")
            assert err == f"1 token in {store.path}\n"
            (shown,) = json.loads(listed("--format", "json")[0])["tokens"]
            assert (shown["resource"], shown["issuer"]) == (one.url, one.issuer)
            assert grant["access_token"] not in out + json.dumps(shown)

    run(main())


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="tokens are kept elsewhere")
def test_all_tokens_are_forgotten(store):
    async def main():
        async with scripted() as one, scripted() as other:
            await log_in(one, store)
            await log_in(other, store)

    run(main())
    code, out, _ = forget("--all")
    assert (code, "all tokens and registrations" in out) == (0, True)
    assert stored(store) == {}
    assert "nothing is stored" in forget("--all")[1]


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="tokens are kept elsewhere")
@in_loop
async def test_a_server_without_tokens_is_reported_with_those_that_have_tokens(store):
    async with scripted() as script:
        await log_in(script, store)
        code, out, _ = forget("https://other.example/mcp")
        assert code == 0
        assert "nothing is stored for https://other.example/mcp" in out
        assert f"stored are tokens for {script.url}" in out


@pytest.mark.parametrize("args", [[], ["https://a.example/mcp", "--all"], ["http://["]], ids=str)
def test_a_url_or_all_is_required(args, store):
    code, _, err = forget(*args)
    assert code == 2
    assert "URL of a server" in err
