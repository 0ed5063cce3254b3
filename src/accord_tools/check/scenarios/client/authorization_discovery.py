"""Discovery: where a client looks for metadata, and what it requires of it; whose issuer it is.

The `iss` of authorization responses (RFC 9207) tells the issuer.
"""

from collections.abc import Sequence
from typing import Final

from accord.protocol.verdict import Evidence
from accord.types import JsonObject, RevisionId
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.protected import (
    NOT_AT_ALL,
    OAUTH,
    OPENID,
    PREREGISTERED,
    RESOURCE,
    FakeAuthorizationServer,
    IssuedGrant,
    ProtectedFakeServer,
    own_scopes,
    parse_fields,
)
from accord_tools.check.fake_server.server import client_scenario
from accord_tools.check.fake_server.transports import CannedResponse, ReceivedRequest
from accord_tools.check.scenarios.client.authorization import (
    BOTH_FORMS,
    SUFFIXES,
    client_of,
    first_requests,
    is_url,
    judge_forms,
    judge_registration,
    judge_supported_scope,
)

_WELL_KNOWN: Final = "/.well-known/"
_SEVERAL: Final = "auth.asm.client-tries-several"
_SUFFIX: Final = "auth.asm.no-own-suffix"
_MECHANISMS: Final = "auth.prm.client-both-mechanisms"
_SCOPES: Final = "auth.scope.selection-order"
_IDENTICAL: Final = "auth.asm.issuer-identical"
_PKCE: Final = ("auth.pkce.refuse-without-methods", "auth.pkce.verify-support")


def _judge_metadata_order(run: ClientRun, server: FakeAuthorizationServer, id: str) -> None:
    """Judge the order of the requests for metadata that is at the last place of all."""
    places = server.well_known
    found = first_requests(run, places)
    _judge_suffix(run, server, found)
    if not found:
        # A client that ignores the path of the issuer asks elsewhere.
        asked = [each for each in run.requests if any(name in each.path for name in SUFFIXES)]
        for each in asked[:1]:
            why = f"looks for the metadata of {server.path} at {each.path}, not at {places[0]}"
            run.holds(id, condition=False, why=why, request=each)
        return
    tried = [each.path for each in found]
    shown = f"looks for the metadata of the authorization server at {', '.join(tried)}"
    has_found = any(path in server.places for path in tried)
    has_given_up = not has_found and run.exit_code is not None
    if len(tried) > 1 or has_given_up:
        run.holds(_SEVERAL, len(tried) > 1, f"{shown} alone", request=found[0])
    judge_forms(run, server)
    if has_found or len(tried) > 1:
        why = f"{shown}, in place of {', '.join(places)}"
        if has_found or has_given_up:
            run.holds(id, tried == list(places), why, request=found[0])


def _judge_suffix(
    run: ClientRun, server: FakeAuthorizationServer, found: Sequence[ReceivedRequest]
) -> None:
    """Judge whether a client invents a well-known suffix."""
    known = (*SUFFIXES, "oauth-protected-resource")
    odd = [
        each
        for each in run.requests
        if _WELL_KNOWN in each.path
        and each.path.partition(_WELL_KNOWN)[2].partition("/")[0] not in known
    ]
    defaults = [each for each in found if SUFFIXES[0] in each.path]
    if defaults:
        run.passes(_SUFFIX)
    elif odd:
        why = f"looks for metadata at {odd[0].path}, and never at {server.well_known[0]}"
        run.holds(_SUFFIX, condition=False, why=why, request=odd[0])


@client_scenario(
    "auth.asm.order-with-path",
    BOTH_FORMS,
    _SEVERAL,
    _SUFFIX,
    _SCOPES,
    "auth.cimd.client-checks-support",
    on=("http", "sse"),
    era="both",
)
class HasIssuerWithPath(ProtectedFakeServer):
    """Has an issuer with a path, whose metadata is at the last of the well-known URLs."""

    def make_servers(self) -> list[FakeAuthorizationServer]:
        # The authorization server knows scopes that the server does not ask for.
        members = {
            "scopes_supported": ["accounts:manage"],
            "client_id_metadata_document_supported": False,
        }
        path = "/tenant"
        server = FakeAuthorizationServer(path, places=(f"{path}{OPENID}",), members=members)
        # The metadata does not advertise it, and it is right: a client that compares it goes on.
        server.iss = f"{{origin}}{path}"
        return [server]

    async def judge(self, run: ClientRun) -> None:
        if self.was_tried(run):
            _judge_metadata_order(run, self.named, "auth.asm.order-with-path")
            judge_supported_scope(run, self)
            judge_registration(run, self)


@client_scenario(
    "auth.asm.order-without-path",
    _MECHANISMS,
    BOTH_FORMS,
    _SEVERAL,
    _SUFFIX,
    _SCOPES,
    on=("http", "sse"),
    era="both",
)
class NamesNothingInItsChallenge(ProtectedFakeServer):
    """Has metadata at the root alone, and an issuer with nothing but an OpenID configuration."""

    names_metadata = None
    places = (RESOURCE,)
    scopes_supported = ("notes:read", "notes:write")

    def make_servers(self) -> list[FakeAuthorizationServer]:
        members = {"scopes_supported": ["notes:read", "notes:write", "accounts:manage"]}
        return [FakeAuthorizationServer(places=(OPENID,), members=members)]

    async def judge(self, run: ClientRun) -> None:
        if not self.was_tried(run):
            return
        self._judge_mechanisms(run)
        if any(each.path in self.places for each in run.requests):
            _judge_metadata_order(run, self.named, "auth.asm.order-without-path")
            judge_supported_scope(run, self)

    def _judge_mechanisms(self, run: ClientRun) -> None:
        specific, root = f"{RESOURCE}{run.path}", RESOURCE
        found = first_requests(run, (specific, root))
        tried = [each.path for each in found]
        if run.exit_code is None and len(tried) < 2:
            return
        first = found[0] if found else next(each for each in run.requests if each.path != run.path)
        shown = f"looks for the resource metadata at {', '.join(tried) or 'no well-known URL'}"
        why = f"{shown}, in place of {specific}, then {root}"
        run.holds(_MECHANISMS, tried == [specific, root], why, request=first)


@client_scenario(_IDENTICAL, on=("http", "sse"), era="stateless")
class PublishesAnotherIssuer(ProtectedFakeServer):
    """Publishes metadata whose issuer is not the one that the client looked for."""

    path = "/tenant"

    def make_servers(self) -> list[FakeAuthorizationServer]:
        # First those that differ least.
        wrong = [f"{self.path}/", self.path.upper(), "/of-somebody-else"]
        places = FakeAuthorizationServer(self.path).well_known
        return [
            _MisnamedServer(each, place, number)
            for number, (each, place) in enumerate(zip(wrong, places, strict=True))
        ]

    @property
    def issuer(self) -> str:
        return f"{self.origin}{self.path}"

    async def judge(self, run: ClientRun) -> None:
        if not self.was_tried(run):
            return
        places = FakeAuthorizationServer(self.path).well_known
        if not first_requests(run, places):
            return
        for server in self.servers:
            names = ("register", "authorize", "token")
            used = [each for name in names for each in self.requests_to(run, name, server)]
            given = f"{self.origin}{server.path}"
            why = f"uses metadata of the issuer {given} for the issuer {self.issuer}"
            if used:
                run.holds(_IDENTICAL, condition=False, why=why, request=used[0])
        run.passes(_IDENTICAL)


class _MisnamedServer(FakeAuthorizationServer):
    """Publishes its metadata where that of another issuer belongs."""

    def __init__(self, path: str, place: str, number: int) -> None:
        super().__init__(path, places=(place,), endpoints=f"/misnamed-{number}")


# -- PKCE


class _OmitsPkce(ProtectedFakeServer):
    """Has an authorization server that does not say that it supports PKCE."""

    place = OAUTH

    def make_servers(self) -> list[FakeAuthorizationServer]:
        members = {"code_challenge_methods_supported": None}
        return [FakeAuthorizationServer(places=(self.place,), members=members)]

    async def judge(self, run: ClientRun) -> None:
        asked = self.named.asked
        looked = [each for each in run.requests if each.path == self.place]
        if looked and (asked or run.exit_code is not None):
            why = (
                "asks for authorization although the metadata has no "
                "code_challenge_methods_supported"
            )
            shown = asked[0].request if asked else None
            for id in _PKCE:
                run.holds(id, not asked, why, request=shown)
        elif not looked:
            self.was_tried(run)


@client_scenario(*_PKCE, on=("http", "sse"), era="both")
class OmitsPkce(_OmitsPkce):
    """Has metadata without code_challenge_methods_supported."""


@client_scenario(*_PKCE, on=("http", "sse"), era="both")
class OmitsPkceInItsOpenIdConfiguration(_OmitsPkce):
    """Has an OpenID configuration without code_challenge_methods_supported."""

    place = OPENID


_COMPARED: Final = "auth.iss.compare-present"
_RECORDED: Final = "auth.iss.record-issuer"
_EXACT: Final = "auth.iss.exact-string"
_ABSENT: Final = "auth.iss.reject-absent-when-advertised"
_ERRORS: Final = "auth.iss.errors-too"
_PATH: Final = "/tenant"
_SOMEBODY: Final = "{origin}/of-somebody-else"
_ADVERTISED: Final = "authorization_response_iss_parameter_supported"


class _ReturnsIss(ProtectedFakeServer):
    """Returns a code that the client must not use."""

    iss: str | None = None
    is_advertised = False

    def make_servers(self) -> list[FakeAuthorizationServer]:
        server = FakeAuthorizationServer(_PATH, members={_ADVERTISED: self.is_advertised or None})
        server.iss = self.iss
        return [server]

    def was_used(self, run: ClientRun) -> ReceivedRequest | None:
        """Return the request that uses the code; records why nothing can be judged."""
        if not self.named.asked:
            if self.was_tried(run):
                run.skip(self.ids, "the client did not get as far as asking for authorization")
            return None
        used = self.named.token_requests
        if not used and run.exit_code is None:
            run.skip(self.ids, "the client did not end by itself")
        return used[0] if used else None

    async def judge(self, run: ClientRun) -> None:
        used = self.was_used(run)
        shown = (self.iss or "no iss").replace("{origin}", self.origin)
        why = f"uses a code that came with {shown}, of the issuer {self.issuer}"
        if used is not None or (self.named.asked and run.exit_code is not None):
            for id in self.ids:
                run.holds(id, used is None, why, request=used)


class _ChangesItsIssuer(FakeAuthorizationServer):
    """Names another issuer in its metadata as soon as a user was asked for consent."""

    def metadata(self, origin: str) -> JsonObject:
        made = super().metadata(origin)
        if self.asked:
            made["issuer"] = _SOMEBODY.replace("{origin}", origin)
        return made


@client_scenario(_COMPARED, _RECORDED, on=("http", "sse"), era="stateless")
class ReturnsAnotherIss(_ReturnsIss):
    """Redirects the client with a code and the iss of another issuer."""

    iss = _SOMEBODY

    def make_servers(self) -> list[FakeAuthorizationServer]:
        server = _ChangesItsIssuer(_PATH)
        server.iss = self.iss
        return [server]

    async def judge(self, run: ClientRun) -> None:
        used = self.was_used(run)
        if used is None:
            if self.named.asked and run.exit_code is not None:
                run.passes(*self.ids)
            return
        since, until = self.place_of(self.named.asked[0].request), self.place_of(used)
        between = run.requests[since:until]
        read = [each for each in between if each.path in self.named.well_known]
        if read:
            why = "compares iss with an issuer that it reads after the redirect"
            run.holds(_RECORDED, condition=False, why=why, request=read[0])
            return
        shown = _SOMEBODY.replace("{origin}", self.origin)
        why = f"uses a code that came with the iss {shown}, of the issuer {self.issuer}"
        run.holds(_COMPARED, condition=False, why=why, request=used)


@client_scenario(_EXACT, on=("http", "sse"), era="stateless")
class ReturnsIssWithSlash(_ReturnsIss):
    """Redirects the client with an iss that has a slash at its end."""

    iss = f"{{origin}}{_PATH}/"


@client_scenario(_EXACT, on=("http", "sse"), era="stateless")
class ReturnsIssInUpperCase(_ReturnsIss):
    """Redirects the client with an iss in which letters have another case."""

    iss = f"{{origin}}{_PATH.upper()}"


@client_scenario(_EXACT, on=("http", "sse"), era="stateless")
class ReturnsIssPercentEncoded(_ReturnsIss):
    """Redirects the client with an iss in which a letter is percent-encoded."""

    iss = "{origin}/%74enant"


@client_scenario(_ABSENT, on=("http", "sse"), era="stateless")
class LeavesOutIss(_ReturnsIss):
    """Advertises iss, and redirects the client without it."""

    is_advertised = True


@client_scenario(_ERRORS, on=("http", "sse"), era="stateless")
class RefusesAsSomebodyElse(_ReturnsIss):
    """Redirects the client with an error and the iss of another issuer."""

    scope = "notes:read"
    page = "/page-about-the-error"
    text = "accord-check-text-of-somebody-else"

    def make_servers(self) -> list[FakeAuthorizationServer]:
        server = FakeAuthorizationServer(_PATH)
        server.iss = _SOMEBODY
        server.error = {
            "error": "invalid_scope",
            "error_description": self.text,
            "error_uri": f"{{origin}}{self.page}",
        }
        return [server]

    async def judge(self, run: ClientRun) -> None:
        self.was_used(run)
        if not self.named.asked:
            return
        first, *more = self.named.asked
        for request in run.requests:
            if request.path == self.page:
                why = "fetches the error_uri of a response with the iss of another issuer"
                run.holds(_ERRORS, condition=False, why=why, request=request)
        for line in run.stderr:
            if self.text in line:
                why = "shows the error_description of a response with the iss of another issuer"
                shown = [Evidence("standard error", "client", None, line[:1000])]
                run.holds(_ERRORS, condition=False, why=why, evidence=shown)
        for again in more:
            given = own_scopes(again.fields.get("scope", ""))
            if given != own_scopes(first.fields.get("scope", "")):
                why = "asks for another scope after an error with the iss of another issuer"
                run.holds(_ERRORS, condition=False, why=why, request=again.request)
        if run.exit_code is not None:
            run.passes(_ERRORS)


# -- several issuers

_SEPARATE: Final = "auth.as.separate-state"
_CROSS: Final = "auth.as.no-cross-use"
_KEYED: Final = "auth.binding.keyed-by-issuer"
_REUSED: Final = "auth.binding.no-reuse-on-change"
_AGAIN: Final = "auth.binding.reregister-on-change"
_MISMATCH: Final = "auth.binding.preregistered-mismatch-error"


@client_scenario(
    _SEPARATE,
    _CROSS,
    _KEYED,
    _REUSED,
    _AGAIN,
    _MISMATCH,
    "auth.refresh.grant-type",
    on=("http", "sse"),
    era="stateless",
)
class ChangesItsAuthorizationServer(ProtectedFakeServer):
    """Names another authorization server after a while, and later the first one again."""

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.changes: list[int] = []
        self._served = 0

    def make_servers(self) -> list[FakeAuthorizationServer]:
        return [
            FakeAuthorizationServer(f"/{name}", endpoints=f"/{name}/oauth", refreshes=True)
            for name in ("first", "second")
        ]

    def refuse(self, request: ReceivedRequest, grant: IssuedGrant) -> CannedResponse | None:
        if request.name in (None, "initialize", "server/discover") or len(self.changes) > 1:
            return None
        if self.changes and not self._served:
            self._served = 1
            return None
        self.changes.append(self.place_of(request))
        self.named = self.servers[len(self.changes) % 2]
        return self.challenge(error="invalid_token")

    async def judge(self, run: ClientRun) -> None:
        if not self.was_tried(run):
            return
        first, second = self.servers
        judge_registration(run, self)
        if not self.changes or not (second.asked or second.token_requests):
            self._judge_end(run)
            return
        self._judge_ids(run, second, first, self.changes[0], (_REUSED, _CROSS))
        self._judge_secrets(run)
        if len(self.changes) > 1:
            self._judge_ids(run, first, second, self.changes[1], (_KEYED, _CROSS))

    def _judge_end(self, run: ClientRun) -> None:
        if not self.servers[0].asked:
            run.not_applicable(self.ids, NOT_AT_ALL)
        elif run.has_client_id and self.changes and run.exit_code is not None:
            run.passes(_MISMATCH, _REUSED, _CROSS)
        else:
            run.skip(self.ids, "the client did not ask the second authorization server")

    def _judge_ids(
        self,
        run: ClientRun,
        there: FakeAuthorizationServer,
        before: FakeAuthorizationServer,
        since: int,
        ids: tuple[str, ...],
    ) -> None:
        """Judge the client ids that an authorization server got since a change."""
        known_before = {
            client_of(each) for each in before.asked if self._is_before(each.request, since)
        }
        used = [(client_of(each), each.request) for each in there.asked]
        used += [(parse_fields(each).get("client_id", ""), each) for each in there.token_requests]
        for client_id, request in used:
            if self._is_before(request, since) or not client_id or is_url(client_id):
                continue
            is_given = client_id == PREREGISTERED and client_id in known_before
            is_foreign = is_given or (before.knows(client_id) and not there.knows(client_id))
            why = f"uses at {there.path} the client id {client_id} that {before.path} gave it"
            for id in ids:
                run.holds(id, not is_foreign, why, request=request)
            if there is self.servers[1]:
                if is_given or run.has_client_id:
                    run.holds(_MISMATCH, not is_given, why, request=request)
                else:
                    has_new = bool(there.registrations) or not before.knows(client_id)
                    why = f"does not register with {there.path}, which it is sent to now"
                    run.holds(_AGAIN, has_new, why, request=request)

    def _is_before(self, request: ReceivedRequest, place: int) -> bool:
        return self.place_of(request) < place

    def _judge_secrets(self, run: ClientRun) -> None:
        """Judge whether an authorization server sees tokens of the other one."""
        for there, other in (self.servers, self.servers[::-1]):
            tokens = {
                token
                for grant in other.grants
                for token in (grant.access_token, grant.refresh_token)
                if token is not None
            }
            for request in run.requests:
                if not request.path.startswith((f"{there.endpoints}/", *there.well_known)):
                    continue
                text = f"{request.query} {request.headers.get('authorization')} {request.body!r}"
                is_seen = any(token in text for token in tokens)
                why = f"sends a token of {other.path} to {there.path}"
                run.holds(_SEPARATE, not is_seen, why, request=request)
