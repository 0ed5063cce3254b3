"""Further ways to get authorization wrong: each requirement of area auth is broken in three."""

import json
from typing import Any
from urllib.parse import parse_qs, urlencode

from msgspec.structs import replace

from check.faults import faults, hook_maker
from check.mutants.between_http import Asked, Head, Headers, Web
from check.mutants.foundation import few, unbreakable
from check.mutants.protected import (
    FOREIGN,
    GRANTED,
    JSON,
    OTHER,
    RESOURCE,
    SAME,
    SERVER,
    admitting,
    guard_mutant,
    refusing,
    token_of,
    without,
)

NEW, NEWEST = "2025-11-25", "2026-07-28"
OPENID = "/.well-known/openid-configuration"
BACK = "http://127.0.0.1:3000/callback"


def is_bare(asked: Asked) -> bool:
    return "authorization" not in asked.headers


def is_invalid(asked: Asked) -> bool:
    return token_of(asked).startswith("accord-check")


def answering(web: Web, path: str, status: int, headers: Headers, body: bytes) -> None:
    """Answer requests for a path and those below it."""
    usual = web.before
    web.before = lambda asked: (
        (status, headers, body) if asked.path.startswith(path) else usual(asked)
    )


@hook_maker
def editing(web: Web, **members: Any) -> None:
    """Change members of the resource metadata; None leaves one out."""

    def body(asked: Asked, body: bytes) -> bytes:
        if not asked.path.startswith(RESOURCE) or not body:
            return body
        made = json.loads(body) | members
        return json.dumps({name: text for name, text in made.items() if text is not None}).encode()

    web.body = body


def challenging(web: Web, value: str | None) -> None:
    """Answer 401 with another challenge, or none."""

    def head(asked: Asked, status: int, headers: Headers) -> Head:
        if status == 401:
            headers.pop("www-authenticate", None)
            if value is not None:
                headers["www-authenticate"] = value
        return status, headers

    web.head = head


# -- strangers


@guard_mutant("auth.server.401-when-required", is_thorough=True)
def hides_from_strangers(web: Web) -> None:
    refusing(web, is_bare, 404)


@guard_mutant("auth.server.401-when-required", revision=NEWEST)
def sends_strangers_to_a_page(web: Web) -> None:
    refusing(web, is_bare, 302)


@guard_mutant("auth.challenge.www-authenticate", is_thorough=True)
def misspells_its_metadata(web: Web) -> None:
    challenging(web, 'Bearer resource_metadata_uri="/.well-known/oauth-protected-resource"')


def asking_for(scheme: str) -> Any:
    def hook(web: Web) -> None:
        challenging(web, scheme)
        without("/.well-known")(web)

    hook.__name__ = f"asks_for_{scheme.partition(' ')[0].lower()}"
    return hook


guard_mutant("auth.http.oauth-flow", is_thorough=True)(asking_for("Digest realm=desk, nonce=1"))
guard_mutant("auth.http.oauth-flow", revision=NEWEST)(asking_for("ApiKey"))


@guard_mutant("auth.prm.server", revision=NEWEST)
def names_the_resource_in_a_list(web: Web) -> None:
    editing(resource=["http://127.0.0.1/mcp"])(web)


faults(guard_mutant("auth.prm.server", is_thorough=True), names_no_resource=editing(resource=None))


WHOLE = {"auth.prm.server": "there is no document that a client can read"}


@guard_mutant("auth.prm.one-mechanism", revision=NEWEST, also=WHOLE, is_thorough=True)
def publishes_a_page(web: Web) -> None:
    answering(web, RESOURCE, 200, {"content-type": "text/html"}, b"<h1>Metadata</h1>")


@guard_mutant("auth.prm.one-mechanism", revision=NEW, also=WHOLE)
def protects_its_metadata(web: Web) -> None:
    answering(web, RESOURCE, 401, {"www-authenticate": "Bearer"}, b"")


@guard_mutant("auth.prm.lists-as", revision=NEWEST)
def leaves_out_its_authorization_servers(web: Web) -> None:
    editing(authorization_servers=None)(web)


@guard_mutant("auth.prm.lists-as", is_thorough=True)
def names_its_authorization_server_as_text(web: Web) -> None:
    editing(authorization_servers=web.shared["published"]["issuer"])(web)


# -- scopes


HAS_SCOPE = "auth.scope.challenge-has-scope"


def scoping(name: str, added: str) -> Any:
    """Return a server with scopes, and something else in place of them in its challenge."""

    def hook(web: Web) -> None:
        editing(scopes_supported=["tools"])(web)

        def head(asked: Asked, status: int, headers: Headers) -> Head:
            if status == 401:
                headers["www-authenticate"] += added
            return status, headers

        web.head = head

    hook.__name__ = name
    return hook


guard_mutant(HAS_SCOPE, revision=NEWEST)(scoping("challenges_without_scope", ""))
guard_mutant(HAS_SCOPE, revision=NEW, is_thorough=True)(scoping("asks_nothing", ', scope=""'))
guard_mutant(HAS_SCOPE, revision=NEW, is_thorough=True)(scoping("misspells_scope", ', scopes="a"'))

SHORT, NEEDED = "auth.scope.insufficient-403", "auth.scope.insufficient-names-needed"
WANTED = {
    "error": "insufficient_scope",
    "scope": "tools:call",
    "resource_metadata": "http://127.0.0.1/.well-known/oauth-protected-resource",
}


def wanting(name: str, status: int = 403, methods: str = "", **changes: str | None) -> Any:
    """Return a server on which one user has too few scopes."""

    def hook(web: Web) -> None:
        usual = web.before
        said = {key: text for key, text in (WANTED | changes).items() if text is not None}
        challenge = "Bearer " + ", ".join(f'{key}="{text}"' for key, text in said.items())

        def before(asked: Asked) -> tuple[int, Headers, bytes] | None:
            is_short = token_of(asked) == OTHER and "/" in asked.method
            if is_short and asked.method.startswith(methods or ("tools/", "resources/")):
                return status, {"www-authenticate": challenge}, b""
            return usual(asked)

        web.before = before

    hook.__name__ = name
    return hook


guard_mutant(SHORT, revision=NEWEST)(wanting("calls_few_scopes_unauthorized", 401))
guard_mutant(SHORT, revision=NEW, is_thorough=True)(
    wanting("hides_its_metadata_from_few_scopes", resource_metadata=None)
)
guard_mutant(SHORT, revision=NEW, is_thorough=True)(
    wanting("calls_few_scopes_a_bad_request", 400, "resources/read")
)
guard_mutant(NEEDED, revision=NEWEST)(wanting("names_no_scope", scope=None))
guard_mutant(NEEDED, revision=NEW, is_thorough=True)(wanting("names_an_empty_scope", scope=""))
guard_mutant(NEEDED, revision=NEW, is_thorough=True)(
    wanting("names_no_scope_for_lists", methods="resources/list", scope=None)
)

OFFLINE = "auth.refresh.server-no-offline-access"


@guard_mutant(OFFLINE, revision=NEWEST, of="head")
def challenges_for_offline_access(asked: Asked, status: int, headers: Headers) -> Head:
    if status == 401:
        headers["www-authenticate"] += ', scope="tools offline_access"'
    return status, headers


@guard_mutant(OFFLINE, revision=NEWEST)
def lists_offline_access(web: Web) -> None:
    scoping("", ', scope="tools"')(web)
    editing(scopes_supported=["tools", "offline_access"])(web)


@guard_mutant(OFFLINE, revision=NEWEST, is_thorough=True)
def knows_no_other_scope(web: Web) -> None:
    editing(scopes_supported=["offline_access"])(web)


# -- the authorization server


def unpublished(web: Web) -> None:
    answering(web, SERVER, 200, {"content-type": "text/html"}, b"<h1>Sign in</h1>")


def protecting(web: Web) -> None:
    answering(web, SERVER, 401, {}, b"")


for id, revision in (
    ("auth.as.rfc8414-required", "2025-06-18"),
    ("auth.as.discovery-either", NEWEST),
    ("auth.as-metadata.server", "2025-03-26"),
):
    guard_mutant(id, revision=revision, is_thorough=True)(unpublished)
    guard_mutant(id, revision=revision, is_thorough=True)(protecting)


def publishes(name: str, **members: Any) -> Any:
    """Return a server whose authorization server has other metadata."""

    def hook(web: Web) -> None:
        published = web.shared["published"]
        for member, value in members.items():
            published.pop(member)
            if value is not None:
                published[member] = value

    hook.__name__ = name
    return hook


METHODS = "code_challenge_methods_supported"
for id, revision in (
    ("auth.oauth21.authorization-server", NEWEST),
    ("auth.oauth21.implementations", "2025-03-26"),
):
    for name, value in (("knows_no_method", []), ("knows_s256_as_text", "S256")):
        guard_mutant(id, revision=revision, is_thorough=True)(publishes(name, **{METHODS: value}))
CIMD = "client_id_metadata_document_supported"
for name, flag in (("fetches_nothing", False), ("says_true_as_text", "true")):
    guard_mutant("auth.cimd.supported", revision=NEWEST, is_thorough=True)(
        publishes(name, **{CIMD: flag})
    )
ENDPOINT = "registration_endpoint"
for id, revision in (
    ("auth.dcr.authorization-server", "2025-06-18"),
    ("auth.dcr.implementations", "2025-03-26"),
):
    for name, value in (("registers_at_null", [None]), ("registers_by_a_flag", True)):
        guard_mutant(id, revision=revision, is_thorough=True)(publishes(name, **{ENDPOINT: value}))
for member in ("authorization_endpoint", "registration_endpoint"):
    guard_mutant("auth.https.endpoints", revision=NEWEST, is_thorough=True)(
        publishes(f"needs_no_tls_for_its_{member}", **{member: "http://id.example/there"})
    )


def configures(name: str, **members: Any) -> Any:
    """Return a server whose authorization server is an OpenID provider."""

    def hook(web: Web) -> None:
        document = {"issuer": "https://id.example", **members}
        answering(web, OPENID, 200, JSON, json.dumps(document).encode())

    hook.__name__ = name
    return hook


for name, value in (("advertises_null", None), ("advertises_nothing", [])):
    guard_mutant("auth.pkce.as-oidc-advertises", revision=NEWEST, is_thorough=True)(
        configures(name, **{METHODS: value})
    )


# -- tokens


@guard_mutant("auth.token.validated", revision=NEWEST)
def takes_every_token_to_begin(web: Web) -> None:
    opening = ("initialize", "server/discover")
    admitting(lambda asked: is_invalid(asked) and asked.method in opening)(web)


@guard_mutant("auth.token.validated", is_thorough=True)
def takes_tokens_that_are_long(web: Web) -> None:
    admitting(lambda asked: len(token_of(asked)) > 20 and token_of(asked) != FOREIGN)(web)


@guard_mutant("auth.token.invalid-401", revision=NEWEST)
def calls_bad_tokens_bad_requests(web: Web) -> None:
    refusing(web, lambda asked: is_invalid(asked) and asked.method == "server/discover", 400)


@guard_mutant("auth.token.invalid-401", is_thorough=True)
def falls_over_bad_tokens(web: Web) -> None:
    refusing(web, lambda asked: is_invalid(asked) and asked.method == "initialize", 500)


def validates_later(name: str, status: int, error: Any) -> Any:
    """Return a server that looks at an unknown method before it looks at the token."""

    def hook(web: Web) -> None:
        usual = web.before
        said = {"jsonrpc": "2.0", "id": 1, "error": error}
        body = json.dumps(said).encode()
        web.before = lambda asked: (
            (status, JSON, body)
            if asked.method == "accord-check/no-such-method" and is_invalid(asked)
            else usual(asked)
        )

    hook.__name__ = name
    return hook


UNKNOWN = {"code": -32601, "message": "unknown"}
guard_mutant("auth.tokens.validated-first", revision=NEWEST)(
    validates_later("does_not_find_methods_first", 404, UNKNOWN)
)
guard_mutant("auth.tokens.validated-first", is_thorough=True)(
    validates_later("checks_parameters_first", 400, {"code": -32602, "message": "bad"})
)


def meets_malformed(name: str, status: int) -> Any:
    def hook(web: Web) -> None:
        usual = web.before
        web.before = lambda asked: (
            (status, {}, b"") if asked.headers.get("authorization") == "Bearer" else usual(asked)
        )

    hook.__name__ = name
    return hook


guard_mutant("auth.status-codes", revision=NEWEST)(
    meets_malformed("forbids_malformed_headers", 403)
)
guard_mutant("auth.status-codes", is_thorough=True)(
    meets_malformed("misses_malformed_headers", 404)
)


@guard_mutant("auth.role.resource-server", revision=NEWEST)
def says_that_the_token_in_the_query_is_invalid(web: Web) -> None:
    usual = web.before
    headers = {"www-authenticate": 'Bearer error="invalid_token"'}
    web.before = lambda asked: (
        (401, headers, b"") if "access_token=" in asked.query else usual(asked)
    )


def takes_foreign(name: str, **how: Any) -> Any:
    def hook(web: Web) -> None:
        methods = how.get("methods")
        admitting(
            lambda asked: token_of(asked) == FOREIGN and (not methods or asked.method in methods)
        )(web)

    hook.__name__ = name
    return hook


for id, revision in (
    ("auth.token.audience-validated", NEWEST),
    ("auth.token.foreign-rejected", NEWEST),
    ("auth.server.own-tokens-only", NEWEST),
):
    also = {each: why for each, why in SAME.items() if each != id}
    more = {"auth.server.own-tokens-only": "the same seen from the other side"}
    also |= {} if id in more else more
    guard_mutant(id, revision=revision, also=also, is_thorough=True)(
        takes_foreign("takes_them_without_a_handshake")
    )
    guard_mutant(id, revision=revision, also=also, is_thorough=True)(
        takes_foreign("takes_them_to_begin", methods=["server/discover"])
    )


faults(
    guard_mutant("session.requests.verified", is_thorough=True),
    trusts_session_ids_with_pings=admitting(
        lambda asked: (
            "mcp-session-id" in asked.headers and is_bare(asked) and asked.method == "ping"
        )
    ),
)


@guard_mutant("session.requests.verified", revision=NEW, is_thorough=True)
def trusts_session_ids_of_others(web: Web) -> None:
    known: set[str] = set()

    def is_admitted(asked: Asked) -> bool:
        session = asked.headers.get("mcp-session-id", "")
        if not is_bare(asked):
            known.add(session)
        return is_bare(asked) and bool(session) and session in known

    admitting(is_admitted)(web)


@guard_mutant("session.id.bound-to-user", revision=NEW, is_thorough=True)
def shares_sessions_for_pings(web: Web) -> None:
    admitting(lambda asked: token_of(asked) == OTHER and asked.method == "ping")(web)


@guard_mutant("session.id.bound-to-user", is_thorough=True)
def looks_at_the_user_of_a_session_once(web: Web) -> None:
    def is_admitted(asked: Asked) -> bool:
        return token_of(asked) == OTHER and "mcp-session-id" in asked.headers

    admitting(is_admitted)(web)


def shows(name: str, is_right: Any) -> Any:
    """Return a server that lists its tools without a token."""

    def hook(web: Web) -> None:
        usual = web.before

        def before(asked: Asked) -> tuple[int, Headers, bytes] | None:
            if asked.method == "tools/list" and is_bare(asked):
                answer = {"jsonrpc": "2.0", "id": asked.message["id"], "result": is_right}
                return 200, JSON, json.dumps(answer).encode()
            return usual(asked)

        web.before = before

    hook.__name__ = name
    return hook


ACCESS = "tools.server.access-controlled"
TOOL = {"name": "get_lost", "inputSchema": {"type": "object"}}
guard_mutant(ACCESS, revision=NEWEST)(
    shows("shows_a_tool_without_a_handshake", {"resultType": "complete", "tools": [TOOL]})
)
guard_mutant(ACCESS, revision=NEW, is_thorough=True)(shows("shows_a_tool", {"tools": [TOOL]}))


# -- what was granted

for name, lifetime in (("its_tokens_live_for_a_week", 7 * 86400.0), ("they_live_a_day", 86401.0)):
    guard_mutant("auth.token.short-lived", granted=replace(GRANTED, lifetime=lifetime))(
        publishes(name)
    )


def redirects(name: str, location: Any) -> Any:
    """Return a server whose authorization server redirects without asking the user."""

    def hook(web: Web) -> None:
        usual = web.before

        def before(asked: Asked) -> tuple[int, Headers, bytes] | None:
            if asked.path != "/authorize":
                return usual(asked)
            fields = {key: values[0] for key, values in parse_qs(asked.query).items()}
            found = location(fields)
            return (302, {"location": found}, b"") if found else (400, {}, b"")

        web.before = before

    hook.__name__ = name
    return hook


EXACT = "auth.redirect.exact-match"
guard_mutant(EXACT, granted=GRANTED, is_thorough=True)(
    redirects("returns_a_code_anywhere", lambda fields: f"{fields['redirect_uri']}?code=1")
)
guard_mutant(EXACT, granted=GRANTED, is_thorough=True)(
    redirects("returns_errors_anywhere", lambda fields: f"{fields['redirect_uri']}?error=denied")
)

SENDS, ADVERTISES = "auth.iss.as-sends", "auth.iss.as-advertises"
KNOWN = replace(GRANTED, redirect_uri=BACK)


def returns(iss: str | None) -> Any:
    """Return what returns errors to the redirect URI that was registered."""

    def location(fields: dict[str, str]) -> str | None:
        said = {"error": "unsupported_response_type", "state": fields["state"]}
        if iss is not None:
            said["iss"] = iss
        is_known = fields["redirect_uri"] == BACK
        return f"{BACK}?{urlencode(said)}" if is_known else None

    return location


guard_mutant(SENDS, revision=NEWEST, granted=KNOWN)(redirects("sends_no_iss", returns(None)))
guard_mutant(SENDS, revision=NEWEST, granted=KNOWN, is_thorough=True)(
    redirects("sends_an_empty_iss", returns(""))
)
guard_mutant(ADVERTISES, revision=NEWEST, granted=KNOWN)(
    redirects("sends_iss_unannounced", returns("https://id.example"))
)


@guard_mutant(ADVERTISES, revision=NEWEST, granted=KNOWN, is_thorough=True)
def announces_iss_as_text(web: Web) -> None:
    web.shared["published"]["authorization_response_iss_parameter_supported"] = "true"
    redirects("", returns("https://id.example"))(web)


@guard_mutant(ADVERTISES, revision=NEWEST, granted=KNOWN, is_thorough=True)
def announces_no_iss_and_sends_it(web: Web) -> None:
    web.shared["published"]["authorization_response_iss_parameter_supported"] = False
    redirects("", returns("https://id.example"))(web)


few("a refresh token changes or it does not", "auth.tokens.refresh-rotated")
few("it reads the query or it does not", "auth.role.resource-server")
few("an iss is there or it is not", SENDS)

unbreakable(
    "it takes a token that lacks some of several scopes",
    "auth.scope.all-in-one-challenge",
    "auth.scope.hierarchy",
)
unbreakable(
    "it takes a client document of the check at a public address",
    "auth.cimd.as-fetches",
    "auth.cimd.as-checks-id",
    "auth.cimd.as-checks-redirect",
    "auth.cimd.as-checks-structure",
)
unbreakable("clients do not look for metadata at other suffixes", "auth.asm.no-own-suffix")
