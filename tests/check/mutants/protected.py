"""Servers with faulty authorization: area auth."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

from msgspec.structs import replace

from accord import Principal
from accord.auth import Protected, StaticTokens
from accord.protocol.catalogue import catalogue
from accord_tools.check.probing.authorization import Granted
from accord_tools.check.probing.target import ServerTarget
from check.faults import faults, hook_at, hook_maker
from check.mutants.between_http import Asked, Head, Headers, Hook, Web, serving
from check.mutants.everything import server as everything
from check.mutants.foundation import Making, elsewhere, unbreakable
from support.check_targets import check_target

OWN, OTHER, FOREIGN = "token-of-ada", "token-of-grace", "token-for-somewhere-else"
JSON = {"content-type": "application/json"}
RESOURCE = "/.well-known/oauth-protected-resource"
SERVER = "/.well-known/oauth-authorization-server"
PROBED = tuple(id for id, row in catalogue().items() if row.check == "auth-probe")
SAME = {
    "auth.token.audience-validated": "the same seen from the other side",
    "auth.token.foreign-rejected": "the same seen from the other side",
}


def metadata(origin: str) -> dict[str, Any]:
    return {
        "issuer": origin,
        "authorization_endpoint": f"{origin}/authorize",
        "token_endpoint": f"{origin}/token",
        "registration_endpoint": f"{origin}/register",
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": True,
    }


def protected(
    hook: Hook, *, has_token: bool = True, granted: Any = None, server: Any = everything
) -> Making:
    """Return what makes a protected server, with a hook into all that passes."""

    @asynccontextmanager
    async def making() -> AsyncIterator[ServerTarget]:
        web = Web(None)
        published: dict[str, Any] = {}

        def publishing(asked: Asked) -> tuple[int, Headers, bytes] | None:
            if asked.path == SERVER and asked.verb == "GET":
                return 200, JSON, json.dumps(published).encode()
            return (400, {}, b"") if asked.path == "/authorize" else None

        web.before = publishing
        web.shared["published"] = published
        async with serving(web) as port:
            origin = f"http://127.0.0.1:{port}"
            published |= metadata(origin)
            tokens = StaticTokens({OWN: Principal("ada"), OTHER: Principal("grace")})
            web.app = Protected(tokens, issuer=origin).guard(server.asgi())
            hook(web)
            headers = {"authorization": f"Bearer {OWN}"} if has_token else {}
            yield check_target(
                name="mutant",
                url=f"{origin}/mcp",
                headers=headers,
                other_token=OTHER,
                foreign_token=FOREIGN,
                granted=granted,
                patience=10.0,
                settling=0.15,
                at_once=32,
            )

    return making


def guard_mutant(
    id: str,
    *,
    of: str = "",
    revision: str = "2025-06-18",
    also: dict[str, str] | None = None,
    is_thorough: bool = False,
    **settings: Any,
) -> Callable[[Any], Any]:
    """Register a protected server with a hook into all that passes."""

    def register(fault: Any) -> Any:
        changed = hook_at(of, fault)
        making = protected(changed, **settings)
        making.__name__ = fault.__name__
        register_making = elsewhere(
            id, revision=revision, also=also, only=PROBED, is_thorough=is_thorough
        )
        register_making(making)
        return fault

    return register


@hook_maker
def admitting(web: Web, is_admitted: Callable[[Asked], bool]) -> None:
    """Let requests in with the token of another."""
    usual = web.before

    def before(asked: Asked) -> tuple[int, Headers, bytes] | None:
        if is_admitted(asked):
            asked.headers["authorization"] = f"Bearer {OWN}"
        return usual(asked)

    web.before = before


def token_of(asked: Asked) -> str:
    return asked.headers.get("authorization", "").removeprefix("Bearer").strip()


def refusing(web: Web, is_meant: Callable[[Asked], bool], status: int) -> None:
    """Refuse some with another status."""

    def head(asked: Asked, given: int, headers: Headers) -> Head:
        return (status if given == 401 and is_meant(asked) else given), headers

    web.head = head


# -- strangers


@guard_mutant("auth.server.401-when-required")
def forbids_strangers(web: Web) -> None:
    refusing(web, lambda asked: "authorization" not in asked.headers, 403)


@guard_mutant("auth.challenge.www-authenticate", of="head")
def gives_no_challenge(asked: Asked, status: int, headers: Headers) -> Head:
    headers.pop("www-authenticate", None)
    return status, headers


@guard_mutant("auth.challenge.www-authenticate", has_token=False, of="head")
def does_not_say_where_its_metadata_is(asked: Asked, status: int, headers: Headers) -> Head:
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return status, headers


@guard_mutant("auth.http.oauth-flow")
def asks_for_a_password(web: Web) -> None:
    def head(asked: Asked, status: int, headers: Headers) -> Head:
        if status == 401:
            headers["www-authenticate"] = 'Basic realm="desk"'
        return status, headers

    usual = web.before
    web.before = lambda asked: (
        (404, {}, b"") if asked.path.startswith("/.well-known") else usual(asked)
    )
    web.head = head


@hook_maker
def without(web: Web, path: str) -> None:
    usual = web.before
    web.before = lambda asked: (404, {}, b"") if asked.path.startswith(path) else usual(asked)


faults(guard_mutant("auth.prm.server"), publishes_no_metadata=without(RESOURCE))


@guard_mutant("auth.prm.server")
def is_another_resource(web: Web) -> None:
    usual = web.before
    issuer = web.shared["published"]["issuer"]
    document = {"resource": "https://elsewhere.example/mcp", "authorization_servers": [issuer]}
    web.before = lambda asked: (
        (200, JSON, json.dumps(document).encode())
        if asked.path.startswith(RESOURCE)
        else usual(asked)
    )


@guard_mutant(
    "auth.prm.one-mechanism", revision="2025-11-25", also={"auth.prm.server": "no document at all"}
)
def hides_its_metadata(web: Web) -> None:
    without(RESOURCE)(web)


@guard_mutant("auth.prm.lists-as", of="body")
def names_no_authorization_server(asked: Asked, body: bytes) -> bytes:
    if asked.path.startswith(RESOURCE) and body:
        return json.dumps(json.loads(body) | {"authorization_servers": []}).encode()
    return body


# -- the authorization server


@guard_mutant("auth.as.rfc8414-required")
def its_authorization_server_publishes_nothing(web: Web) -> None:
    without(SERVER)(web)


@guard_mutant("auth.as.discovery-either", revision="2025-11-25")
def its_authorization_server_cannot_be_found(web: Web) -> None:
    without(SERVER)(web)


@guard_mutant("auth.as-metadata.server", revision="2025-03-26")
def is_an_authorization_server_without_metadata(web: Web) -> None:
    without(SERVER)(web)


@guard_mutant("auth.oauth21.authorization-server")
def its_authorization_server_knows_no_pkce(web: Web) -> None:
    del web.shared["published"]["code_challenge_methods_supported"]


@guard_mutant("auth.oauth21.implementations", revision="2025-03-26")
def knows_plain_pkce_alone(web: Web) -> None:
    web.shared["published"]["code_challenge_methods_supported"] = ["plain"]


@guard_mutant("auth.cimd.supported", revision="2025-11-25")
def its_authorization_server_fetches_nothing(web: Web) -> None:
    del web.shared["published"]["client_id_metadata_document_supported"]


@guard_mutant("auth.pkce.as-oidc-advertises", revision="2025-11-25")
def its_provider_does_not_advertise_pkce(web: Web) -> None:
    usual = web.before
    web.before = lambda asked: (
        (200, JSON, b'{"issuer": "https://id.example"}')
        if asked.path == "/.well-known/openid-configuration"
        else usual(asked)
    )


@guard_mutant("auth.dcr.authorization-server")
def its_authorization_server_registers_nobody(web: Web) -> None:
    del web.shared["published"]["registration_endpoint"]


@guard_mutant("auth.dcr.implementations", revision="2025-03-26")
def registers_nobody(web: Web) -> None:
    del web.shared["published"]["registration_endpoint"]


@guard_mutant("auth.https.endpoints")
def its_authorization_server_needs_no_tls(web: Web) -> None:
    web.shared["published"]["token_endpoint"] = "http://id.example/token"


# -- tokens


@guard_mutant("auth.token.validated")
def takes_any_token(web: Web) -> None:
    admitting(lambda asked: token_of(asked).startswith("accord-check"))(web)


@guard_mutant("auth.token.invalid-401")
def forbids_bad_tokens(web: Web) -> None:
    refusing(web, lambda asked: token_of(asked) != "" and asked.method == "initialize", 403)


@guard_mutant("auth.tokens.validated-first")
def looks_at_the_method_first(web: Web) -> None:
    error = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"unknown"}}'
    usual = web.before
    web.before = lambda asked: (
        (200, JSON, error) if asked.method == "accord-check/no-such-method" else usual(asked)
    )


@guard_mutant("auth.status-codes")
def falls_over_a_malformed_header(web: Web) -> None:
    usual = web.before
    web.before = lambda asked: (
        (500, {}, b"") if asked.headers.get("authorization") == "Bearer" else usual(asked)
    )


@guard_mutant("auth.role.resource-server")
def takes_tokens_from_the_query(web: Web) -> None:
    usual = web.before

    def before(asked: Asked) -> tuple[int, Headers, bytes] | None:
        if "access_token=" in asked.query:
            return 200, JSON, b'{"jsonrpc":"2.0","id":1,"result":{}}'
        return usual(asked)

    web.before = before


@guard_mutant("auth.token.audience-validated", also=SAME)
def takes_tokens_for_others(web: Web) -> None:
    admitting(lambda asked: token_of(asked) == FOREIGN)(web)


@guard_mutant("auth.token.foreign-rejected", also=SAME)
def does_not_look_at_the_audience(web: Web) -> None:
    takes_tokens_for_others(web)


@guard_mutant("auth.server.own-tokens-only", revision="2025-11-25", also=SAME)
def takes_what_was_issued_for_others(web: Web) -> None:
    takes_tokens_for_others(web)


faults(
    guard_mutant("session.requests.verified"),
    trusts_session_ids=admitting(
        lambda asked: "mcp-session-id" in asked.headers and "authorization" not in asked.headers
    ),
)


@guard_mutant("session.id.bound-to-user")
def shares_sessions(web: Web) -> None:
    admitting(lambda asked: token_of(asked) == OTHER)(web)


@guard_mutant("tools.server.access-controlled")
def shows_its_tools_to_everybody(web: Web) -> None:
    usual = web.before

    def before(asked: Asked) -> tuple[int, Headers, bytes] | None:
        if asked.method == "tools/list" and "authorization" not in asked.headers:
            answer = {"jsonrpc": "2.0", "id": asked.message["id"], "result": {"tools": []}}
            return 200, JSON, json.dumps(answer).encode()
        return usual(asked)

    web.before = before


# -- what was granted

GRANTED = Granted(token=OWN, client_id="check", lifetime=600.0, is_rotated=True)


@guard_mutant("auth.token.short-lived", granted=replace(GRANTED, lifetime=1e8))
def its_tokens_live_for_years(web: Web) -> None:
    pass


@guard_mutant("auth.tokens.refresh-rotated", granted=replace(GRANTED, is_rotated=False))
def its_refresh_tokens_never_change(web: Web) -> None:
    pass


@guard_mutant("auth.redirect.exact-match", granted=GRANTED)
def its_authorization_server_redirects_anywhere(web: Web) -> None:
    usual = web.before

    def before(asked: Asked) -> tuple[int, Headers, bytes] | None:
        if asked.path == "/authorize":
            return 302, {"location": parse_qs(asked.query)["redirect_uri"][0]}, b""
        return usual(asked)

    web.before = before


unbreakable("it takes the consent of a person", "auth.resource.case-tolerant")
