"""Authorization servers that share a store by their own settings."""

import asyncio
import gc
import threading
from contextlib import contextmanager

import pytest

from accord.auth import (
    AuthorizationServer,
)
from accord.errors import (
    ConfigurationError,
    SignInRequired,
    StoreError,
    StoreUnavailable,
    UpstreamFailed,
)
from accord.sharing.backends.memory_backend import MemoryBackend
from accord.sharing.backends.urls import open_backend
from support.balanced_apps import balanced
from support.failing_backend import FailingBackend
from support.http_server import serving
from support.provider import Browser, Program, provider
from support.valkey import running_valkey
from support.waiting import run, until, until_sync

KEY = "k" * 32


@pytest.fixture(scope="module")
def valkey():
    with running_valkey() as found:
        yield found


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
    assert auth.endpoints.store.backend is backend
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


def test_renewed_tokens_of_a_provider_survive_a_moment_without_the_store():
    backend = FailingBackend(MemoryBackend())
    with provider() as idp, pair(idp, store=backend) as (auth, _), balanced(auth) as url:
        program = Program(url)
        tokens = program.redeem(Browser().allow(program.authorize_url())).json
        account = verified(auth, url, tokens["access_token"]).upstream

        def renew(fields):
            backend.left = 0  # it goes away while the provider answers
            return idp._token(fields)

        async def scenario():
            refused = await account.token()
            idp.overrides["/token"] = renew
            asked = asyncio.create_task(account.token(refused=refused))
            await until(lambda: backend.failures > 0)
            backend.left = None
            renewed = await asked
            # The old refresh token would not be accepted any more.
            assert renewed == await account.token() != refused
            backend.left = 0
            with pytest.raises(UpstreamFailed, match="cannot be read") as caught:
                await account.token()
            assert not isinstance(caught.value, SignInRequired)

        run(scenario())
        backend.left = None


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
    before = set(threading.enumerate())
    auth = AuthorizationServer({"ada": "lovelace"}, store=MemoryBackend())
    assert auth.endpoints.store.clients.count() == 0
    # Threads of other tests may end meanwhile.
    made = set(threading.enumerate()) - before
    (thread,) = (each for each in made if each.name == "accord-auth-store")
    del auth
    gc.collect()
    until_sync(lambda: not thread.is_alive())


def test_a_backend_that_is_not_open_yet_is_a_store_too(valkey):
    backend = open_backend(valkey.url, namespace="given")
    auth = AuthorizationServer({"ada": "lovelace"}, store=backend)
    assert auth.endpoints.store.clients.count() == 0
    auth.close()
