"""Authorization servers that share a store: by their own settings, and by those of a server."""

import asyncio
import itertools
import logging
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import pytest

from accord.auth import AuthorizationServer, FirstOf, Protected, StaticTokens
from accord.auth.authorization_server.shared_store import SharedAuthorizationStore
from accord.auth.authorization_server.sqlite_store import SqliteStore
from accord.errors import (
    AuthError,
    ConfigurationError,
    StoreError,
    StoreUnavailable,
    UpstreamFailed,
)
from accord.stores.memory_backend import MemoryBackend
from accord.stores.urls import open_backend
from support.failing_backend import FailingBackend
from support.http_server import serving
from support.provider import Browser, Program, provider
from support.valkey import running_valkey
from support.waiting import run, until_sync

KEY = "k" * 32


@pytest.fixture(scope="module")
def valkey():
    with running_valkey() as found:
        yield found


async def nothing(scope, receive, send):
    raise AssertionError("not asked")


@contextmanager
def balanced(*servers, start=None):
    """Serve authorization servers at one address, each request by another one; yield its URL."""
    turns = itertools.cycle([each.guard(nothing) for each in servers])

    async def app(scope, receive, send):
        if scope["type"] != "lifespan":
            await next(turns)(scope, receive, send)
            return
        while (message := await receive())["type"] != "lifespan.shutdown":
            if start is not None:
                await start()
            await send({"type": f"{message['type']}.complete"})
        await send({"type": "lifespan.shutdown.complete"})

    with serving(app, lifespan="on") as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def pair(idp, **options):
    """Two authorization servers with the same settings."""
    servers = [
        AuthorizationServer(
            upstream=idp.upstream(), **{"resources": ["http://127.0.0.1/mcp"], **options}
        )
        for _ in range(2)
    ]
    try:
        yield servers
    finally:
        for each in servers:
            each.close()


def verified(auth, url, token):
    return run(auth.verifier.for_audience(f"{url}/mcp").verify(token))


# -- a store of its own


def test_users_sign_in_with_a_provider_by_any_of_the_servers_that_share_a_store(valkey):
    options = {"store": f"{valkey.url}?namespace=sign-in", "store_keys": [KEY]}
    with provider() as idp, pair(idp, **options) as servers, balanced(*servers) as url:
        program = Program(url)
        tokens = program.redeem(Browser().allow(program.authorize_url())).json
        accounts = [verified(each, url, tokens["access_token"]).upstream for each in servers]
        assert [each.claims["email"] for each in accounts] == ["ada@example.com"] * 2

        async def renew():
            refused = await accounts[0].token()
            return await asyncio.gather(*(each.token(refused=refused) for each in accounts * 3))

        # Renewed once for both.
        assert len(set(run(renew()))) == 1
        assert idp.count("/token") == 2
        again = program.token(grant_type="refresh_token", refresh_token=tokens["refresh_token"])
        assert again.status == 200
        # The sign-in ends at one of them, and the grant at both.
        idp.renewals.clear()
        with pytest.raises(UpstreamFailed):
            run(accounts[1].token(refused=run(accounts[1].token())))
        token = again.json["access_token"]
        until_sync(lambda: all(verified(each, url, token) is None for each in servers))


def test_a_callback_is_accepted_once_by_all_servers_together(valkey):
    options = {"store": f"{valkey.url}?namespace=callback", "store_keys": [KEY]}
    with provider() as idp, pair(idp, **options) as servers, balanced(*servers) as url:
        browser = Browser()
        browser.open(Program(url).authorize_url())
        (callback,) = (each for each in browser.visited if "/upstream/fake/callback" in each)
        assert browser.send("GET", callback).status == 403
        assert browser.send("GET", callback).status == 403


def test_values_that_a_server_writes_to_a_store_are_sealed(valkey):
    name = "sealed"
    auth = AuthorizationServer(
        {"ada": "lovelace"}, store=f"{valkey.url}?namespace={name}", store_keys=[KEY]
    )
    assert auth.endpoints.keys.jwks(auth.endpoints.store.now())["keys"]
    auth.close()
    with valkey.client() as client:
        names = client.keys(f"{name}:*")
        assert names
    raw = [_raw(valkey, each) for each in names]
    assert any(b"auth:keys" in each.encode() for each in names)
    assert not any(b"PRIVATE" in each for each in raw)
    # Without the key nothing is read, and nothing is replaced.
    other = AuthorizationServer(
        {"ada": "lovelace"}, store=f"{valkey.url}?namespace={name}", store_keys=["x" * 32]
    )
    with pytest.raises(StoreError, match="key"):
        other.endpoints  # noqa: B018  # opens the store
    other.close()
    assert [_raw(valkey, each) for each in names] == raw


def _raw(valkey, name):
    import redis

    with redis.Redis(host="127.0.0.1", port=valkey.port) as client:
        return client.get(name) or b"" if client.type(name) == b"string" else b""


def test_issuers_in_one_store_do_not_see_each_other(valkey):
    options = {"store": valkey.url, "store_keys": "none"}
    one, two, same = (
        AuthorizationServer({"ada": "lovelace"}, issuer=f"https://{name}.example", **options)
        for name in ("one", "two", "one")
    )
    keys = [
        each.endpoints.keys.jwks(each.endpoints.store.now())["keys"][0]["kid"]
        for each in (one, two, same)
    ]
    assert keys[0] == keys[2] != keys[1]
    for each in (one, two, same):
        each.close()


def test_a_file_of_the_backend_is_a_store_too(tmp_path):
    url = f"sqlite:///{tmp_path}/shared.db"
    one, two = (AuthorizationServer({"ada": "lovelace"}, store=url) for _ in range(2))
    documents = [each.endpoints.keys.jwks(each.endpoints.store.now()) for each in (one, two)]
    assert documents[0] == documents[1]
    for each in (one, two):
        each.close()
    # It is opened again by the next request.
    assert one.endpoints.keys.jwks(one.endpoints.store.now()) == documents[0]
    one.close()


@pytest.mark.parametrize(
    ("options", "error", "why"),
    [
        ({"store": "postgres://host/db"}, ConfigurationError, "not the URL of a store"),
        ({"store": "redis://host:1/0"}, ConfigurationError, "store_keys"),
        ({"store": "redis://host:1/0", "store_keys": ["short"]}, ConfigurationError, "32"),
        ({"store": "auth.db", "store_keys": [KEY]}, ValueError, "URL"),
        ({"store_keys": [KEY]}, ValueError, "URL"),
    ],
    ids=str,
)
def test_a_wrong_store_is_reported_at_once(options, error, why, monkeypatch):
    monkeypatch.delenv("ACCORD_STORE_KEYS", raising=False)
    with pytest.raises(error, match=why):
        AuthorizationServer({"ada": "lovelace"}, **options)


def test_a_store_that_cannot_be_reached_is_reported_and_tried_again():
    backend = FailingBackend(MemoryBackend())
    backend.left = 0
    auth = AuthorizationServer({"ada": "lovelace"}, store=backend)
    with pytest.raises(StoreUnavailable, match="does not answer"):
        auth.endpoints  # noqa: B018  # opens the store
    backend.left = None
    assert isinstance(auth.endpoints.store, SharedAuthorizationStore)
    auth.close()


def test_while_the_store_is_away_clients_are_asked_to_try_again():
    backend = FailingBackend(MemoryBackend())
    auth = AuthorizationServer(auto_approve="ada", store=backend)

    async def protected(scope, receive, send):
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    with serving(auth.guard(protected)) as port:
        url, browser = f"http://127.0.0.1:{port}", Browser()
        program = Program(url)
        location = browser.open(program.authorize_url()).location
        tokens = program.redeem(location).json
        headers = {"authorization": f"Bearer {tokens['access_token']}"}
        assert browser.send("POST", f"{url}/mcp", "", **headers).status == 204
        backend.left = 0
        form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        answer = program.token(**form)
        assert (answer.status, answer.error) == (503, "temporarily_unavailable")
        assert answer.headers["retry-after"] == "60"
        auth._revoked.forget()
        answer = browser.send("POST", f"{url}/mcp", "", **headers)
        # Not 401, which would send the user to log in again.
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        backend.left = None
        assert browser.send("POST", f"{url}/mcp", "", **headers).status == 204
        assert program.token(**form).status == 200
    auth.close()


# -- the store of workers that serve together


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

    async def scenario():
        auth.use_backend(backend())
        return await asyncio.to_thread(lambda: type(auth.endpoints.store))

    assert run(scenario()) is (SharedAuthorizationStore if is_used else SqliteStore)
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

    async def scenario():
        protected.use_backend(Near())
        return await asyncio.to_thread(lambda: type(auth.endpoints.store))

    assert run(scenario()) is SharedAuthorizationStore
    Protected(StaticTokens({"a" * 20: []})).use_backend(Near())
    Protected(FirstOf(StaticTokens({"a" * 20: []}))).use_backend(Near())


def test_a_file_that_will_not_be_used_need_not_be_writable(tmp_path, monkeypatch):
    (tmp_path / "accord-auth.db").mkdir()
    monkeypatch.chdir(tmp_path)
    auth = AuthorizationServer({"ada": "lovelace"})

    class App:
        class options:  # noqa: N801  # an attribute
            store: object = None

        async def __call__(self, scope, receive, send):
            raise AssertionError("not asked")

    with pytest.raises(AuthError, match="directory"):
        auth.guard(App())
    for remote in ("redis://host:6379/0", Remote()):
        App.options.store = remote
        auth.guard(App())
    App.options.store = "sqlite:///run/desk.db"
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


def test_a_store_is_opened_once_for_all_threads(valkey):
    auth = AuthorizationServer({"ada": "lovelace"}, store=valkey.url, store_keys="none")

    async def scenario():
        found = await asyncio.gather(
            *(asyncio.to_thread(lambda: auth.endpoints) for _ in range(10))
        )
        return len(set(map(id, found)))

    assert run(scenario()) == 1
    auth.close()
    auth.close()


def test_a_store_of_a_url_is_closed_with_its_last_reference():
    import gc
    import threading

    def count():
        return sum(each.name == "accord-auth-store" for each in threading.enumerate())

    before = count()
    auth = AuthorizationServer({"ada": "lovelace"}, store=MemoryBackend())
    assert auth.endpoints.store.count_clients() == 0
    assert count() == before + 1
    del auth
    gc.collect()
    until_sync(lambda: count() == before)


def test_open_backends_are_not_opened_by_their_url(valkey):
    backend = open_backend(valkey.url, namespace="given")
    auth = AuthorizationServer({"ada": "lovelace"}, store=backend)
    assert auth.endpoints.store.count_clients() == 0
    auth.close()
