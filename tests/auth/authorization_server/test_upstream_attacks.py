"""Attacks on signing in with identity providers: each one ends without a login."""

import time
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
import pytest

from accord import Server
from accord.auth import AuthorizationServer
from support.http_server import bounded
from support.issuer import private_key
from support.oauth import RETURN
from support.provider import Browser, Program, links, provider


@contextmanager
def running(*upstreams, **options):
    auth = AuthorizationServer(upstream=upstreams, store=None, **options)
    with bounded(Server("desk", auth=auth).asgi()) as port:
        yield f"http://127.0.0.1:{port}"


def callback(browser, url, start=None):
    """Go to the provider and return the URL of the callback, which is not opened."""
    program = Program(url)
    answer = browser.open(start or program.authorize_url(), until=f"{url}/upstream/")
    while "/callback" not in answer.location:
        answer = browser.open(answer.location, until=f"{url}/upstream/")
    return answer.location


def is_signed_in(browser, url):
    """Whether the browser gets a consent page without going to a provider."""
    return "decision" in browser.send("GET", Program(url).authorize_url()).text


def test_a_callback_works_once():
    with provider() as idp, running(idp.upstream()) as url:
        browser = Browser()
        back = callback(browser, url)
        assert browser.send("GET", back).status == 303
        assert is_signed_in(browser, url)
        before = idp.count("/token")
        assert browser.send("GET", back).status == 403
        assert idp.count("/token") == before


def test_a_callback_in_another_browser_does_not_sign_in():
    with provider() as idp, running(idp.upstream()) as url:
        victim, attacker = Browser(), Browser()
        back = callback(attacker, url)
        assert victim.send("GET", back).status == 403
        callback(victim, url)  # now it has a cookie of its own
        assert victim.send("GET", back).status == 403
        assert idp.count("/token") == 0
        assert not is_signed_in(victim, url)
        # The attempt of another browser does not use it up.
        assert attacker.send("GET", back).status == 303


def test_a_code_of_one_provider_is_not_accepted_at_the_callback_of_another():
    with provider() as honest, provider() as evil:
        upstreams = honest.upstream(name="honest"), evil.upstream(name="evil")
        with running(*upstreams) as url:
            browser = Browser()
            page = browser.open(Program(url).authorize_url())
            back = callback(browser, url, start=links(page)[0])
            mixed = back.replace("/upstream/honest/", "/upstream/evil/")
            assert browser.send("GET", mixed).status == 403
            # The honest code has not been sent to the other provider, and the state is used up.
            assert evil.count("/token") == 0
            assert browser.send("GET", back).status == 403
            assert not is_signed_in(browser, url)


@pytest.mark.parametrize("iss", ["https://evil.example", None], ids=["other", "missing"])
def test_a_response_of_another_issuer_is_refused(iss):
    with provider() as idp, running(idp.upstream()) as url:
        idp.metadata = {"authorization_response_iss_parameter_supported": True}
        idp.response = {"iss": iss}
        assert Browser().open(Program(url).authorize_url()).status == 502
        assert idp.count("/token") == 0
        idp.response = {"iss": idp.url}
        assert "decision" in Browser().open(Program(url).authorize_url()).text


def test_an_error_of_another_issuer_does_not_reach_the_program():
    with provider() as idp, running(idp.upstream()) as url:
        idp.response = {"iss": "https://evil.example", "code": None, "error": "access_denied"}
        assert Browser().open(Program(url).authorize_url()).status == 502


def changed(back, **values):
    fields = dict(parse_qsl(urlsplit(back).query)) | values
    kept = {name: value for name, value in fields.items() if value is not None}
    return f"{back.partition('?')[0]}?{urlencode(kept)}"


def test_a_callback_with_a_made_up_state_or_without_a_code_is_refused():
    with provider() as idp, running(idp.upstream()) as url:
        browser = Browser()
        back = callback(browser, url)
        for values in ({"state": "x" * 43}, {"state": None}):
            assert browser.send("GET", changed(back, **values)).status == 403
        assert browser.send("GET", f"{back}&code=other").status == 400
        assert browser.send("GET", changed(back, code=None)).status == 502
        assert idp.count("/token") == 0
        assert not is_signed_in(browser, url)


def test_a_code_that_was_injected_into_another_sign_in_is_refused():
    with provider() as idp, running(idp.upstream()) as url:
        attacker, victim = Browser(), Browser()
        stolen = dict(parse_qsl(urlsplit(callback(victim, url)).query))["code"]
        own = callback(attacker, url)
        # PKCE: the code belongs to another verifier.
        assert attacker.send("GET", changed(own, code=stolen)).status == 502
        assert not is_signed_in(attacker, url)


def signed_by_another(claims):
    return jwt.encode(claims, private_key("other"), algorithm="ES256", headers={"kid": "first"})


def signed_with_the_client_secret(claims):
    return jwt.encode(claims, "the secret of the desk at the provider", algorithm="HS256")


BAD_CLAIMS = {
    "issuer": {"iss": "https://evil.example"},
    "audience": {"aud": "another client"},
    "audiences": {"aud": ["desk", "another client"]},
    "party": {"azp": "another client"},
    "nonce": {"nonce": "another nonce"},
    "no nonce": {"nonce": None},
    "expired": {"exp": int(time.time()) - 3600, "iat": int(time.time()) - 7200},
    "no expiry": {"exp": None},
    "future": {"iat": int(time.time()) + 3600},
    "no subject": {"sub": None},
    "empty subject": {"sub": ""},
    "subject type": {"sub": ["17"]},
    "subject size": {"sub": "x" * 300},
}


def test_an_id_token_that_is_not_for_this_sign_in_is_refused():
    with provider() as idp, running(idp.upstream()) as url:
        program = Program(url)
        for name, claims in BAD_CLAIMS.items():
            idp.claims = claims
            browser = Browser()
            assert browser.open(program.authorize_url()).status == 502, name
            assert not is_signed_in(browser, url), name
        idp.claims = {}
        for sign in (idp.unsigned, signed_by_another, signed_with_the_client_secret):
            idp.sign = sign
            assert Browser().open(program.authorize_url()).status == 502, sign
        idp.sign = idp.signed
        idp.token = {"id_token": None}
        assert Browser().open(program.authorize_url()).status == 502
        idp.token = {}
        assert "decision" in Browser().open(program.authorize_url()).text


TENANT = "8eaef023-2b34-4da1-9baa-8bc8c9d6a490"
OTHER = "2f4a1c7e-91d0-4c55-8d53-6a1b3b0a9f10"


def test_only_listed_tenants_of_an_issuer_for_many_sign_in():
    with provider() as idp:
        idp.metadata = {"issuer": f"{idp.url}/{{tenantid}}/v2.0"}
        many = idp.upstream(tenants=[TENANT], subject_claims=("tid", "oid"))
        with running(many) as url, running(idp.upstream()) as single:
            for tenant, issuer, status in (
                (TENANT, TENANT, 200),
                (OTHER, OTHER, 502),
                (TENANT, OTHER, 502),
                (OTHER, TENANT, 502),
                (None, TENANT, 502),
                ("{tenantid}", "{tenantid}", 502),
            ):
                idp.claims = {"tid": tenant, "oid": "17", "iss": f"{idp.url}/{issuer}/v2.0"}
                assert Browser().open(Program(url).authorize_url()).status == status, tenant
            # Without a list the template is not accepted at all.
            assert Browser().open(Program(single).authorize_url()).status == 502


def test_metadata_of_another_issuer_is_refused():
    with provider() as idp, running(idp.upstream()) as url:
        for issuer in ("https://evil.example", f"{idp.url}/", None, 5):
            idp.metadata = {"issuer": issuer}
            assert Browser().open(Program(url).authorize_url()).status == 502
        assert idp.count("/authorize") == 0


def test_userinfo_of_another_user_is_refused():
    with provider() as idp, running(idp.upstream()) as url:
        idp.claims = {"email": None}
        idp.overrides["/userinfo"] = lambda _: (200, "", b'{"sub": "18", "email": "a@b.c"}')
        assert Browser().open(Program(url).authorize_url()).status == 502


def test_a_plain_provider_without_a_user_id_does_not_sign_in():
    with provider() as idp, running(idp.github()) as url:
        for body in (b"{}", b'{"id": null}', b'{"id": true}', b'{"id": {"a": 1}}', b"[]"):
            idp.overrides["/user"] = lambda _, body=body: (200, "", body)
            assert Browser().open(Program(url).authorize_url()).status == 502


def test_a_provider_that_says_too_much_of_a_user_is_refused():
    with provider() as idp, running(idp.github()) as url:
        body = b'{"id": 17, "about": "%s"}' % (b"x" * 40_000)
        idp.overrides["/user"] = lambda _: (200, "", body)
        assert Browser().open(Program(url).authorize_url()).status == 502


def test_a_request_that_looks_ahead_does_not_use_a_sign_in_up():
    with provider() as idp, running(idp.upstream()) as url:
        browser = Browser()
        back = callback(browser, url)
        assert browser.send("HEAD", back).status == 405
        assert browser.send("GET", back).status == 303


# -- consent


def test_consent_cannot_be_forged():
    with provider() as idp, running(idp.upstream()) as url:
        browser, program = Browser(), Program(url)
        page = browser.open(program.authorize_url())
        kind = "application/x-www-form-urlencoded"
        target, form = program.authorize_url(), {"step": "consent", "decision": "allow"}
        # A form of another site has no token of a page of ours.
        assert browser.send("POST", target, urlencode(form), content_type=kind).status == 403
        # Nor does the token of a page for one program fit another one.
        other = Program(url).authorize_url()
        taken = urlencode(page.hidden | {"decision": "allow"})
        assert browser.send("POST", other, taken, content_type=kind).status == 403
        # Nor that of another browser.
        assert Browser().send("POST", target, taken, content_type=kind).status == 403


def test_a_second_program_is_not_allowed_by_the_consent_for_the_first():
    with provider() as idp, running(idp.upstream()) as url:
        browser = Browser()
        browser.allow(Program(url).authorize_url())
        # The provider would say yes at once; this server asks.
        page = browser.open(Program(url).authorize_url())
        assert "decision" in page.text
        assert RETURN in page.text


def test_the_callback_never_leads_to_the_program():
    with provider() as idp, running(idp.upstream()) as url:
        browser = Browser()
        answer = browser.send("GET", callback(browser, url))
        assert answer.location.startswith(f"{url}/authorize?")
        assert "code=" not in answer.location


def test_a_consent_page_of_one_user_is_void_after_another_signed_in():
    with provider() as idp, running(idp.upstream()) as url:
        browser, program = Browser(), Program(url)
        page = browser.open(program.authorize_url())
        chosen = browser.submit(page, step="leave")
        idp.user |= {"sub": "18", "name": "Bob"}
        browser.open(links(chosen)[0])
        assert browser.submit(page, decision="allow").status == 403


def test_the_cookie_of_a_login_changes_with_the_sign_in():
    with provider() as idp, running(idp.upstream()) as url:
        browser = Browser()
        back = callback(browser, url)
        fixed = dict(browser.cookies)
        browser.send("GET", back)
        thief = Browser()
        thief.cookies = fixed
        assert is_signed_in(browser, url)
        assert not is_signed_in(thief, url)
