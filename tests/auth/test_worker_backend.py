"""Authorization servers whose state is in the store of the workers that serve together."""

import asyncio
import json
import logging
import subprocess
import sys
from contextlib import ExitStack
from typing import ClassVar

import pytest

from accord import Context, Server, connect
from accord.auth import (
    AuthorizationServer,
    FirstOf,
    IntrospectionVerifier,
    Protected,
    StaticTokens,
)
from accord.errors import AuthError
from accord.http.client.guarded import HttpResponse
from accord.sharing.backends.memory_backend import MemoryBackend
from accord.testing import unattended
from support.balanced_apps import balanced, balanced_apps
from support.provider import Browser, Program, provider
from support.valkey import running_valkey
from support.waiting import run, until_sync

KEY = "k" * 32


@pytest.fixture(scope="module")
def valkey():
    with running_valkey() as found:
        yield found


class Remote(MemoryBackend):
    is_shared = True
    is_remote = True


class Near(MemoryBackend):
    is_shared = True


@pytest.mark.parametrize(
    ("store", "backend", "is_used"),
    [
        ("default", Remote, True),
        ("default", Near, False),
        ("default", MemoryBackend, False),
        (None, Remote, True),
        (None, Near, True),
        (None, MemoryBackend, False),
        ("own.db", Remote, False),
        ("own.db", Near, False),
    ],
)
def test_the_store_of_workers_is_used_where_they_could_not_share_the_state_otherwise(
    store, backend, is_used, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    given = {} if store == "default" else {"store": store}
    auth = AuthorizationServer({"ada": "lovelace"}, **given)

    given_one = backend()

    async def scenario():
        auth.use_backend(given_one)
        return await asyncio.to_thread(lambda: auth.endpoints.store.backend)

    assert (run(scenario()) is given_one) is is_used
    auth.close()


def test_state_that_is_left_behind_in_the_file_is_mentioned(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    auth = AuthorizationServer({"ada": "lovelace"})

    async def scenario():
        auth.use_backend(Remote())

    run(scenario())
    assert caplog.records == []
    (tmp_path / "accord-auth.db").write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        run(scenario())
    assert "accord-auth.db is not used" in caplog.text


def test_workers_of_a_server_share_the_state_by_their_store():
    shared = Near()
    servers = [AuthorizationServer({"ada": "lovelace"}, store=None) for _ in range(2)]

    async def start():
        for each in servers:
            each.use_backend(shared)

    with balanced(*servers, start=start) as url:
        program, browser = Program(url), Browser()
        page = browser.open(program.authorize_url())
        answer = browser.submit(page, name="ada", password="lovelace")
        page = browser.open(answer.location)
        tokens = program.redeem(browser.submit(page, decision="allow").location).json
        for _ in range(3):
            form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
            answer = program.token(**form)
            assert answer.status == 200, answer.text
            tokens = answer.json


def test_programs_reach_a_protected_server_by_any_of_its_workers(valkey):
    def build(name):
        auth = AuthorizationServer(auto_approve="ada", scopes=["read"])
        server = Server("desk", auth=auth)

        @server.tool
        async def whoami(ctx: Context) -> str:
            """Return the caller, and the worker."""
            return f"{ctx.principal.subject} at {name}"

        return server.asgi(store=valkey.url, store_keys=[KEY])

    async def call(url):
        async with connect(f"{url}/mcp", auth=unattended()) as client:
            seen = set()
            # Other requests of the client take turns, too.
            for _ in range(100):
                seen.add(await client.call_tool("whoami", result_type=str))
                if len(seen) == 2:
                    break
            return seen

    with balanced_apps(build("one"), build("two")) as url:
        assert run(call(url)) == {"ada at one", "ada at two"}


def test_every_worker_refuses_a_token_that_its_issuer_revoked_within_the_same_time():
    active = True

    async def send(request):
        claims = {"active": active, "sub": "ada", "aud": "https://desk.example/mcp"}
        return HttpResponse(status=200, headers={}, body=json.dumps(claims).encode(), url="")

    async def admit(scope, receive, respond):
        await respond({"type": "http.response.start", "status": 204, "headers": []})
        await respond({"type": "http.response.body"})

    def guard():
        verifier = IntrospectionVerifier(
            "https://id.example/introspect", "desk", "secret", remember=0.2, send=send
        )
        protected = Protected(verifier, issuer=[], public_url="https://desk.example/mcp")
        return protected.guard(admit)

    with balanced_apps(*(_without_lifespan(guard()) for _ in range(2))) as url:
        browser = Browser()

        def ask():
            return browser.send("POST", f"{url}/mcp", "", authorization="Bearer " + "t" * 20).status

        assert [ask() for _ in range(6)] == [204] * 6
        active = False
        until_sync(lambda: [ask() for _ in range(4)] == [401] * 4, seconds=20.0)


def _without_lifespan(app):
    async def run(scope, receive, send):
        if scope["type"] == "http":
            await app(scope, receive, send)
            return
        for _ in ("startup", "shutdown"):
            await send({"type": f"{(await receive())['type']}.complete"})

    return run


def test_another_store_is_used_after_a_restart():
    auth = AuthorizationServer({"ada": "lovelace"}, store=None)

    async def serve(backend):
        auth.use_backend(backend)

        def key():
            return auth.endpoints.keys.jwks(auth.endpoints.store.now())["keys"][0]["kid"]

        return await asyncio.to_thread(key)

    first, second = Near(), Near()
    keys = [run(serve(each)) for each in (first, second, first)]
    assert keys[0] == keys[2] != keys[1]


def test_workers_that_could_not_read_what_each_other_encrypts_do_not_start():
    with provider() as idp:
        upstream = idp.upstream(client_secret=None)
        auth = AuthorizationServer(upstream=upstream, store=None)

        async def scenario():
            with pytest.raises(ValueError, match="upstream_keys"):
                auth.use_backend(Near())

        run(scenario())


@pytest.mark.parametrize("wrap", [Protected, lambda verifier: Protected(FirstOf(verifier))])
def test_a_verifier_passes_the_store_on_to_its_authorization_server(wrap):
    auth = AuthorizationServer({"ada": "lovelace"}, issuer="https://auth.example", store=None)
    protected = wrap(auth.verifier)

    near = Near()

    async def scenario():
        protected.use_backend(near)
        return await asyncio.to_thread(lambda: auth.endpoints.store.backend)

    assert run(scenario()) is near
    Protected(StaticTokens({"a" * 20: []})).use_backend(Near())
    Protected(FirstOf(StaticTokens({"a" * 20: []}))).use_backend(Near())


def test_a_file_that_will_not_be_used_need_not_be_writable(tmp_path, monkeypatch):
    (tmp_path / "accord-auth.db").mkdir()
    monkeypatch.chdir(tmp_path)
    auth = AuthorizationServer({"ada": "lovelace"})

    class App:
        options: ClassVar[dict[str, object]] = {}

        async def __call__(self, scope, receive, send):
            raise AssertionError("not asked")

    with pytest.raises(AuthError, match="directory"):
        auth.guard(App())
    for remote in ("redis://host:6379/0", Remote()):
        App.options["store"] = remote
        auth.guard(App())
    App.options["store"] = "sqlite:///run/desk.db"
    with pytest.raises(AuthError, match="directory"):
        auth.guard(App())


FORK = """
import os, sys
from accord.auth import AuthorizationServer

auth = AuthorizationServer({"ada": "lovelace"}, store=sys.argv[1])
keys = lambda: auth.endpoints.keys.jwks(auth.endpoints.store.now())["keys"][0]["kid"]
before, store = keys(), auth.endpoints.store
if os.fork() == 0:
    code = 0 if keys() == before and auth.endpoints.store is not store else 1
    auth.rotate_keys()
    auth.close()
    os._exit(code)
status = os.waitstatus_to_exitcode(os.wait()[1])
assert auth.endpoints.store is store
assert keys() != before
auth.close()
sys.exit(status)
"""


def test_a_process_does_not_use_what_was_opened_before_it_was_forked(tmp_path):
    command = [sys.executable, "-c", FORK, str(tmp_path / "auth.db")]
    with ExitStack() as stack:
        child = stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE))
        _, said = child.communicate(timeout=120)
    assert child.returncode == 0, said.decode()
