"""Authorization as recordings show it: where tokens travel, challenges, published metadata."""

from typing import Final
from urllib.parse import parse_qsl

import msgspec

from accord.protocol.rules._rule import Outcome
from accord.protocol.rules.http._rule import (
    BOTH,
    LINK,
    PATH,
    QUERY,
    STATUS,
    asks,
    rule,
    says,
)
from accord.protocol.rules.http.exchanges import (
    OK,
    VERSION,
    WELL_KNOWN,
    HttpState,
    Moment,
    as_object,
    bearer_challenge,
    bearer_token,
)

_UNAUTHORIZED: Final = 401
_STATUSES: Final = {"invalid_request": 400, "insufficient_scope": 403}
_OTHER_SCHEMES: Final = frozenset({"basic", "digest", "dpop", "negotiate"})
_RESOURCE: Final = f"{WELL_KNOWN}oauth-protected-resource"
_DISCOVERY: Final = (f"{WELL_KNOWN}oauth-authorization-server", f"{WELL_KNOWN}openid-configuration")
_OFFLINE: Final = "offline_access"


# -- tokens


def _uses_tokens(moment: Moment, state: HttpState) -> bool:
    return bool(state.tokens) or bearer_token(moment.facts) is not None or state.is_challenged


@rule("auth.token.not-in-query", "request", needs=(QUERY,), forms=BOTH)
def token_is_not_in_the_query(moment: Moment, state: HttpState) -> Outcome:
    query = moment.facts.query
    if query is None:
        return None
    known = {*state.tokens, bearer_token(moment.facts)} - {None}
    for name, value in parse_qsl(query):
        if name.lower() == "access_token" or value in known:
            return f"sends {moment.exchange.title} with a token in the query, as {name[:40]}"
    return True if _uses_tokens(moment, state) else None


@rule("auth.token.bearer-header", "request", needs=(asks("Authorization"),), forms=BOTH)
def token_is_in_the_authorization_header(moment: Moment, state: HttpState) -> Outcome:
    facts = moment.facts
    if bearer_token(facts) is not None:
        return True
    for name, text in facts.headers.items():
        if name != "authorization" and text.strip() in state.tokens:
            return f"sends its token in the header {name[:40]}, expected Authorization"
    given = facts.header("authorization")
    if given is None or not state.is_challenged:
        return None
    scheme = given.strip().partition(" ")[0].lower()
    if scheme in _OTHER_SCHEMES:
        return None
    return f"sends {moment.exchange.title} with Authorization, but not as 'Bearer' and a token"


@rule("auth.every-request", "request", needs=(asks("Authorization"),), forms=BOTH)
def every_request_is_authorized(moment: Moment, state: HttpState) -> Outcome:
    exchange, facts = moment.exchange, moment.facts
    if not state.is_trusted or not facts.knows("authorization"):
        return None
    if exchange.form == "http" and not state.is_at_endpoint(exchange):
        return None
    if exchange.form == "sse" and not exchange.posted.frames:
        return None
    is_given = facts.header("authorization") is not None
    return is_given or f"sends {exchange.title} without the token that it has"


# -- challenges


@rule(
    "auth.challenge.www-authenticate",
    "head",
    needs=(STATUS, says("WWW-Authenticate")),
    forms=BOTH,
)
def challenge_names_the_metadata(moment: Moment, state: HttpState) -> Outcome:
    facts = moment.facts
    if facts.status != _UNAUTHORIZED or not facts.knows("www-authenticate"):
        return None
    if facts.header("www-authenticate") is None:
        return "answers with status 401 without WWW-Authenticate"
    is_named = (bearer_challenge(facts) or {}).get("resource_metadata")
    return bool(is_named) or "answers with status 401 and a challenge without resource_metadata"


@rule("auth.token.invalid-401", "head", needs=(STATUS, says("WWW-Authenticate")), forms=BOTH)
def invalid_token_has_status_401(moment: Moment, state: HttpState) -> Outcome:
    facts = moment.facts
    if (bearer_challenge(facts) or {}).get("error") != "invalid_token":
        return None
    is_right = facts.status == _UNAUTHORIZED
    return is_right or f"says invalid_token with status {facts.status}, expected 401"


@rule("auth.status-codes", "head", needs=(STATUS, says("WWW-Authenticate")), forms=BOTH)
def error_of_a_challenge_has_its_status(moment: Moment, state: HttpState) -> Outcome:
    error = (bearer_challenge(moment.facts) or {}).get("error", "")
    expected = _STATUSES.get(error)
    if expected is None:
        return None
    is_right = moment.facts.status == expected
    return is_right or f"says {error} with status {moment.facts.status}, expected {expected}"


@rule(
    "auth.server.401-when-required",
    "head",
    needs=(LINK, STATUS, asks("Authorization"), says("WWW-Authenticate")),
    forms=BOTH,
)
def missing_token_has_status_401(moment: Moment, state: HttpState) -> Outcome:
    facts, request = moment.facts, moment.exchange.request
    challenge = bearer_challenge(facts)
    if challenge is None or challenge.get("error") or request is None:
        return None
    if not request.lacks("authorization"):
        return None
    is_right = facts.status == _UNAUTHORIZED
    return is_right or f"asks for a token with status {facts.status}, expected 401"


@rule("auth.scope.insufficient-403", "head", needs=(STATUS, says("WWW-Authenticate")), forms=BOTH)
def challenge_for_scopes_is_complete(moment: Moment, state: HttpState) -> Outcome:
    challenge = bearer_challenge(moment.facts) or {}
    if challenge.get("error") != "insufficient_scope":
        return None
    lacking = [name for name in ("scope", "resource_metadata") if not challenge.get(name)]
    return not lacking or f"says insufficient_scope without {' and '.join(lacking)}"


@rule(
    "auth.refresh.server-no-offline-access",
    "head",
    needs=(STATUS, says("WWW-Authenticate")),
    forms=BOTH,
)
def offline_access_is_not_asked_for(moment: Moment, state: HttpState) -> Outcome:
    scopes = (bearer_challenge(moment.facts) or {}).get("scope", "").split()
    if not scopes:
        document = _metadata(moment)
        listed = as_object(document).get("scopes_supported")
        scopes = listed if isinstance(listed, list) else []
    return _OFFLINE not in scopes or "asks for offline_access" if scopes else None


# -- metadata


def _metadata(moment: Moment) -> object:
    """Return the metadata of the resource, if this is the response with it; else None."""
    path = moment.exchange.path
    if path is None or not path.startswith(_RESOURCE) or moment.facts.data is None:
        return None
    try:
        return msgspec.json.decode(moment.facts.data)
    except (ValueError, RecursionError):
        return None


@rule("auth.prm.lists-as", "head", needs=(LINK, STATUS, PATH), forms=BOTH)
def metadata_names_an_authorization_server(moment: Moment, state: HttpState) -> Outcome:
    document = _metadata(moment)
    if moment.facts.status not in OK or not isinstance(document, dict):
        return None
    listed = document.get("authorization_servers")
    has_one = isinstance(listed, list) and any(isinstance(each, str) and each for each in listed)
    return has_one or "publishes resource metadata without authorization_servers"


@rule("auth.prm.server", "head", needs=(LINK, STATUS, PATH), forms=BOTH)
def metadata_is_where_the_challenge_says(moment: Moment, state: HttpState) -> Outcome:
    exchange, facts = moment.exchange, moment.facts
    if exchange.method != "GET" or exchange.path not in state.metadata_paths:
        return None
    if facts.status in (404, 410):
        return f"names {exchange.path} as its metadata and answers with status {facts.status}"
    if facts.status not in OK or facts.data is None:
        return None
    is_object = isinstance(_decode(facts.data), dict)
    return is_object or f"names {exchange.path} as its metadata, where there is no JSON object"


def _decode(data: str) -> object:
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return None


@rule(
    "auth.discovery.protocol-version-header",
    "request",
    needs=(PATH, asks("MCP-Protocol-Version")),
    forms=BOTH,
)
def discovery_names_the_version(moment: Moment, state: HttpState) -> Outcome:
    path = moment.exchange.path or ""
    if moment.exchange.method != "GET" or not path.startswith(_DISCOVERY):
        return None
    if not moment.facts.knows(VERSION):
        return None
    return not moment.facts.lacks(VERSION) or f"asks for {path} without MCP-Protocol-Version"
