"""The tokens of identity providers: kept encrypted, renewed once, removed with the grant."""

import asyncio
import sqlite3
import time
from contextlib import contextmanager

import pytest

from accord.auth import AuthorizationServer
from accord.auth.authorization_server.upstream.sessions import TokenSeal
from accord.errors import SignInRequired, ToolError, UpstreamFailed
from accord.sharing import MemoryBackend
from support.http_server import serving
from support.provider import SECRET, Browser, Program, provider
from support.waiting import run


class Clock:
    ahead = 0.0

    def __call__(self):
        return time.time() + self.ahead


class Desk:
    """An authorization server with one provider, on a socket."""

    def __init__(self, idp, auth, url):
        self.idp = idp
        self.auth = auth
        self.url = url
        self.program = Program(url)

    def sign_in(self, **user):
        """Let a user sign in and allow the program; return the tokens of the program."""
        self.idp.user |= user
        location = Browser().allow(self.program.authorize_url())
        found = self.program.redeem(location)
        assert found.status == 200, found.text
        return found.json

    def account(self, tokens):
        principal = run(
            self.auth.verifier.for_audience(f"{self.url}/mcp").verify(tokens["access_token"])
        )
        return None if principal is None else principal.upstream

    def count_sessions(self):
        backend = self.auth.endpoints.store.backend
        kept = [each for name, each in backend._records.items() if "auth:session:" in name]
        return sum(each.expires > backend._clock() for each in kept)


@contextmanager
def running(**options):
    with provider() as idp:
        given = {"store": None, "resources": ["http://127.0.0.1/mcp"], **options}
        auth = AuthorizationServer(upstream=idp.upstream(), **given)
        with serving(auth.guard(_nothing), lifespan="off") as port:
            yield Desk(idp, auth, f"http://127.0.0.1:{port}")


async def _nothing(scope, receive, send):
    raise AssertionError("not asked")


def test_a_token_is_used_until_it_is_about_to_expire():
    with running() as desk:
        account = desk.account(desk.sign_in())
        token = run(account.token())
        assert token == run(account.token())
        assert desk.idp.count("/token") == 1
        assert account.claims["email"] == "ada@example.com"
        assert "nonce" not in account.claims


def test_a_due_token_is_renewed_once_for_all_that_wait_and_the_refresh_token_rotates():
    async def many(account):
        return await asyncio.gather(*(account.token() for _ in range(10)))

    with running() as desk:
        desk.idp.token = {"expires_in": 0.001}
        account = desk.account(desk.sign_in())
        desk.idp.token = {}
        found = run(many(account))
        assert len(set(found)) == 1
        assert desk.idp.count("/token") == 2
        # The provider takes each refresh token once: the new one was kept.
        assert run(account.token(refused=found[0])) != found[0]
        assert desk.idp.count("/token") == 3


def test_a_refresh_token_is_kept_if_the_provider_sends_no_new_one():
    with running() as desk:
        account = desk.account(desk.sign_in())
        for _ in range(2):
            desk.idp.token = {"refresh_token": None}
            kept = dict(desk.idp.renewals)
            run(account.token(refused=run(account.token())))
            desk.idp.renewals = kept


def test_processes_that_share_a_store_do_not_renew_at_once(tmp_path):
    path = tmp_path / "auth.db"

    async def both(*accounts):
        return await asyncio.gather(*(each.token() for each in accounts))

    with running(store=path) as desk:
        desk.idp.token = {"expires_in": 0.001}
        tokens = desk.sign_in()
        options = {"store": path, "resources": [f"{desk.url}/mcp"], "issuer": desk.url}
        other = AuthorizationServer(upstream=desk.idp.upstream(), **options)
        principal = run(other.verifier.verify(tokens["access_token"]))
        account = desk.account(tokens)
        desk.idp.token = {}
        assert len(set(run(both(account, principal.upstream)))) == 1
        assert desk.idp.count("/token") == 2
        other.close()


def test_a_refused_refresh_ends_the_sign_in_and_the_grant():
    with running() as desk:
        tokens = desk.sign_in()
        account = desk.account(tokens)
        desk.idp.renewals.clear()
        token = run(account.token())
        with pytest.raises(SignInRequired, match="sign in again") as caught:
            run(account.token(refused=token))
        assert isinstance(caught.value, ToolError)
        assert caught.value.provider == "fake"
        # The program is asked to log in with its next request, and cannot renew its token.
        assert desk.account(tokens) is None
        again = desk.program.token(
            grant_type="refresh_token", refresh_token=tokens["refresh_token"]
        )
        assert again.error == "invalid_grant"
        assert desk.count_sessions() == 0
        with pytest.raises(SignInRequired):
            run(account.token())
        # A new sign-in works, with the same program.
        assert run(desk.account(desk.sign_in()).token()) in desk.idp.access


def test_a_token_that_expires_without_a_refresh_token_needs_a_new_sign_in():
    with running() as desk:
        desk.idp.token = {"refresh_token": None}
        account = desk.account(desk.sign_in())
        with pytest.raises(SignInRequired):
            run(account.token(refused=run(account.token())))


def test_a_provider_that_is_down_ends_nothing():
    with running() as desk:
        tokens = desk.sign_in()
        account = desk.account(tokens)
        token = run(account.token())
        for answer in ((503, "", b""), (200, "", b"<html>"), (400, "", b'{"error": "slow_down"}')):
            desk.idp.overrides["/token"] = lambda _, answer=answer: answer
            with pytest.raises(UpstreamFailed, match="try again later") as caught:
                run(account.token(refused=token))
            assert not isinstance(caught.value, SignInRequired)
        desk.idp.overrides.clear()
        assert run(account.token()) == token
        assert run(account.token(refused=token)) != token


def test_tokens_of_another_user_are_refused_when_renewed():
    with running() as desk:
        account = desk.account(desk.sign_in())
        token = run(account.token())
        desk.idp.claims = {"sub": "18"}
        with pytest.raises(SignInRequired):
            run(account.token(refused=token))
        assert desk.count_sessions() == 0


def test_each_user_has_tokens_of_their_own():
    with running() as desk:
        ada = desk.account(desk.sign_in(sub="17", name="Ada"))
        bob = desk.account(desk.sign_in(sub="18", name="Bob"))
        found = [desk.idp.access[run(each.token())]["name"] for each in (ada, bob, ada)]
        assert found == ["Ada", "Bob", "Ada"]
        assert (ada.claims["name"], bob.claims["name"]) == ("Ada", "Bob")


def test_tokens_are_removed_when_the_last_grant_is_revoked():
    clock = Clock()
    with running(login_ttl=3.0, store=MemoryBackend(clock=clock)) as desk:
        browser = Browser()
        tokens = desk.sign_in()
        assert desk.count_sessions() == 1
        form = f"client_id={desk.program.client_id}&token={tokens['refresh_token']}"
        kind = "application/x-www-form-urlencoded"
        # The login of the browser ends before the grant of the program.
        clock.ahead = 5.0
        assert desk.count_sessions() == 1
        assert browser.send("POST", f"{desk.url}/revoke", form, content_type=kind).status == 200
        assert desk.count_sessions() == 0
        assert desk.account(tokens) is None


def test_tokens_expire_with_the_grant():
    clock = Clock()
    with running(store=MemoryBackend(clock=clock)) as desk:
        desk.sign_in()
        clock.ahead = 86_400.0
        assert desk.count_sessions() == 1
        clock.ahead = 40 * 86_400.0
        assert desk.count_sessions() == 0


def test_a_user_who_is_not_allowed_any_more_gets_no_further_token(tmp_path):
    path = tmp_path / "auth.db"
    with running(store=path) as desk:
        tokens = desk.sign_in()
        options = {"store": path, "resources": [f"{desk.url}/mcp"], "issuer": desk.url}
        stricter = AuthorizationServer(upstream=desk.idp.upstream(allow=["bob@x.org"]), **options)
        with serving(stricter) as port:
            program = Program.__new__(Program)
            program.__dict__ |= desk.program.__dict__ | {"issuer": f"http://127.0.0.1:{port}"}
            again = program.token(grant_type="refresh_token", refresh_token=tokens["refresh_token"])
            assert again.error == "invalid_grant"
        stricter.close()


# -- at rest


def test_no_token_or_claim_is_readable_in_the_file(tmp_path):
    path = tmp_path / "auth.db"
    with running(store=path) as desk:
        desk.sign_in()
        secret = [*desk.idp.access, *desk.idp.renewals, "ada@example.com"]
        desk.auth.close()
        kept = b"".join(each.read_bytes() for each in tmp_path.iterdir())
        assert not [each for each in secret if each.encode() in kept]
        assert SECRET.encode() not in kept


def test_with_another_key_the_user_signs_in_again(tmp_path):
    path, old, new = tmp_path / "auth.db", "o" * 32, "n" * 32

    def verified(tokens, desk, *keys, secret=SECRET):
        options = {"store": path, "resources": [f"{desk.url}/mcp"], "issuer": desk.url}
        upstream = desk.idp.upstream(client_secret=secret)
        auth = AuthorizationServer(upstream=upstream, upstream_keys=keys, **options)
        principal = run(auth.verifier.verify(tokens["access_token"]))
        if principal is not None:
            run(principal.upstream.token(refused=run(principal.upstream.token())))
        auth.close()
        return principal is not None

    with running(store=path, upstream_keys=[old]) as desk:
        tokens = desk.sign_in()
        assert not verified(tokens, desk, new)
        # Both keys are known: the renewed tokens are encrypted with the first one.
        assert verified(tokens, desk, new, old)
        assert verified(tokens, desk, new, secret="another secret of the desk")
        assert not verified(tokens, desk, old, secret="another secret of the desk")


def test_a_record_cannot_be_moved_or_altered():
    seal = TokenSeal([b"k" * 32], "fake")
    sealed = seal.seal(b"secret", "row")
    assert seal.open(sealed, "row") == b"secret"
    assert b"secret" not in sealed
    assert seal.open(sealed, "other row") is None
    assert TokenSeal([b"k" * 32], "other").open(sealed, "row") is None
    for at in range(len(sealed)):
        altered = bytearray(sealed)
        altered[at] ^= 1
        assert seal.open(bytes(altered), "row") is None
    assert seal.open(b"", "row") is None
    assert seal.open(sealed[:8], "row") is None


def test_a_store_of_an_earlier_version_with_fewer_tables_is_taken_over(tmp_path):
    path = tmp_path / "auth.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE logins (hash TEXT PRIMARY KEY, subject TEXT, expires_at REAL)")
    db.close()
    with running(store=path) as desk:
        assert run(desk.account(desk.sign_in()).token()) in desk.idp.access
