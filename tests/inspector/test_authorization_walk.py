"""The steps of an authorization, against real servers on loopback, right ones and wrong ones."""

import asyncio
import json
import re
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from msgspec.structs import replace

from accord import Server
from accord.auth import AuthorizationServer, MemoryStore, OAuth
from accord.client.server_spec import ServerSpec
from accord.protocol.catalogue import catalogue
from accord_tools.diagnosis.stages import CLAUSES, STAGE_IDS, TITLES
from accord_tools.inspector.actions import load_actions, perform
from accord_tools.inspector.authorization_walk import AuthorizationWalk
from accord_tools.inspector.definition import ActionRefused, InspectOptions
from accord_tools.inspector.live.live_connection import LiveConnection
from accord_tools.inspector.session import Changes, InspectedSession
from support.http_server import serving
from support.issuer import token as signed_token
from support.oauth import ADA, person_at
from support.scripted_authorization import browse, scripted
from support.waiting import in_loop, run, until

ENDED = ("idle", "failed", "done", "waiting")
KEY = "kept-from-the-page-1234567"


@asynccontextmanager
async def walking(url="", **target):
    """Open a session, and give its walk."""
    about = ServerSpec(name="here", url=url, **target)
    session = InspectedSession(0, about, "live", options=InspectOptions(), changes=Changes())
    walk = session.part(AuthorizationWalk)
    try:
        yield walk
    finally:
        await session.close()


async def rest(walk):
    """Wait until the walk stops or waits for the person."""
    await until(lambda: walk.state in ENDED)
    return walk.describe()


async def walk_to(walk, last):
    """Take one step after the other up to a step, and return that step."""
    for each in STAGE_IDS:
        assert walk.describe()["next"] == each
        await walk.take_next()
        shown = await rest(walk)
        step = named(shown, each)
        if each == last or step["state"] == "failed":
            assert each == last, step
            return step
        if walk.state == "waiting":
            await asyncio.to_thread(browse, shown["sign_in_url"])
            await until(lambda: walk.state != "waiting")
            await rest(walk)
    raise AssertionError(last)


def named(shown, id):
    return next(each for each in shown["steps"] if each["id"] == id)


def verdicts(step):
    return {each["requirement"]: each["verdict"] for each in step["clauses"]}


def explained(step):
    return {name: value for name, value, _ in step["explains"]}


@in_loop
async def test_all_steps_of_a_good_server_are_done_one_by_one():
    async with scripted(prm={"scopes_supported": ["read"]}) as script, walking(script.url) as walk:
        assert walk.describe()["state"] == "idle"
        await walk_to(walk, "call")
        shown = walk.describe()
        assert shown["state"] == "done"
        assert {each["id"]: each["state"] for each in shown["steps"]} == dict.fromkeys(
            STAGE_IDS, "done"
        )
        assert shown["next"] == ""
        assert shown["token"]["description"]
        sent = explained(named(shown, "url"))
        assert (sent["scope"], sent["code_challenge_method"]) == ("read", "S256")
        assert sent["redirect_uri"] == shown["redirect_uri"]
        assert verdicts(named(shown, "refresh"))["auth.tokens.refresh-rotated"] == "kept"
        with pytest.raises(ActionRefused, match="all steps are made"):
            await walk.take_next()


@in_loop
async def test_no_secret_reaches_the_page():
    registered = {
        "client_secret": "the-client-secret-1",
        "registration_access_token": "manage-9876",
    }
    async with (
        scripted(registered=registered) as script,
        walking(script.url, headers={"X-Api-Key": KEY}) as walk,
    ):
        await walk_to(walk, "call")
        text = json.dumps(walk.describe())
        code = script.forms("/token")[0]
        secrets = [KEY, *registered.values(), code["code"], code["code_verifier"]]
        secrets += [*script.good, *script.refreshable, code.get("client_secret", KEY)]
        secrets += [head["Authorization"].split()[1] for head in script.heads("/token")]
        assert len({*secrets}) > 7
        assert [each for each in secrets if each in text] == []
        assert re.search(r"code_verifier=masked-\d+", text)


@in_loop
async def test_a_token_that_the_server_repeats_is_masked():
    async with scripted() as script, walking(script.url) as walk:
        await walk_to(walk, "token")
        [secret] = script.good
        script.token_errors = [(400, {"error": "invalid_grant", "error_description": secret})]
        await walk.take_next()
        await rest(walk)
        assert named(walk.describe(), "refresh")["state"] == "warning"
        assert secret not in json.dumps(walk.describe())


@in_loop
async def test_every_place_of_metadata_that_was_tried_is_shown():
    places = ("/.well-known/oauth-protected-resource",)
    async with (
        scripted(challenge="Bearer", prm_paths=places) as script,
        walking(script.url) as walk,
    ):
        step = await walk_to(walk, "resource")
        assert [each["response"].split()[1] for each in step["exchanges"]] == ["404", "200"]
        assert named(walk.describe(), "challenge")["state"] == "warning"


def broken_page(request):
    return web.Response(text="<h1>oops</h1>", content_type="text/html")


def refused(request):
    return web.json_response({"error": "invalid_client_metadata"}, status=400)


PRM = "/.well-known/oauth-protected-resource/mcp"
ASM = "/.well-known/oauth-authorization-server"
FAULTS = {
    "the challenge has another status": (
        {"overrides": {"/mcp": lambda _: web.Response(status=404)}},
        "challenge",
        "404",
        "/mcp",
    ),
    "resource metadata is not JSON": (
        {"overrides": {PRM: broken_page}},
        "resource",
        "text/html",
        "RFC 9728",
    ),
    "resource metadata is of another server": (
        {"prm": {"resource": "https://evil.example/mcp"}},
        "resource",
        "another resource",
        "has to name",
    ),
    "resource metadata names no issuer": (
        {"prm": {"authorization_servers": []}},
        "resource",
        "without authorization servers",
        "at least one",
    ),
    "the authorization server cannot be reached": (
        {"prm": {"authorization_servers": ["http://127.0.0.1:1"]}},
        "server",
        "127.0.0.1:1",
        "",
    ),
    "the issuer is another": (
        {"metadata": {"issuer": "https://evil.example"}},
        "server",
        "none of them",
        "issuer",
    ),
    "the authorization endpoint is a script": (
        {"metadata": {"authorization_endpoint": "javascript:alert(1)"}},
        "endpoints",
        "not an http(s) URL",
        "https",
    ),
    "the token endpoint is missing": (
        {"metadata": {"token_endpoint": None}},
        "endpoints",
        "without token_endpoint",
        "publish",
    ),
    "the token endpoint has no TLS": (
        {"metadata": {"token_endpoint": "http://auth.example/token"}},
        "endpoints",
        "is not https",
        "https",
    ),
    "PKCE is not supported": (
        {"metadata": {"code_challenge_methods_supported": ["plain"]}},
        "endpoints",
        "without S256",
        "PKCE",
    ),
    "PKCE is not stated": (
        {"metadata": {"code_challenge_methods_supported": None}},
        "endpoints",
        "without code_challenge_methods_supported",
        "pkce='assume'",
    ),
    "registration is refused": (
        {"overrides": {"/register": refused}},
        "registration",
        "invalid_client_metadata",
        "client_id",
    ),
    "registration is missing": (
        {"metadata": {"registration_endpoint": None}},
        "registration",
        "without a registration_endpoint",
        "by hand",
    ),
    "the token is refused": (
        {"token_errors": [(400, {"error": "invalid_grant"})]},
        "token",
        "invalid_grant",
        "authorize again",
    ),
    "the token is missing": (
        {"token": {"access_token": None}},
        "token",
        "without an access_token",
        "RFC 6749",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@in_loop
async def test_a_wrong_server_stops_the_walk_at_its_step_and_redo_works(fault):
    behaviour, where, came, change = FAULTS[fault]
    async with scripted() as script, walking(script.url) as walk:
        right = {name: getattr(script, name) for name in behaviour}
        for name, value in behaviour.items():
            setattr(script, name, value)
        step = await walk_to(walk, where)
        shown = walk.describe()
        assert (shown["state"], shown["next"]) == ("failed", where)
        assert step["state"] == "failed"
        assert came in step["came"], step
        assert change in step["change"], step
        assert step["asked"]
        assert "javascript:" not in str(shown["sign_in_url"])
        for name, value in right.items():
            setattr(script, name, value)
        # What another step has read is read again there.
        again = {
            "the authorization server cannot be reached": "resource",
            "registration is missing": "server",
        }.get(fault, where)
        await (walk.take_next() if again == where else walk.restart(again))
        shown = await rest(walk)
        if shown["state"] == "waiting":
            await asyncio.to_thread(browse, shown["sign_in_url"])
            await until(lambda: walk.state != "waiting")
            shown = await rest(walk)
        assert named(shown, again)["state"] == "done"


@in_loop
async def test_an_error_in_the_redirect_is_shown_and_can_be_redone():
    refusal = {"code": None, "error": "access_denied", "error_description": "not today"}
    async with scripted(redirect=refusal) as script, walking(script.url) as walk:
        await walk.run_all()
        shown = await rest(walk)
        await asyncio.to_thread(browse, shown["sign_in_url"])
        await until(lambda: walk.state == "failed")
        step = named(walk.describe(), "redirect")
        assert "access_denied: not today" in step["came"]
        assert "declined" in step["change"]
        first = shown["sign_in_url"]
        script.redirect = {}
        await walk.restart("redirect")
        shown = await rest(walk)
        assert shown["state"] == "waiting"
        # A new state each time, at the same redirect URI: the client is registered with it.
        assert shown["sign_in_url"] != first
        assert len(script.clients) == 1
        await asyncio.to_thread(browse, shown["sign_in_url"])
        await until(lambda: walk.state == "idle")
        assert named(walk.describe(), "redirect")["state"] == "done"


@in_loop
async def test_a_redirect_with_another_state_is_ignored_and_said():
    async with scripted(redirect={"state": "another"}) as script, walking(script.url) as walk:
        await walk.run_all()
        shown = await rest(walk)
        with pytest.raises(OSError, match="400"):
            await asyncio.to_thread(browse, shown["sign_in_url"])
        step = named(walk.describe(), "redirect")
        assert walk.state == "waiting"
        assert "another state" in step["came"]
        assert "state" in step["change"]


@in_loop
async def test_a_redirect_from_another_issuer_shows_nothing_of_itself():
    forged = {"iss": "https://evil.example", "error": "look-at-me"}
    async with scripted(redirect=forged) as script, walking(script.url) as walk:
        await walk.run_all()
        shown = await rest(walk)
        await asyncio.to_thread(browse, shown["sign_in_url"])
        await until(lambda: walk.state == "failed")
        step = named(walk.describe(), "redirect")
        assert "https://evil.example" in step["came"]
        assert "look-at-me" not in json.dumps(walk.describe())


@in_loop
async def test_a_pasted_redirect_is_taken_and_one_with_another_state_is_not():
    async with scripted() as script, walking(script.url) as walk:
        with pytest.raises(ActionRefused, match="does not wait"):
            walk.accept_redirected("http://127.0.0.1/callback?code=1")
        await walk.run_all()
        shown = await rest(walk)
        with pytest.raises(ActionRefused, match="sign in first"):
            await walk.take_next()
        with pytest.raises(ActionRefused, match="paste the URL"):
            walk.accept_redirected(" ")
        walk.accept_redirected(f"{shown['redirect_uri']}?code=abcdef&state=wrong")
        await until(lambda: walk.state == "failed")
        assert "another state" in named(walk.describe(), "redirect")["came"]
        await walk.restart("redirect")
        shown = await rest(walk)
        state = explained(named(shown, "url"))["state"]
        script.codes["a-good-code"] = {
            "code_challenge": explained(named(shown, "url"))["code_challenge"],
            "redirect_uri": shown["redirect_uri"],
        }
        walk.accept_redirected(f"{shown['redirect_uri']}?code=a-good-code&state={state}")
        await until(lambda: walk.state == "idle")
        await walk.run_all()
        await until(lambda: walk.state == "done")


@in_loop
async def test_scopes_of_the_person_are_asked_for():
    async with scripted(prm={"scopes_supported": ["read"]}) as script, walking(script.url) as walk:
        await walk_to(walk, "url")
        with pytest.raises(ActionRefused, match="not a scope"):
            await walk.choose_scopes(["two words"])
        await walk.choose_scopes(["admin"])
        # The client was registered for other scopes, so it registers again.
        assert walk.describe()["next"] == "registration"
        await walk.run_all()
        shown = await rest(walk)
        assert explained(named(shown, "url"))["scope"] == "admin"
        assert shown["scopes_from"] == "typed on this page"
        await walk.choose_scopes([])
        assert walk.describe()["scopes"] == ["read"]
        assert walk.describe()["state"] == "idle"


@in_loop
async def test_a_server_that_rejects_the_resource_is_asked_without_it():
    async with scripted(rejects_resource=True) as script, walking(script.url) as walk:
        await walk.run_all()
        shown = await rest(walk)
        await asyncio.to_thread(browse, shown["sign_in_url"])
        await until(lambda: walk.state == "failed")
        assert "left out" in named(walk.describe(), "redirect")["change"]
        await walk.restart("redirect")
        shown = await rest(walk)
        assert "resource=" not in shown["sign_in_url"]
        assert named(shown, "url")["state"] == "warning"


@in_loop
async def test_a_server_without_authorization_needs_none():
    async with scripted(is_open=True) as script, walking(script.url) as walk:
        await walk.run_all()
        await until(lambda: walk.state == "done")
        shown = walk.describe()
        assert not shown["applies"]
        assert "without a token" in shown["reason"]
        assert named(shown, "token")["state"] == "skipped"
        await walk.restart("resource")
        assert (await rest(walk))["applies"]


@in_loop
async def test_a_launched_server_has_no_authorization():
    async with walking(command=("nothing",)) as walk:
        assert not walk.describe()["applies"]
        assert "environment" in walk.describe()["reason"]
        with pytest.raises(ActionRefused, match="launched"):
            await walk.take_next()


@in_loop
async def test_a_server_that_does_not_listen_fails_at_the_network():
    async with walking("http://127.0.0.1:1/mcp") as walk:
        await walk.run_all()
        step = named(await rest(walk), "network")
        assert "refused" in step["came"]
        assert "start the server" in step["change"]
        with pytest.raises(ActionRefused, match="first make"):
            await walk.restart("token")


@in_loop
async def test_tokens_are_forgotten_with_those_in_the_store():
    store = MemoryStore()
    async with (
        scripted() as script,
        walking(script.url, auth=OAuth(store=store, client_id="desk")) as walk,
    ):
        step = await walk_to(walk, "registration")
        assert "desk of the command line" in step["came"]
        await store.write(f"server {script.url} desk", f"tokens {script.issuer} x desk")
        assert await walk.forget()
        assert await store.read(f"server {script.url} desk") is None
        assert not await walk.forget()
        assert walk.describe()["next"] == "registration"


@in_loop
async def test_the_session_connects_with_the_token_and_without_it_once_forgotten():
    async with scripted() as script, walking(script.url) as walk:
        with pytest.raises(ActionRefused, match="no token yet"):
            walk.connect()
        await walk_to(walk, "token")
        walk.connect()
        connection = walk.session.part(LiveConnection)
        await until(lambda: connection.state in ("ready", "failed"))
        assert connection.state == "ready", connection.failure
        assert walk.describe()["connected_token"]
        # The refresh of the walk and the connection share one refresh token.
        await walk.take_next()
        await rest(walk)
        assert await connection.auth.token(script.url) == [*script.good][-1]
        assert await walk.forget()
        assert not walk.describe()["connected_token"]
        connection.restart()
        await until(lambda: connection.state == "failed")


@in_loop
async def test_a_token_that_is_due_is_renewed_once_for_all_requests():
    async with scripted(token={"expires_in": 1}) as script, walking(script.url) as walk:
        await walk_to(walk, "token")
        walk.connect()
        auth = walk.session.part(LiveConnection).auth
        walk.session.part(LiveConnection).disconnect()
        script.token = {}
        auth.grant = replace(auth.grant, expires_at=1.0)
        given = await asyncio.gather(*(auth.token(script.url) for _ in range(5)))
        assert len({*given}) == 1
        assert given[0] in script.good
        assert script.reused == 0
        assert not await auth.challenged(None)


@in_loop
async def test_a_client_with_a_secret_needs_no_person():
    auth = OAuth(
        client_id="desk",
        client_secret="the-secret-of-the-desk",
        issuer="http://127.0.0.1:1",
        grant="client_credentials",
        store=MemoryStore(),
    )
    async with scripted() as script:
        auth.issuer = script.issuer
        async with walking(script.url, auth=auth) as walk:
            await walk.run_all()
            await until(lambda: walk.state == "done")
            shown = walk.describe()
            assert named(shown, "redirect")["state"] == "skipped"
            assert named(shown, "refresh")["state"] == "skipped"
            assert named(shown, "call")["state"] == "done"
            assert "the-secret-of-the-desk" not in json.dumps(shown)


@in_loop
async def test_a_token_of_a_jwt_is_decoded_without_a_claim_of_verification():
    async with walking("http://127.0.0.1:1/mcp") as walk:
        shown = walk.decode(f"Bearer {signed_token()}")
        assert json.loads(shown["claims"])["iss"]
        assert json.loads(shown["header"])["alg"]
        assert walk.decode("opaque")["claims"] is None
        with pytest.raises(ActionRefused, match="paste a token"):
            walk.decode(" ")


def test_the_walk_passes_with_the_authorization_server_of_accord():
    issuer = AuthorizationServer(users={"ada": ADA}, scopes={"read": "Read your notes"})
    server = Server("notes", auth=issuer)

    async def main(port):
        async with walking(f"http://127.0.0.1:{port}/mcp") as walk:
            await walk.run_all()
            shown = await rest(walk)
            place = await person_at(shown["sign_in_url"], name="ada", password="lovelace")
            await asyncio.to_thread(browse, place)
            await until(lambda: walk.state in ("done", "failed"))
            shown = walk.describe()
            states = {each["id"]: each["state"] for each in shown["steps"]}
            assert states["call"] == "done", named(shown, "call")
            assert "failed" not in states.values()
            assert re.search(r"access_token.{,9}masked-\d+", json.dumps(shown))

    with serving(server.asgi()) as port:
        run(main(port))


@in_loop
async def test_the_actions_of_the_page_reach_the_walk():
    actions = load_actions()
    about = ServerSpec(name="here", url="http://127.0.0.1:1/mcp")
    session = InspectedSession(0, about, "live", options=InspectOptions(), changes=Changes())
    try:
        await perform(session, actions["authorization.next"], b"{}")
        await rest(session.part(AuthorizationWalk))
        shown = await perform(session, actions["authorization.get"], b"{}")
        assert named(shown, "network")["state"] == "failed"
        with pytest.raises(ActionRefused, match="step"):
            await perform(session, actions["authorization.restart"], b'{"step": "../etc"}')
        with pytest.raises(ActionRefused, match="no token yet"):
            await perform(session, actions["authorization.connect"], b"{}")
    finally:
        await session.close()


def test_every_clause_of_a_step_is_in_the_catalogue():
    assert set(CLAUSES) == set(TITLES) == set(STAGE_IDS)
    named = {each for ids in CLAUSES.values() for each in ids}
    assert named <= set(catalogue())


# -- servers that leave things out, and settings of the command line


def settings(**given):
    return OAuth(store=MemoryStore(), **given)


@in_loop
async def test_a_server_without_metadata_is_reached_at_the_paths_of_before():
    async with (
        scripted(challenge='Basic realm="x"', prm=None, metadata=None) as script,
        walking(script.url) as walk,
    ):
        server = await walk_to(walk, "server")
        shown = walk.describe()
        challenge, resource = named(shown, "challenge"), named(shown, "resource")
        assert {each["state"] for each in (challenge, resource, server)} == {"warning"}
        assert 'Basic realm="x"' in challenge["came"]
        assert resource["came"].startswith("none at ")
        assert server["came"].endswith("/token")
        assert verdicts(server)["auth.as.discovery-either"] == "broken"
        await walk.run_all()
        assert (await rest(walk))["state"] == "waiting"


@in_loop
async def test_metadata_that_was_not_announced_and_cannot_be_read_is_passed_over():
    async with (
        scripted(challenge="Bearer", overrides={PRM: broken_page}) as script,
        walking(script.url) as walk,
    ):
        step = await walk_to(walk, "resource")
        assert (step["state"], verdicts(step)["auth.prm.server"]) == ("warning", "broken")
        await walk.take_next()
        assert named(await rest(walk), "server")["state"] in ("done", "warning")


@in_loop
async def test_the_scopes_are_explained_by_the_places_that_name_them():
    async with scripted(challenge='Bearer scope="read"') as script:
        for given, scope, origin in (
            ({}, "read", "named by the challenge"),
            (
                {"scopes": ["admin"]},
                "admin read",
                "given on the command line, named by the challenge",
            ),
        ):
            async with walking(script.url, auth=settings(**given)) as walk:
                step = await walk_to(walk, "url")
                (said,) = [each for each in step["explains"] if each[0] == "scope"]
                assert said[1] == scope
                assert origin in said[2]
                with pytest.raises(ActionRefused, match="at most 100"):
                    await walk.choose_scopes(["x"] * 101)


@in_loop
async def test_advice_for_metadata_that_clients_can_use_all_the_same_is_a_warning():
    prm = {"scopes_supported": ["read", "offline_access"]}
    metadata = {"code_challenge_methods_supported": None}
    async with scripted(prm=prm, metadata=metadata) as script:
        script.prm["authorization_servers"] = [script.issuer, "http://127.0.0.1:1"]
        async with walking(script.url, auth=settings(pkce="assume")) as walk:
            endpoints = await walk_to(walk, "endpoints")
            shown = walk.describe()
            assert "offline_access" in named(shown, "resource")["change"]
            servers = explained(named(shown, "server"))["authorization_servers"]
            assert servers == f"{script.issuer}, http://127.0.0.1:1"
            assert (endpoints["state"], endpoints["came"]) == (
                "warning",
                f"{script.issuer}/register; metadata without code_challenge_methods_supported",
            )


REJECTED = {"error": "invalid_target"}


@in_loop
async def test_a_token_endpoint_that_rejects_the_resource_is_asked_again_without_it():
    async with scripted(token_errors=[(400, REJECTED)]) as script:
        async with walking(script.url) as walk:
            step = await walk_to(walk, "token")
            assert step["state"] == "warning"
            assert verdicts(step)["auth.resource.both-requests"] == "broken"
            assert ["resource" in each for each in script.forms("/token")] == [True, False]
        script.token_errors = [(400, REJECTED)]
        async with walking(script.url, auth=settings(resource="send")) as walk:
            assert (await walk_to(walk, "token"))["state"] == "failed"
            assert "resource" in script.forms("/token")[-1]


@in_loop
async def test_a_resource_that_the_settings_demand_is_not_left_out():
    async with (
        scripted(rejects_resource=True) as script,
        walking(script.url, auth=settings(resource="send")) as walk,
    ):
        await walk.run_all()
        await asyncio.to_thread(browse, (await rest(walk))["sign_in_url"])
        await until(lambda: walk.state == "failed")
        assert "left out" not in named(walk.describe(), "redirect")["change"]
        await walk.restart("redirect")
        assert "resource=" in (await rest(walk))["sign_in_url"]


@in_loop
async def test_a_redirect_that_does_not_come_in_time_ends_the_step():
    async with scripted() as script, walking(script.url, auth=settings(timeout=0.01)) as walk:
        await walk.run_all()
        await until(lambda: walk.state == "failed")
        shown = walk.describe()
        step = named(shown, "redirect")
        assert step["came"] == "no redirect within 0.01 s"
        assert shown["redirect_uri"] in step["change"]


@in_loop
async def test_a_refresh_token_that_stays_the_same_is_warned_of():
    async with scripted(rotates=False) as script, walking(script.url) as walk:
        step = await walk_to(walk, "refresh")
        assert (step["state"], step["came"]) == (
            "warning",
            "another token, the same refresh token",
        )
        assert verdicts(step)["auth.tokens.refresh-rotated"] == "broken"


@in_loop
async def test_a_server_that_does_not_take_the_token_or_fails_is_named():
    async with scripted() as script, walking(script.url) as walk:
        await walk_to(walk, "refresh")
        for changed, came in (
            ({"scheme": "Other"}, "token refused: "),
            ({"overrides": {"/mcp": lambda _: web.Response(status=500)}}, "500"),
        ):
            right = {name: getattr(script, name) for name in changed}
            for name, value in changed.items():
                setattr(script, name, value)
            await walk.restart("call")
            step = named(await rest(walk), "call")
            assert step["state"] == "failed"
            assert came in step["came"]
            assert step["change"]
            for name, value in right.items():
                setattr(script, name, value)
        await walk.restart("call")
        assert named(await rest(walk), "call")["state"] == "done"


@in_loop
async def test_an_assertion_is_exchanged_for_a_token_and_masked():
    secret = "assertion-of-the-user-1"

    async def assertion(request):
        return secret

    async with scripted() as script:
        auth = settings(
            grant="jwt_bearer", assertion=assertion, issuer=script.issuer, client_id="desk"
        )
        async with walking(script.url, auth=auth) as walk:
            step = await walk_to(walk, "token")
            assert step["state"] in ("done", "warning")
            (form,) = script.forms("/token")
            assert form["assertion"] == secret
            assert form["grant_type"].endswith(":jwt-bearer")
            assert secret not in json.dumps(walk.describe())
