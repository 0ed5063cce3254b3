"""Signing in with an identity provider: the way there and back, over real sockets."""

import json
import threading
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from accord import Context, Server, connect
from accord.auth import AuthorizationServer, MemoryStore, OAuth
from support.http_server import bounded
from support.oauth import query_of
from support.provider import Browser, Program, links, provider
from support.waiting import run


def desk(*upstreams, **options):
    auth = AuthorizationServer(upstream=upstreams, **({"store": None} | options))
    server = Server("desk", auth=auth)

    @server.tool
    async def whoami(ctx: Context) -> dict[str, object]:
        """Say who asks, and what the provider says of them."""
        principal = ctx.principal
        account = principal.upstream
        return {
            "subject": principal.subject,
            "provider": account.provider,
            "name": account.claims.get("name") or account.claims.get("login"),
            "token": await account.token(),
        }

    return server


@contextmanager
def running(*upstreams, **options):
    with bounded(desk(*upstreams, **options).asgi()) as port:
        yield f"http://127.0.0.1:{port}"


def ask(url, browser):
    async def main():
        auth = OAuth(store=MemoryStore(), open_browser=browser.allow, timeout=30.0)
        async with connect(f"{url}/mcp", auth=auth) as client:
            result = await client.call_tool("whoami")
            return json.loads(result.content[0].text)

    return run(main())


def test_a_program_calls_a_tool_that_calls_the_provider():
    with provider() as idp, running(idp.upstream()) as url:
        said = ask(url, Browser())
        assert (said["subject"], said["provider"], said["name"]) == ("fake:17", "fake", "Ada")
        # The tool has a token of the provider, and the program has none.
        assert idp.access[said["token"]]["sub"] == "17"
        _, fields = next(each for each in idp.asked if each[0] == "/authorize")
        assert fields["code_challenge_method"] == "S256"
        assert fields["redirect_uri"] == f"{url}/upstream/fake/callback"
        assert len({fields["state"], fields["nonce"], fields["code_challenge"]}) == 3


def test_plain_oauth_reads_the_user_from_the_api():
    with provider() as idp, running(idp.github(allow=["@example.com"])) as url:
        said = ask(url, Browser())
        assert (said["subject"], said["name"]) == ("github:17", "ada")
        assert idp.access[said["token"]]["sub"] == "17"


def test_the_program_gets_no_token_of_the_provider():
    with provider() as idp, running(idp.upstream()) as url:
        program, browser = Program(url), Browser()
        location = browser.allow(program.authorize_url())
        text = program.redeem(location).text
        secret = [*idp.access, *idp.renewals]
        assert secret
        assert not [each for each in secret if each in text or each in location]


def test_consent_is_asked_of_a_user_that_the_provider_signs_in_without_a_page():
    with provider() as idp, running(idp.upstream()) as url:
        page = Browser().open(Program(url).authorize_url())
        assert page.status == 200
        assert "to use this server for you?" in page.text
        assert "Ada (ada@example.com), signed in with fake" in page.text
        assert "http://127.0.0.1:3000/callback" in page.text


def test_a_user_that_is_signed_in_goes_to_the_consent_page_at_once():
    with provider() as idp, running(idp.upstream()) as url:
        browser = Browser()
        browser.allow(Program(url).authorize_url())
        assert "decision" in browser.send("GET", Program(url).authorize_url()).text
        assert idp.count("/authorize") == 1


def test_of_several_providers_the_user_chooses_one():
    with provider() as one, provider() as other:
        upstreams = one.upstream(name="one", title="First"), other.github(title="Second")
        with running(*upstreams) as url:
            browser = Browser()
            page = browser.open(Program(url).authorize_url())
            assert "First" in page.text
            assert "Second" in page.text
            assert "decision" in browser.open(links(page)[1]).text
            assert (one.count("/authorize"), other.count("/authorize")) == (0, 1)


def test_a_user_can_sign_in_as_another_one():
    with provider() as idp, running(idp.upstream()) as url:
        browser = Browser()
        page = browser.open(Program(url).authorize_url())
        chosen = browser.submit(page, step="leave")
        idp.user |= {"sub": "18", "name": "Bob", "email": "bob@example.com"}
        page = browser.open(links(chosen)[0])
        assert "Bob (bob@example.com)" in page.text
        assert idp.asked[-1][0] != "/authorize"
        assert [f.get("prompt") for p, f in idp.asked if p == "/authorize"] == [
            None,
            "select_account",
        ]


def test_a_device_is_connected_by_a_user_that_signs_in():
    with provider() as idp, running(idp.upstream()) as url:
        browser, program = Browser(), Browser()
        grants = ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"]
        body = json.dumps({"grant_types": grants, "token_endpoint_auth_method": "none"})
        made = program.send("POST", f"{url}/register", body, content_type="application/json")
        form = f"client_id={made.json['client_id']}"
        kind = "application/x-www-form-urlencoded"
        code = program.send("POST", f"{url}/device_authorization", form, content_type=kind).json
        page = browser.open(code["verification_uri_complete"])
        browser.submit(page, decision="allow")
        grant = "urn:ietf:params:oauth:grant-type:device_code"
        form += f"&grant_type={grant}&device_code={code['device_code']}"
        tokens = program.send("POST", f"{url}/token", form, content_type=kind)
        assert tokens.status == 200, tokens.text


# -- which users may enter


def test_a_user_that_is_not_allowed_reads_why_and_can_go_back():
    with provider() as idp, running(idp.upstream(allow=["bob@example.com"])) as url:
        browser = Browser()
        page = browser.open(Program(url).authorize_url())
        assert page.status == 403
        assert "Ada (ada@example.com)" in page.text
        retry, back = links(page)
        assert query_of(back)["error"] == ["access_denied"]
        assert query_of(back)["state"] == ["some state"]
        idp.user |= {"sub": "18", "email": "bob@example.com"}
        assert "decision" in browser.open(retry).text


def test_an_email_address_that_is_not_verified_does_not_count():
    with provider() as idp, running(idp.upstream(allow=["ada@example.com"])) as url:
        idp.user["email_verified"] = False
        assert Browser().open(Program(url).authorize_url()).status == 403


@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_decides_which_users_enter(is_async):
    seen = []

    def allow(user):
        seen.append(user)
        return user.claims["name"] == "Ada"

    async def allow_async(user):
        return allow(user)

    with provider() as idp, running(idp.upstream(allow=allow_async if is_async else allow)) as url:
        assert "decision" in Browser().open(Program(url).authorize_url()).text
        idp.user["name"] = "Eve"
        assert Browser().open(Program(url).authorize_url()).status == 403
    assert (seen[0].subject, seen[0].email) == ("fake:17", "ada@example.com")


def test_a_function_that_fails_lets_no_user_in():
    with provider() as idp, running(idp.upstream(allow=lambda user: user.nothing)) as url:
        assert Browser().open(Program(url).authorize_url()).status == 403


def test_an_email_address_that_the_id_token_leaves_out_is_asked_for():
    with provider() as idp, running(idp.upstream(allow=["@example.com"])) as url:
        idp.claims = {"email": None, "email_verified": None}
        assert "decision" in Browser().open(Program(url).authorize_url()).text
        assert idp.count("/userinfo") == 1


# -- providers that fail


def test_a_user_who_declines_at_the_provider_declines_to_the_program():
    with provider() as idp, running(idp.upstream()) as url:
        idp.response = {"code": None, "error": "access_denied", "error_description": "<b>no</b>"}
        back = Browser().open(Program(url).authorize_url())
        assert back.returned["error"] == "access_denied"
        assert back.returned["state"] == "some state"
        assert back.returned["iss"] == url
        assert "<b>" not in back.location


def test_another_error_of_the_provider_is_an_error_of_the_server():
    with provider() as idp, running(idp.upstream()) as url:
        idp.response = {"code": None, "error": "invalid_scope"}
        assert Browser().open(Program(url).authorize_url()).returned["error"] == "server_error"


BAD_ANSWERS = [
    (500, "", b"<h1>Oops</h1>"),
    (200, "", b"<script>alert(1)</script>"),
    (200, "", b"[" * 400_000),
    (302, "http://169.254.169.254/latest", b""),
]


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/jwks"])
def test_a_provider_that_fails_is_reported_and_tried_again(path):
    with provider() as idp, running(idp.upstream()) as url:
        program, retry = Program(url), ""
        browser = Browser()
        for answer in BAD_ANSWERS:
            idp.overrides[path] = lambda _, answer=answer: answer
            page = browser.open(retry or program.authorize_url())
            assert page.status == 502
            assert "<script" not in page.text
            assert "Oops" not in page.text
            retry, back = links(page)
            assert query_of(back)["error"][0] in ("server_error", "temporarily_unavailable")
        if path == "/jwks":
            return  # keys are fetched again only after a pause
        del idp.overrides[path]
        assert "decision" in browser.open(retry).text


def test_a_provider_that_is_down_does_not_stop_users_that_are_signed_in():
    browser = Browser()
    with provider() as idp, running(idp.upstream()) as url:
        program = Program(url)
        location = browser.allow(program.authorize_url())
        idp.overrides = dict.fromkeys(("/token", "/jwks", "/userinfo"), lambda _: (503, "", b""))
        tokens = program.redeem(location).json
        again = program.token(grant_type="refresh_token", refresh_token=tokens["refresh_token"])
        assert again.status == 200


def test_a_slow_provider_does_not_hold_up_other_users():
    held = threading.Event()
    with provider() as idp, provider() as other:
        upstreams = idp.upstream(name="slow"), other.upstream(name="quick")
        with running(*upstreams) as url:
            idp.overrides["/token"] = lambda _: (500 + held.wait(30), "", b"")
            program, waiting = Program(url), Browser()
            slow, quick = links(waiting.open(program.authorize_url()))
            thread = threading.Thread(target=waiting.open, args=(slow,), daemon=True)
            thread.start()
            assert "decision" in Browser().open(quick).text
            held.set()
            thread.join(30)


def test_a_browser_in_a_loop_of_redirects_is_stopped():
    with provider() as idp, running(idp.upstream()) as url:
        browser, program = Browser(), Program(url)
        start = browser.send("GET", program.authorize_url()).location
        found = [browser.send("GET", start).status for _ in range(21)]
        assert (set(found[:20]), found[20]) == ({303}, 429)


def test_metadata_with_an_endpoint_in_the_own_network_is_refused():
    with provider() as idp, running(idp.upstream()) as url:
        for name in ("authorization_endpoint", "jwks_uri"):
            idp.metadata = {name: "http://169.254.169.254/latest"}
            assert Browser().open(Program(url).authorize_url()).status == 502


def test_paths_of_unknown_providers_are_not_served():
    with provider() as idp, running(idp.upstream()) as url:
        for path in ("/upstream/other/callback", "/upstream/fake/other", "/upstream/fake"):
            assert Browser().send("GET", f"{url}{path}").status in (401, 404)
        start = f"{url}/upstream/fake/start"
        assert Browser().send("POST", start).status == 405
        for elsewhere in ("", "https://evil.example/authorize", "//evil.example", "/mcp"):
            assert Browser().send("GET", f"{start}?next={elsewhere}").status == 400
        page = Browser().open(f"{start}?next=/authorize?client_id=x")
        assert urlsplit(page.url).netloc == urlsplit(url).netloc
