"""From a 401 to the answer, with real servers on loopback: some helpful, some hostile."""

import asyncio
import contextlib
import urllib.error
from urllib.parse import parse_qsl, urlsplit

import pytest
from aiohttp import web

from accord import connect
from accord.auth import MemoryStore, OAuth
from accord.client import HttpClientOptions
from accord.errors import FlowFailed, Forbidden, Unauthorized
from support.scripted_authorization import browse, scripted
from support.tables import cases
from support.waiting import run

SAID: list[str] = []
# So that no other request answers a challenge first.
DEAF = HttpClientOptions(listen=False)


def oauth(**more):
    usual = {"store": MemoryStore(), "open_browser": browse, "timeout": 5.0, "tell": SAID.append}
    return OAuth(**(usual | more))


async def use(script, auth=None, times=1):
    async with connect(script.url, auth=auth or oauth()) as client:
        for _ in range(times):
            result = await client.call_tool("x")
        return result.content[0].text


def query_of(url):
    return dict(parse_qsl(urlsplit(url).query))


# -- the usual way


@pytest.mark.requirement(
    "auth.http.oauth-flow",
    "auth.oauth21.implementations",
    "auth.dcr.implementations",
    "auth.challenge.client-reacts",
    "auth.resource.both-requests",
    "auth.resource-parameter.sent",
    "auth.resource-indicators.client",
    "auth.redirect.registered",
    "auth.redirect.localhost-or-https",
    "auth.every-request",
    "auth.token.not-in-query",
    "auth.register.before-flow",
)
def test_a_protected_server_is_used_after_a_person_agreed():
    async def main():
        async with scripted() as script:
            assert await use(script, times=3) == "done"
            (registration,) = script.forms("/register")
            (asked,) = script.forms("/authorize")
            (redeemed,) = script.forms("/token")
            (uri,) = registration["redirect_uris"]
            assert uri == asked["redirect_uri"] == redeemed["redirect_uri"]
            assert urlsplit(uri).hostname == "127.0.0.1"
            assert asked["resource"] == redeemed["resource"] == script.url
            assert asked["code_challenge_method"] == "S256"
            tokens = [head.get("Authorization") for head in script.heads("/mcp")]
            assert tokens[0] is None
            assert len(set(tokens[1:])) == 1
            assert all(
                not fields
                for method, path, fields, _ in script.seen
                if method == "GET" and path == "/mcp"
            )

    run(main())


@pytest.mark.requirement("auth.fallback.default-paths", "auth.http.oauth-flow")
def test_a_server_without_metadata_is_used_by_default_paths():
    async def main():
        async with scripted(prm=None, metadata=None, challenge="") as script:
            assert await use(script) == "done"
            assert script.forms("/authorize")[0]["resource"] == script.url

    run(main())


def test_a_person_is_asked_once_however_many_requests_wait():
    async def main():
        auth = oauth()
        async with scripted() as script:
            assert await asyncio.gather(*(use(script, auth) for _ in range(10))) == ["done"] * 10
            assert script.count("/authorize") == 1

    run(main())


def test_the_next_run_needs_no_user_and_no_registration():
    store = MemoryStore()

    async def main():
        async with scripted() as script:
            await use(script, oauth(store=store))
            await use(script, oauth(store=store))
            assert script.count("/authorize") == script.count("/register") == 1
            script.expire()
            script.refreshable.clear()
            await use(script, oauth(store=store))
            assert (script.count("/authorize"), script.count("/register")) == (2, 1)
            first, second = script.forms("/authorize")
            assert first["redirect_uri"] == second["redirect_uri"]

    run(main())


def test_a_registered_port_that_is_taken_means_a_new_registration():
    store = MemoryStore()

    async def main():
        async with scripted() as script:
            await use(script, oauth(store=store))
            script.expire()
            script.refreshable.clear()
            port = urlsplit(script.forms("/authorize")[0]["redirect_uri"]).port
            blocker = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
            await use(script, oauth(store=store))
            blocker.close()
            assert script.count("/register") == 2
            other = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
            taken = other.sockets[0].getsockname()[1]
            with pytest.raises(FlowFailed, match="redirect"):
                await use(script, oauth(redirect_port=taken))
            other.close()

    run(main())


# -- renewing


@pytest.mark.parametrize("rotates", [True, False], ids=["rotating", "keeping"])
def test_a_token_is_renewed_before_a_browser_is_opened(rotates):
    async def main():
        async with scripted(rotates=rotates, token={"expires_in": 0.001}) as script:
            async with connect(script.url, auth=oauth()) as client:
                for _ in range(3):
                    await client.ping()
            assert script.count("/authorize") == 1
            grants = [each["grant_type"] for each in script.forms("/token")]
            assert grants[0] == "authorization_code"
            assert set(grants[1:]) == {"refresh_token"}
            assert script.reused == 0

    run(main())


def test_a_token_that_the_server_took_back_is_renewed_first():
    async def main():
        async with scripted() as script, connect(script.url, auth=oauth()) as client:
            script.expire()
            await client.ping()
            assert script.count("/authorize") == 1
            script.expire()
            script.refreshable.clear()
            await client.ping()
            assert script.count("/authorize") == 2

    run(main())


@pytest.mark.requirement("auth.refresh.not-assumed")
def test_without_a_refresh_token_a_token_is_used_to_its_end():
    async def main():
        said = {"refresh_token": None, "expires_in": 0.001}
        async with scripted(token=said) as script:
            async with connect(script.url, auth=oauth(), http=DEAF) as client:
                await client.ping()
                script.token = {"refresh_token": None}
                await client.ping()
                before = script.count("/authorize")
                await client.ping()
                assert script.count("/authorize") == before
            assert {each["grant_type"] for each in script.forms("/token")} == {"authorization_code"}

    run(main())


def test_a_provider_that_rejects_the_resource_while_renewing_is_asked_without_it():
    async def main():
        async with scripted() as script, connect(script.url, auth=oauth(), http=DEAF) as client:
            await client.ping()
            script.expire()
            script.token_errors = [(400, {"error": "invalid_target"})]
            await client.ping()
            assert ["resource" in each for each in script.forms("/token")] == [True, True, False]
            script.expire()
            await client.ping()
            assert "resource" not in script.forms("/token")[-1]
            assert script.count("/authorize") == 1

    run(main())


def test_stepped_up_scopes_are_kept_when_the_user_is_asked_again():
    async def main():
        needed = {"tools/call": "write"}
        async with (
            scripted(needed=needed, challenge='Bearer scope="read"') as script,
            connect(script.url, auth=oauth(), http=DEAF) as client,
        ):
            await client.call_tool("x")
            script.expire()
            script.token_errors = [(400, {"error": "temporarily_unavailable"})]
            with pytest.raises(FlowFailed, match="temporarily_unavailable"):
                await client.call_tool("x")
            await client.call_tool("x")
            assert [each["scope"] for each in script.forms("/authorize")] == ["read", "read write"]

    run(main())


def test_an_issuer_that_is_away_opens_no_browser():
    async def main():
        async with scripted() as script, connect(script.url, auth=oauth(), http=DEAF) as client:
            await client.ping()
            script.expire()
            script.token_errors = [(503, {})]
            with pytest.raises(FlowFailed, match="HTTP 503") as caught:
                await client.call_tool("x")
            assert caught.value.step == "refresh"
            await client.call_tool("x")
            assert script.count("/authorize") == 1

    run(main())


def test_a_server_that_refuses_fresh_tokens_does_not_ask_the_user_again():
    async def main():
        async with scripted() as script:
            script.overrides["/mcp"] = lambda request: web.Response(status=401)
            auth = oauth()
            for _ in range(3):
                with pytest.raises(Unauthorized, match="does not take the token"):
                    await use(script, auth)
            assert script.count("/authorize") == 1

    run(main())


@pytest.mark.requirement(
    "auth.binding.keyed-by-issuer",
    "auth.binding.no-reuse-on-change",
    "auth.binding.reregister-on-change",
    "auth.as.separate-state",
    "auth.as.no-cross-use",
)
def test_a_server_that_moved_to_another_issuer_never_shows_it_the_old_client():
    async def main():
        named = {"client_id": "of-the-old-issuer"}
        async with scripted(registered=named) as old, scripted() as new:
            auth = oauth()
            async with connect(old.url, auth=auth) as client:
                await client.ping()
                old.expire()
                old.refreshable.clear()
                old.prm = {"authorization_servers": [new.issuer]}
                old.good = new.good
                await client.ping()
            assert new.count("/register") == 1
            tokens = {head.get("Authorization", "") for head in old.heads("/mcp")}
            assert len(tokens) == 3
            sent = str([fields for _, _, fields, _ in new.seen])
            assert "refresh_token=" not in sent
            assert new.forms("/authorize")[0]["resource"] == old.url
            assert old.forms("/authorize")[0]["client_id"] == "of-the-old-issuer"
            assert "of-the-old-issuer" not in sent
            kept = auth.store._values
            assert f"client {old.issuer}" in kept
            assert f"client {new.issuer}" in kept
            assert [key for key in kept if key.startswith(f"tokens {old.issuer} ")] == []

    run(main())


@pytest.mark.requirement("auth.binding.preregistered-mismatch-error")
def test_a_given_client_id_is_not_shown_to_another_issuer():
    async def main():
        async with scripted() as old, scripted() as new:
            auth = oauth(client_id="given")
            await use(old, auth)
            old.expire()
            old.refreshable.clear()
            old.prm = {"authorization_servers": [new.issuer]}
            old.good = new.good
            with pytest.raises(FlowFailed, match="is now protected by") as caught:
                await use(old, auth)
            assert "OAuth(issuer=...)" in caught.value.hint
            again = oauth(client_id="given", store=auth.store)  # as after a restart
            with pytest.raises(FlowFailed, match="is now protected by"):
                await use(old, again)
            assert new.count("/authorize") == new.count("/register") == 0
            named = oauth(client_id="given", store=auth.store, issuer=new.issuer)
            assert await use(old, named) == "done"

    run(main())


@pytest.mark.requirement("auth.binding.no-reuse-on-change", "auth.cimd.client-checks-support")
def test_a_metadata_document_is_the_id_at_every_issuer_that_supports_it():
    async def main():
        supported = {"client_id_metadata_document_supported": True}
        async with scripted(metadata=supported) as old, scripted(metadata=supported) as new:
            url = "https://app.example/client.json"
            async with connect(old.url, auth=oauth(client_metadata_url=url)) as client:
                old.expire()
                old.refreshable.clear()
                old.prm = {"authorization_servers": [new.issuer]}
                old.good = new.good
                await client.ping()
            for script in (old, new):
                assert script.forms("/authorize")[0]["client_id"] == url
                assert script.count("/register") == 0

    run(main())


# -- scopes


@pytest.mark.requirement("auth.scope.client-steps-up", "auth.scope.client-union")
def test_more_is_asked_for_when_it_is_needed_without_losing_what_was_had():
    async def main():
        needed = {"tools/call": "write", "ping": "read"}
        async with scripted(needed=needed, challenge='Bearer scope="read"') as script:
            async with connect(script.url, auth=oauth()) as client:
                await client.ping()
                await client.call_tool("x")
                await client.ping()
            assert [each["scope"] for each in script.forms("/authorize")] == ["read", "read write"]

    run(main())


@pytest.mark.requirement("auth.scope.client-union")
def test_scopes_that_were_had_are_asked_for_again_once_the_refresh_token_is_refused():
    async def main():
        needed = {"tools/call": "write", "ping": "read"}
        async with scripted(needed=needed, challenge='Bearer scope="read"') as script:
            async with connect(script.url, auth=oauth()) as client:
                await client.call_tool("x")
                script.expire()
                script.refreshable.clear()
                await client.ping()
            scopes = [each["scope"] for each in script.forms("/authorize")]
            assert scopes == ["read", "read write", "read write"]

    run(main())


def test_a_client_is_registered_for_all_that_it_may_need_later():
    async def main():
        needed = {"tools/call": "write", "ping": "more"}
        prm = {"scopes_supported": ["read", "write"]}
        async with (
            scripted(needed=needed, prm=prm) as script,
            connect(script.url, auth=oauth(scopes=["read"])) as client,
        ):
            await client.call_tool("x")
            assert script.forms("/register")[0]["scope"] == "read write"
            assert script.count("/register") == 1
            await client.ping()
            assert script.forms("/register")[1]["scope"] == "read write more"

    run(main())


@pytest.mark.requirement("auth.scope.retry-limit")
def test_scopes_that_are_never_granted_are_requested_at_most_three_times():
    async def main():
        async with scripted(needed={"tools/call": "write"}) as script:
            async with connect(script.url, auth=oauth()) as client:
                script.token = {"scope": ""}
                script.grant = lambda scope="", **more: type(script).grant(script, "", **more)
                for _ in range(3):
                    with pytest.raises(Forbidden) as caught:
                        await client.call_tool("x")
                    assert caught.value.scopes == ("write",)
                await client.ping()
            assert script.count("/authorize") == 2

    run(main())


def test_scopes_come_from_the_metadata_unless_the_program_names_some():
    async def main():
        async with scripted(prm={"scopes_supported": ["a", "b"]}) as script:
            await use(script)
            await use(script, oauth(scopes=["c"]))
            await use(script, oauth(scopes="d e"))
            scopes = [each["scope"] for each in script.forms("/authorize")]
            assert scopes == ["a b", "c", "d e"]

    run(main())


# -- identity providers that reject `resource`


@pytest.mark.requirement("auth.resource.both-requests")
def test_a_provider_that_rejects_the_resource_is_asked_without_it():
    async def main():
        async with scripted(rejects_resource=True) as script:
            assert await use(script) == "done"
            with_it, without = script.forms("/authorize")
            assert ("resource" in with_it, "resource" in without) == (True, False)
            with pytest.raises(FlowFailed, match="invalid_target"):
                await use(script, oauth(resource="send"))
            await use(script, oauth(resource="omit"))
            assert "resource" not in script.forms("/authorize")[-1]

    run(main())


def test_a_token_endpoint_that_rejects_the_resource_is_asked_without_it():
    async def main():
        about = {"error": "invalid_request", "error_description": "resource is not allowed"}
        async with scripted(token_errors=[(400, about)]) as script:
            assert await use(script) == "done"
            assert [("resource" in each) for each in script.forms("/token")] == [True, False]
            assert script.count("/authorize") == 1
        async with scripted(token_errors=[(400, {"error": "invalid_request"})]) as script:
            with pytest.raises(FlowFailed, match="invalid_request"):
                await use(script)
            assert script.count("/token") == 1

    run(main())


# -- other grants, other clients


@pytest.mark.requirement("auth.preregistration.option", "auth.register.priority")
def test_a_client_that_is_registered_by_hand_needs_no_registration():
    async def main():
        async with scripted(metadata={"registration_endpoint": None}) as script:
            with pytest.raises(FlowFailed, match="client_id"):
                await use(script)
            await use(script, oauth(client_id="me", client_secret="s3", issuer=script.issuer))
            assert script.heads("/token")[-1]["Authorization"].startswith("Basic ")
            assert "client_secret" not in script.forms("/token")[-1]

    run(main())


def test_client_credentials_ask_no_user():
    async def main():
        async with scripted() as script:
            secret = {"client_secret": "s3", "issuer": script.issuer}
            auth = oauth(grant="client_credentials", client_id="me", **secret)
            assert await use(script, auth) == "done"
            assert script.count("/authorize") == 0
            assert script.forms("/token")[0]["resource"] == script.url
            script.expire()
            assert await use(script, auth) == "done"

    run(main())


def test_a_machine_asks_only_for_the_configured_scopes():
    async def main():
        says = 'Bearer scope="api://desk/use"'
        async with scripted(challenge=says) as script:
            given = {"grant": "client_credentials", "client_id": "me", "client_secret": "s3"}
            given["issuer"] = script.issuer
            await use(script, oauth(**given, scopes=["api://desk/.default"]))
            await use(script, oauth(**given))
            asked = [each["scope"] for each in script.forms("/token")]
            assert asked == ["api://desk/.default", "api://desk/use"]

    run(main())


def test_the_device_grant_shows_instructions_and_waits():
    async def main():
        async with scripted(pending=2) as script:
            script.metadata = {"device_authorization_endpoint": f"{script.issuer}/device"}
            SAID.clear()
            assert await use(script, oauth(grant="device")) == "done"
            assert [
                f"To authorize, open {script.issuer}/enter and enter the code ABCD-EFGH"
            ] == SAID
            assert len(script.forms("/token")) == 3

    run(main())


def test_without_a_browser_the_url_is_shown_and_what_is_pasted_counts():
    async def main():
        async with scripted() as script:
            for what in ("url", "code"):
                told = []

                def paste(what=what, told=told):
                    url = told[0].split("\n")[2].strip()
                    asked = query_of(url)
                    script.codes["pasted"] = asked
                    if what == "code":
                        return " pasted\n"
                    return f"{asked['redirect_uri']}?code=pasted&state={asked['state']}"

                auth = oauth(open_browser=lambda url: False, paste=paste, tell=told.append)
                assert await use(script, auth) == "done"

    run(main())


def test_a_program_may_do_the_browsing_itself_and_return_the_redirect():
    async def main():
        async def visit(url):
            await asyncio.to_thread(lambda: None)
            asked = query_of(url)
            code = "by-hand"
            script.codes[code] = asked
            return f"{asked['redirect_uri']}?code={code}&state={asked['state']}"

        async with scripted() as script:
            assert await use(script, oauth(open_browser=visit)) == "done"

    run(main())


def test_with_neither_browser_nor_terminal_there_is_advice():
    async def main():
        async with scripted() as script:
            with pytest.raises(FlowFailed, match="neither a browser nor a terminal") as caught:
                await use(script, oauth(open_browser=lambda url: False))
            assert "client_credentials" in caught.value.hint
            with pytest.raises(FlowFailed, match="nothing was pasted"):
                await use(script, oauth(open_browser=lambda url: False, paste=lambda: " \n"))
            with pytest.raises(FlowFailed, match=r"within 0\.05 s"):
                await use(script, oauth(open_browser=lambda url: None, timeout=0.05))
            with pytest.raises(FlowFailed, match="ZeroDivisionError"):
                await use(script, oauth(open_browser=lambda url: 1 / 0))

    run(main())


# -- attacks


@pytest.mark.requirement("auth.state.verified")
@pytest.mark.parametrize("state", [None, "forged"], ids=str)
def test_a_redirect_without_our_state_is_ignored(state):
    async def main():
        async with scripted(redirect={"state": state}) as script:

            def visit(url):
                with pytest.raises(urllib.error.HTTPError) as caught:
                    browse(url)
                assert caught.value.code == 400
                caught.value.close()

            with pytest.raises(FlowFailed, match="no answer within"):
                await use(script, oauth(open_browser=visit, timeout=2))
            assert script.count("/token") == 0

    run(main())


@pytest.mark.requirement("auth.iss.compare-present", "auth.iss.reject-absent-when-advertised")
@pytest.mark.parametrize(
    ("metadata", "iss"),
    [
        ({}, "https://evil.example"),
        ({"authorization_response_iss_parameter_supported": True}, None),
        ({"authorization_response_iss_parameter_supported": True}, "https://evil.example"),
    ],
    ids=str,
)
def test_the_answer_of_another_issuer_gets_no_code_redeemed(metadata, iss):
    async def main():
        async with scripted(metadata=metadata, redirect={"iss": iss}) as script:
            with pytest.raises(FlowFailed, match="iss"):
                await use(script)
            assert script.count("/authorize") == 1
            assert script.count("/token") == 0

    run(main())


@pytest.mark.requirement("auth.iss.errors-too")
def test_an_error_of_another_issuer_changes_nothing():
    async def main():
        async with scripted() as script:
            auth = oauth()
            await use(script, auth)
            script.expire()
            script.refreshable.clear()
            script.redirect = {"error": "invalid_client", "code": None, "iss": "https://evil"}
            with pytest.raises(FlowFailed, match="issuer 'https://evil'") as caught:
                await use(script, auth)
            assert "invalid_client" not in str(caught.value)

    run(main())


@pytest.mark.requirement("auth.pkce.refuse-without-methods")
def test_pkce_that_the_metadata_omits_can_be_assumed():
    async def main():
        async with scripted(metadata={"code_challenge_methods_supported": None}) as script:
            with pytest.raises(FlowFailed, match="code_challenge_methods_supported"):
                await use(script)
            assert script.count("/authorize") == 0
            assert await use(script, oauth(pkce="assume")) == "done"

    run(main())


@pytest.mark.requirement("auth.pkce.implemented")
def test_a_server_that_pretends_not_to_know_pkce_gets_no_request():
    async def main():
        async with scripted(metadata={"code_challenge_methods_supported": ["plain"]}) as script:
            with pytest.raises(FlowFailed, match="S256"):
                await use(script)
            assert script.count("/authorize") == script.count("/token") == 0

    run(main())


@cases(
    "place",
    ["http://169.254.169.254/latest", "http://10.0.0.1/x", "file:///etc/passwd", "https://0.0.0.0"],
)
def test_a_challenge_cannot_send_us_to_places_inside(place):
    async def main():
        async with scripted(challenge=f'Bearer resource_metadata="{place}"') as script:
            with pytest.raises(FlowFailed) as caught:
                await use(script)
            assert caught.value.step == "protected resource metadata"
            assert script.count("/authorize") == 0

    run(main())


@pytest.mark.parametrize(
    "name",
    ["authorization_endpoint", "token_endpoint", "registration_endpoint"],
)
def test_metadata_cannot_send_us_to_places_inside(name):
    async def main():
        async with scripted(metadata={name: "http://169.254.169.254/x"}) as script:
            with pytest.raises(FlowFailed, match=r"169\.254\.169\.254|must not be opened"):
                await use(script)

    run(main())


@cases(
    "host",
    [
        "good.example\x1bc",
        "evil.example\x08\x08\x08\x08good.example",
        "%65vil.example",
        "2130706433",
        "good.exam\tple",
        "[",
    ],
    ids=ascii,
)
@cases("grant", ["authorization_code", "device"])
def test_a_page_whose_host_is_disguised_is_neither_opened_nor_shown(host, grant):
    async def main():
        opened, told = [], []
        page = f"https://{host}/authorize"

        def device(request):
            said = {"device_code": "d", "user_code": "ABCD", "verification_uri": page}
            return web.json_response(said)

        async with scripted(metadata={"authorization_endpoint": page}) as script:
            script.metadata["device_authorization_endpoint"] = f"{script.issuer}/device"
            script.overrides["/device"] = device
            auth = oauth(grant=grant, open_browser=opened.append, tell=told.append)
            with pytest.raises(FlowFailed, match="must not be opened") as caught:
                await use(script, auth)
            assert str(caught.value).isprintable()
        assert opened == told == []

    run(main())


@pytest.mark.parametrize(
    "behaviour",
    [
        {"prm": {"authorization_servers": ["https://["]}},
        {"prm": {"authorization_servers": ["https://login.example:99999/"]}},
        {"challenge": 'Bearer resource_metadata="https://["'},
        {"metadata": {"token_endpoint": "https://["}},
        {"metadata": {"registration_endpoint": "https://["}},
    ],
    ids=str,
)
def test_a_malformed_url_of_a_server_is_named_and_causes_no_traceback(behaviour, caplog):
    async def main():
        async with scripted(**behaviour) as script:
            with pytest.raises(FlowFailed, match="malformed"):
                await use(script)

    run(main())
    assert not [record for record in caplog.records if record.exc_info]


def test_metadata_of_any_size_is_given_up():
    async def endless(request):
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 65536)
        except ConnectionError:
            return response

    async def main():
        async with scripted() as script:
            script.overrides["/.well-known/oauth-authorization-server"] = endless
            with pytest.raises(FlowFailed, match="more than 524288 bytes"):
                await use(script)

    run(main())


@pytest.mark.requirement("auth.tokens.only-own-issuer")
def test_metadata_of_another_resource_leads_to_no_authorization():
    async def main():
        async with scripted(prm={"resource": "https://bank.example/mcp"}) as script:
            with pytest.raises(FlowFailed, match="another resource"):
                await use(script)
            assert script.count("/authorize") == script.count("/register") == 0

    run(main())


def test_an_issuer_that_was_pinned_is_the_only_one():
    async def main():
        async with scripted() as script:
            pinned = oauth(issuer="https://login.example", client_id="me", client_secret="SECRET")
            with pytest.raises(FlowFailed, match="trusts no other") as caught:
                await use(script, pinned)
            assert "SECRET" not in str(caught.value)
            assert script.count("/token") == script.count("/authorize") == 0
            assert await use(script, oauth(issuer=script.issuer)) == "done"

    run(main())


@pytest.mark.requirement("auth.binding.preregistered-mismatch-error")
def test_a_secret_goes_to_no_other_issuer_than_the_one_that_was_named():
    async def main():
        store = MemoryStore()
        given = {"client_id": "me", "client_secret": "SECRET", "store": store}
        async with scripted() as script, scripted() as evil:
            await use(script, oauth(**given, issuer=script.issuer))
            script.expire()
            script.refreshable.clear()
            script.prm = {"authorization_servers": [evil.issuer]}
            with pytest.raises(FlowFailed, match="trusts no other") as caught:
                await use(script, oauth(**given, issuer=script.issuer))
            assert script.issuer in caught.value.hint
            assert evil.count("/token") == evil.count("/authorize") == 0
            moved = oauth(**given, issuer=evil.issuer)
            with pytest.raises(Unauthorized):
                await use(script, moved)
            assert evil.count("/token") == 1

    run(main())


@pytest.mark.requirement("auth.tokens.only-own-issuer")
def test_a_token_for_one_server_is_never_shown_to_another():
    async def main():
        auth = oauth()
        async with scripted() as one, scripted() as two:
            await use(one, auth)
            await use(two, auth)
            ours = {head.get("Authorization") for head in one.heads("/mcp")} - {None}
            theirs = {head.get("Authorization") for head in two.heads("/mcp")} - {None}
            assert ours
            assert theirs
            assert not ours & theirs
            sent = str([(fields, head) for _, _, fields, head in two.seen])
            assert not any(token.removeprefix("Bearer ") in sent for token in ours)

    run(main())


def test_a_redirect_of_the_token_endpoint_gets_no_code():
    async def main():
        async with scripted() as script, scripted() as thief:

            def redirect(request):
                raise web.HTTPTemporaryRedirect(f"{thief.issuer}/token")

            script.overrides["/token"] = redirect
            with pytest.raises(FlowFailed, match="HTTP 307"):
                await use(script)
            assert thief.seen == []

    run(main())


@pytest.mark.parametrize("is_first", [True, False], ids=["first attempt", "later attempt"])
def test_a_registration_that_the_server_has_forgotten_is_replaced_at_the_next_attempt(is_first):
    def unknown(request):
        return web.Response(status=400, text="The program is not known here")

    async def main():
        store = MemoryStore()
        async with scripted() as script:
            if not is_first:
                await use(script, oauth(store=store))
                script.expire()
                script.refreshable.clear()
            known = script.count("/register")
            shown = asyncio.Event()
            script.overrides["/authorize"] = unknown

            async def visit(url):
                with contextlib.suppress(urllib.error.HTTPError):
                    await asyncio.to_thread(browse, url)
                shown.set()
                await asyncio.sleep(60)

            given_up = oauth(store=store, open_browser=visit, timeout=60.0)
            task = asyncio.ensure_future(use(script, given_up))
            await shown.wait()
            # As if the process were killed now: what counts is what is stored.
            killed = MemoryStore()
            killed._values = dict(store._values)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            del script.overrides["/authorize"]
            for kept in (store, killed):
                before = script.count("/register")
                assert await use(script, oauth(store=kept)) == "done"
                assert script.count("/register") == before + 1
                script.expire()
                script.refreshable.clear()
                # From then on it is used again.
                assert await use(script, oauth(store=kept)) == "done"
                assert script.count("/register") == before + 1
            assert script.count("/register") >= known + 2

    run(main())


@pytest.mark.parametrize(
    ("error", "is_kept"),
    [("access_denied", True), ("invalid_client", False), ("unauthorized_client", False)],
)
def test_a_registration_is_kept_where_the_server_has_shown_to_know_it(error, is_kept):
    async def main():
        store = MemoryStore()
        async with scripted(redirect={"code": None, "error": error}) as script:
            with pytest.raises(FlowFailed, match=error):
                await use(script, oauth(store=store))
            assert (f"client {script.issuer}" in store._values) is is_kept
            script.redirect = {}
            assert await use(script, oauth(store=store)) == "done"
            assert script.count("/register") == (1 if is_kept else 2)

    run(main())


def test_a_request_that_is_given_up_leaves_nothing_behind():
    async def main():
        async with scripted() as script:
            opened = asyncio.Event()

            async def visit(url):
                opened.set()
                await asyncio.sleep(60)

            task = asyncio.ensure_future(use(script, oauth(open_browser=visit, timeout=60)))
            await opened.wait()
            uri = script.forms("/register")[0]["redirect_uris"][0]
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(OSError):
                await asyncio.open_connection("127.0.0.1", urlsplit(uri).port)

    run(main())


@pytest.mark.parametrize("wrong", [{"grant": "password"}, {"resource": "maybe"}], ids=str)
def test_settings_that_do_not_exist_are_refused(wrong):
    with pytest.raises(ValueError):
        OAuth(**wrong)
