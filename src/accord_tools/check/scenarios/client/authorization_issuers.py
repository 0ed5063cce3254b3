"""Issuers: the `iss` of authorization responses (RFC 9207), and what belongs to which issuer."""

from typing import Final

from accord.protocol.verdict import Evidence
from accord.types import JsonObject, RevisionId
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.http_transport import CannedResponse, ReceivedRequest
from accord_tools.check.fake_server.protected import (
    NOT_AT_ALL,
    PREREGISTERED,
    FakeAuthorizationServer,
    IssuedGrant,
    ProtectedFakeServer,
    own_scopes,
    parse_fields,
)
from accord_tools.check.fake_server.server import client_scenario
from accord_tools.check.scenarios.client.authorization_registration import (
    client_of,
    is_url,
    judge_registration,
)

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
