"""Protected servers: how a client registers and chooses scopes, gets a token and uses it."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

from accord.http.client.guarded import AddressPolicy, GuardedSender, HttpRequest, NoResponse
from accord.http.rules.addresses import is_loopback
from accord.http.rules.responses import quote_url
from accord.protocol.verdict import Evidence
from accord.types import RevisionId
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.protected import (
    CALLBACK,
    NOT_AT_ALL,
    OAUTH,
    OPENID,
    PREREGISTERED,
    PROTECTED,
    ConsentRequest,
    FakeAuthorizationServer,
    IssuedGrant,
    ProtectedFakeServer,
    own_scopes,
    parse_fields,
)
from accord_tools.check.fake_server.server import client_scenario, revisions_of
from accord_tools.check.fake_server.transports import CannedResponse, ReceivedRequest

if TYPE_CHECKING:
    from ssl import SSLContext

_BEFORE_FLOW: Final = "auth.register.before-flow"
_PRIORITY: Final = "auth.register.priority"
_GIVEN: Final = "auth.preregistration.option"
_TYPE: Final = "auth.dcr.application-type"
_NATIVE: Final = "auth.dcr.native"
_WEB: Final = "auth.dcr.web"
_REFUSED: Final = "auth.dcr.handles-refusal"
_GRANTS: Final = "auth.refresh.grant-type"
_ASSUMED: Final = "auth.refresh.not-assumed"
_SUPPORT: Final = "auth.cimd.client-checks-support"
_DOCUMENT: Final = (
    "auth.cimd.https-hosted",
    "auth.cimd.required-members",
    "auth.cimd.id-equals-url",
)
_FLAG: Final = "client_id_metadata_document_supported"
REGISTRATION: Final = (_BEFORE_FLOW, _SUPPORT, _TYPE, _NATIVE, _WEB, _GRANTS)
# What programs send that have no id: the text of an empty value.
_NO_ID: Final = frozenset({"", "undefined", "null", "none"})
# As many registrations with the same metadata, or attempts for one operation, are a loop; the
# specification names no number.
_MANY: Final = 5
_SECONDS: Final = 5.0


def is_url(client_id: str) -> bool:
    """Return whether a client id is the URL of a metadata document."""
    return client_id.lower().startswith(("https://", "http://"))


def client_of(asked: ConsentRequest) -> str:
    """Return the client id of a request for consent; empty without one."""
    return asked.fields.get("client_id", "").strip()


def judge_registration(run: ClientRun, server: ProtectedFakeServer) -> None:
    """Judge how a client got its id from each authorization server."""
    for each in server.servers:
        for asked in each.asked:
            _judge_id(run, each, asked)
        for request in each.registrations:
            said = request.message
            _judge_type(run, request, said if isinstance(said, dict) else {})
        judge_refreshes(run, each)


def _judge_id(run: ClientRun, server: FakeAuthorizationServer, asked: ConsentRequest) -> None:
    client_id = client_of(asked)
    why = "asks for authorization without a client id"
    has_id = client_id.lower() not in _NO_ID
    if not run.holds(_BEFORE_FLOW, has_id, why, request=asked.request):
        return
    if is_url(client_id) and not server.knows(client_id):
        is_supported = server.members.get(_FLAG) is True
        why = f"uses a metadata document as its id, although {_FLAG} is not true"
        run.holds(_SUPPORT, is_supported, why, request=asked.request)


def _judge_type(run: ClientRun, request: ReceivedRequest, said: Mapping[str, Any]) -> None:
    given = said.get("application_type")
    why = "registers without application_type"
    if "application_type" in said:
        why = f"registers with the application_type {given!r}"
    if not run.holds(_TYPE, given in ("native", "web"), why, request=request):
        return
    uris = said.get("redirect_uris")
    uris = [each for each in uris if isinstance(each, str)] if isinstance(uris, list) else []
    if uris and all(map(_is_on_device, uris)):
        why = f"registers as {given!r} with a redirect URI on the user's device"
        run.holds(_NATIVE, given == "native", why, request=request)
        run.not_applicable(_WEB, "the client runs on the user's device")
    elif uris and given == "web":
        run.passes(_WEB)
    elif uris:
        # Apps of a device may claim an https URL, so this proves nothing.
        run.skip(_WEB, "an app on the user's device may claim an https URL too")


def _is_on_device(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
        return parts.scheme not in ("http", "https") or is_loopback(parts.hostname or "")
    except ValueError:
        return False


def judge_refreshes(run: ClientRun, server: FakeAuthorizationServer) -> None:
    """Judge whether a client that uses refresh tokens said so when it registered."""
    users = {
        fields.get("client_id", ""): request
        for request in server.token_requests
        if (fields := parse_fields(request)).get("grant_type") == "refresh_token"
    }
    for asked in server.asked:
        if "offline_access" in asked.fields.get("scope", "").split():
            users.setdefault(client_of(asked), asked.request)
    for client_id, request in users.items():
        if client_id in server.documents:
            listed = server.documents[client_id].get("grant_types")
            is_listed = isinstance(listed, list) and "refresh_token" in listed
            why = f"wants refresh tokens, and registers with the grant_types {listed}"
            run.holds(_GRANTS, is_listed, why, request=request)


@client_scenario(
    _PRIORITY, _GIVEN, "auth.cimd.supported", _SUPPORT, *_DOCUMENT, on=("http", "sse"), era="both"
)
class OffersEveryRegistration(ProtectedFakeServer):
    """Knows the client, reads metadata documents, and has a registration endpoint that refuses.

    Attributes:
        tls: which certificates are trusted for documents; None for the usual ones.
    """

    tls: "ClassVar[SSLContext | None]" = None

    def make_servers(self) -> list[FakeAuthorizationServer]:
        server = FakeAuthorizationServer(members={_FLAG: True})
        # A client that prefers to register has to show whether it knows another way.
        server.refusal = "invalid_client_metadata"
        return [server]

    async def judge(self, run: ClientRun) -> None:
        if not self.was_tried(run):
            return
        asked, registrations = self.named.asked, self.named.registrations
        if run.has_client_id:
            run.skip(_DOCUMENT, "the client was given a client id")
            self._judge_given(run, asked, registrations)
            return
        run.skip(_GIVEN, "the client was given no id: write {client_id} in its command")
        documents = [each for each in asked if is_url(client_of(each))]
        if not documents:
            if registrations:
                run.skip(self.ids, "the client registers: it may have no metadata document")
            return
        run.passes("auth.cimd.supported", _SUPPORT)
        since = self.place_of(documents[0].request)
        early = [each for each in registrations if self.place_of(each) < since]
        why = "registers although it has a metadata document, which the server can read"
        run.holds(_PRIORITY, not early, why, request=early[0] if early else None)
        await self._judge_document(run, client_of(documents[0]), documents[0].request)

    def _judge_given(
        self,
        run: ClientRun,
        asked: Sequence[ConsentRequest],
        registrations: Sequence[ReceivedRequest],
    ) -> None:
        others = [each.request for each in asked if client_of(each) != PREREGISTERED]
        used = len(others) < len(asked)
        wrong = sorted([*others, *registrations], key=self.place_of)
        if not used and not wrong:
            return
        shown = wrong[0] if wrong else None
        why = "does not use the client id that it was given"
        run.holds(_GIVEN, used, why, request=shown)
        why = f"was given a client id, and uses another way: {shown and shown.path}"
        run.holds(_PRIORITY, not wrong, why, request=shown)

    async def _judge_document(self, run: ClientRun, url: str, request: ReceivedRequest) -> None:
        hosted, members, same = _DOCUMENT
        parts = urlsplit(url)
        is_right = parts.scheme == "https" and parts.path not in ("", "/")
        why = f"uses {quote_url(url)} as its client id, expected an https URL with a path"
        if not run.holds(hosted, is_right, why, request=request):
            return
        # The client runs on this machine, so what it names may be on this machine too.
        sender = GuardedSender(AddressPolicy.beside(self.origin), seconds=_SECONDS, tls=self.tls)
        asking = HttpRequest(method="GET", url=url, headers={"accept": "application/json"})
        try:
            response = await sender.send(asking)
        except NoResponse as error:
            run.skip(_DOCUMENT, f"the metadata document was not read: {error}")
            return
        if response.status != 200:
            run.skip(_DOCUMENT, f"the metadata document was not read: {response.summary}")
            return
        found = response.object()
        text = response.body[:1000].decode(errors="replace")
        shown = [Evidence(f"document at {quote_url(url)}", "client", None, text)]
        if not run.holds(
            members,
            found is not None,
            "has a metadata document that is not a JSON object",
            evidence=shown,
        ):
            return
        missing = _missing_members(found or {})
        why = f"has a metadata document without {' and without '.join(missing)}"
        run.holds(members, not missing, why, evidence=shown)
        given = (found or {}).get("client_id")
        if given is not None:
            why = f"has a metadata document with the client_id {given!r}, not its URL"
            run.holds(same, given == url, why, evidence=shown)


def _missing_members(document: Mapping[str, Any]) -> list[str]:
    uris = document.get("redirect_uris")
    fine = {
        "client_id": isinstance(document.get("client_id"), str),
        "client_name": isinstance(document.get("client_name"), str),
        "redirect_uris": isinstance(uris, list)
        and bool(uris)
        and all(isinstance(each, str) for each in uris),
    }
    return [name for name, is_fine in fine.items() if not is_fine]


@client_scenario(_REFUSED, _BEFORE_FLOW, on=("http", "sse"), era="stateless")
class RefusesTheRedirectUri(ProtectedFakeServer):
    """Refuses every registration because of its redirect URI."""

    def make_servers(self) -> list[FakeAuthorizationServer]:
        server = FakeAuthorizationServer()
        server.refusal = "invalid_redirect_uri"
        return [server]

    async def judge(self, run: ClientRun) -> None:
        registrations = self.named.registrations
        if not registrations:
            if self.was_tried(run):
                run.skip(self.ids, "the client does not register")
            return
        judge_registration(run, self)
        bodies = [each.body for each in registrations]
        most = max(map(bodies.count, bodies))
        why = f"sends the same registration {most} times, although it is refused each time"
        is_right = run.holds(_REFUSED, most < _MANY, why, request=registrations[-1])
        for asked in self.named.asked:
            why = "goes on without a client id after its registration was refused"
            has_id = client_of(asked).lower() not in _NO_ID
            is_right &= run.holds(_REFUSED, has_id, why, request=asked.request)


@client_scenario(_ASSUMED, on=("http", "sse"), era="stateless")
class RevokesTheToken(ProtectedFakeServer):
    """Issues no refresh token, and refuses its own token after a while."""

    def refuse(self, request: ReceivedRequest, grant: IssuedGrant) -> CannedResponse | None:
        is_first = grant is self.named.grants[0]
        is_opening = not self.refused and request.name in (None, "initialize", "server/discover")
        if not is_first or is_opening:
            return None
        return self.challenge(error="invalid_token")

    async def judge(self, run: ClientRun) -> None:
        if not self.was_tried(run):
            return
        if not self.named.asked:
            run.not_applicable(self.ids, NOT_AT_ALL)
            return
        for request in self.named.token_requests:
            if parse_fields(request).get("grant_type") == "refresh_token":
                why = "asks for a token with a refresh token, although it was given none"
                run.holds(_ASSUMED, condition=False, why=why, request=request)
        if self.refused and run.exit_code is not None:
            run.passes(_ASSUMED)


_ORDER: Final = "auth.scope.selection-order"
_RELATION: Final = "auth.scope.no-assumed-relation"
_AUTHORITATIVE: Final = "auth.scope.challenge-authoritative"
_STEPS_UP: Final = "auth.scope.client-steps-up"
_UNION: Final = "auth.scope.client-union"
_LIMIT: Final = "auth.scope.retry-limit"
SELECTION: Final = (_ORDER, _RELATION, _AUTHORITATIVE)

# Requests that begin a conversation, or that clients send of their own accord.
_GENERAL: Final = ("initialize", "ping", "server/discover", "subscriptions/listen")


def judge_challenged_scope(run: ClientRun, server: ProtectedFakeServer) -> None:
    """Judge the scope of the first request, which a challenge named."""
    challenged = set((server.scope or "").split())
    supported = set(server.scopes_supported or ())
    for asked in server.named.asked[:1]:
        given = own_scopes(asked.fields.get("scope", ""))
        shown = f"asks for the scope {asked.fields.get('scope')!r}, challenged for {server.scope!r}"
        # The client kept only what scopes_supported lists.
        is_cut = bool(given) and given < challenged and given <= supported
        why = f"{shown}: it leaves out what scopes_supported does not list"
        if not run.holds(_RELATION, not is_cut, why, request=asked.request):
            continue
        is_whole = challenged <= given
        if given:
            run.holds(_AUTHORITATIVE, is_whole, shown, request=asked.request)
        is_right = is_whole and given.isdisjoint(supported - challenged)
        run.holds(_ORDER, is_right, shown, request=asked.request)


def judge_supported_scope(run: ClientRun, server: ProtectedFakeServer) -> None:
    """Judge the scope of the first request after a challenge without a scope."""
    supported = set(server.scopes_supported or ())
    listed = server.named.members.get("scopes_supported")
    # Only the metadata of the authorization server names these.
    foreign = set(map(str, listed if isinstance(listed, list) else ())) - supported
    for asked in server.named.asked[:1]:
        given = own_scopes(asked.fields.get("scope", ""))
        text = f"asks for the scope {asked.fields.get('scope')!r}"
        if given & foreign:
            why = f"{text}, which only the authorization server's metadata lists"
            run.holds(_ORDER, condition=False, why=why, request=asked.request)
        elif given - supported:
            run.skip(_ORDER, "the client asks for scopes of its own, as its user may have chosen")
        else:
            why = f"{text}, not for all of scopes_supported: {' '.join(sorted(supported))}"
            run.holds(_ORDER, supported <= given, why, request=asked.request)


class _RefusesOneOperation(ProtectedFakeServer):
    """Refuses the first operation that a client tries, for want of a scope."""

    scope = "notes:read"
    more = "notes:write"

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.operation: str | None = None

    def is_enough(self, grant: IssuedGrant) -> bool:
        """Return whether a token suffices for the operation."""
        return self.more in grant.scope.split()

    def refuse(self, request: ReceivedRequest, grant: IssuedGrant) -> CannedResponse | None:
        name = request.name
        if request.method != "POST" or name is None or name in _GENERAL:
            return None
        message = request.message
        if isinstance(message, dict) and "id" in message and self.operation is None:
            self.operation = name
        if name != self.operation or self.is_enough(grant):
            return None
        return self.challenge(403, scope=self.more, error="insufficient_scope")

    def asked_again(self) -> list[ConsentRequest]:
        """Return the requests for consent since the operation was refused."""
        if not self.refused:
            return []
        since = self.place_of(self.refused[0])
        return [each for each in self.named.asked if self.place_of(each.request) > since]

    def was_refused(self, run: ClientRun) -> bool:
        """Return whether the client heard the refusal; else record why nothing was judged."""
        if not self.named.asked:
            run.not_applicable(self.ids, NOT_AT_ALL)
        elif not self.refused or self.refused[0].was_left:
            run.skip(self.ids, "the client sent no request that needs a scope")
        else:
            return True
        return False


@client_scenario(_STEPS_UP, _UNION, on=("http", "sse"), era="both")
class WantsAnotherScope(_RefusesOneOperation):
    """Refuses an operation until the token has another scope."""

    async def judge(self, run: ClientRun) -> None:
        if not self.was_refused(run):
            return
        again, first = self.asked_again(), self.named.asked[0]
        if not again:
            if run.exit_code is None:
                run.skip(self.ids, "the client did not end by itself")
                return
            why = f"gives up when {self.operation} needs the scope {self.more!r}"
            run.holds(_STEPS_UP, condition=False, why=why, request=self.refused[0])
            return
        for asked in again[:1]:
            given = asked.fields.get("scope", "")
            why = f"asks for {given!r}, although {self.operation} needs {self.more!r}"
            if run.holds(_STEPS_UP, self.more in given.split(), why, request=asked.request):
                lost = own_scopes(first.fields.get("scope", "")) - own_scopes(given)
                why = f"asks for {given!r}, without {sorted(lost)} that it had asked for before"
                run.holds(_UNION, not lost, why, request=asked.request)


@client_scenario(_LIMIT, on=("http", "sse"), era="both")
class NeverHasEnoughScope(_RefusesOneOperation):
    """Refuses an operation for want of a scope, whatever the token has."""

    def make_servers(self) -> list[FakeAuthorizationServer]:
        return [_TiresOfAsking()]

    def is_enough(self, grant: IssuedGrant) -> bool:
        return False

    async def judge(self, run: ClientRun) -> None:
        if not self.was_refused(run):
            return
        again = self.asked_again()
        if not again:
            run.skip(_LIMIT, "the client does not ask for more scope")
            return
        why = f"asks for authorization {len(again)} times more for {self.operation}, each in vain"
        run.holds(_LIMIT, len(again) < _MANY, why, request=again[-1].request)


class _TiresOfAsking(FakeAuthorizationServer):
    """Refuses consent in the end: a client without a limit would never end."""

    def answer(self, request: ReceivedRequest, origin: str) -> CannedResponse | None:
        if len(self.asked) > _MANY:
            self.error = {"error": "access_denied"}
        return super().answer(request, origin)


# -- metadata

SUFFIXES: Final = ("oauth-authorization-server", "openid-configuration")
BOTH_FORMS: Final = "auth.client.discovery-both"


def first_requests(run: ClientRun, places: Sequence[str]) -> list[ReceivedRequest]:
    """Return the first request to each of some paths, in the order of the requests."""
    first: dict[str, ReceivedRequest] = {}
    for each in run.requests:
        if each.path in places and each.method == "GET":
            first.setdefault(each.path, each)
    return list(first.values())


def judge_forms(run: ClientRun, server: FakeAuthorizationServer) -> None:
    """Judge whether a client that found no metadata looked for both forms of it."""
    found = first_requests(run, server.well_known)
    forms = {name for name in SUFFIXES if any(name in each.path for each in found)}
    is_left = any(each.path in server.places for each in found) or run.exit_code is None
    if found and (len(forms) == 2 or not is_left):
        why = f"looks for the metadata of the authorization server at {found[-1].path} alone"
        run.holds(BOTH_FORMS, len(forms) == 2, why, request=found[-1])


# -- getting and using a token

_FLOW: Final = (
    "auth.http.oauth-flow",
    "auth.oauth21.implementations",
    "auth.pkce.implemented",
    "auth.pkce.s256",
    "auth.redirect.localhost-or-https",
    "auth.redirect.registered",
    "auth.token.bearer-header",
    "auth.token.not-in-query",
    "auth.every-request",
    "auth.tokens.only-own-issuer",
    "auth.resource-indicators.client",
    "auth.resource-parameter.sent",
    "auth.resource.both-requests",
    "auth.resource.canonical",
    "auth.resource.most-specific",
)


# Only a receiver that knows its requestors apart can bind tasks to them.
_TASKS: Final = (
    "tasks.security.bound-to-context",
    "tasks.security.foreign-rejected",
    "tasks.security.list-own-only",
)


def judge_flow(run: ClientRun, server: ProtectedFakeServer, *, knows_resource: bool) -> None:
    """Judge the requests for authorization and for a token, and how the token is used."""
    authorize, token = server.requests_to(run, "authorize"), server.requests_to(run, "token")
    for request in authorize:
        _judge_authorize(run, request, server.named.clients)
    if token:
        why = "asks for a token with a verifier that does not fit its challenge"
        run.holds("auth.pkce.implemented", all(server.named.verified[-1:]), why)
    if authorize and token and knows_resource:
        _judge_resource(run, authorize[-1], token[-1])
    if server.tokens:
        run.passes("auth.http.oauth-flow", "auth.oauth21.implementations")
        # A request that was sent before the token came back could not carry it.
        since = token[0].ended or token[0].at
        after = run.requests[run.requests.index(token[0]) :]
        _judge_use(run, [each for each in after if each.at >= since], server.tokens)


def _metadata_requests(run: ClientRun) -> list[ReceivedRequest]:
    return [each for each in run.requests if OAUTH in each.path or OPENID in each.path]


def _judge_authorize(
    run: ClientRun, request: ReceivedRequest, clients: Mapping[str, list[str]]
) -> None:
    given = parse_fields(request)
    challenge, method = given.get("code_challenge"), given.get("code_challenge_method")
    id = "auth.pkce.implemented"
    if run.holds(id, challenge, "asks for authorization without PKCE", request=request):
        why = f"asks with the challenge method {method}, not S256"
        run.holds("auth.pkce.s256", method == "S256", why, request=request)
    uri = given.get("redirect_uri")
    if uri is None:
        return
    parts = urlsplit(uri)
    # Loopback addresses mean localhost, and native apps use schemes other than http.
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    why = f"asks to be redirected to {uri}"
    is_fine = parts.scheme == "https" or is_local or parts.scheme not in ("http", "")
    run.holds("auth.redirect.localhost-or-https", is_fine, why, request=request)
    known = clients.get(given.get("client_id", ""))
    if known is not None:
        run.holds("auth.redirect.registered", uri in known or _is_loopback_of(uri, known), why)


def _is_loopback_of(uri: str, known: list[str]) -> bool:
    """Return whether a redirect differs from a registered one only by a loopback port."""
    parts = urlsplit(uri)
    return any(
        urlsplit(each)._replace(netloc="") == parts._replace(netloc="")
        and urlsplit(each).hostname == parts.hostname
        and parts.hostname in ("localhost", "127.0.0.1", "::1")
        for each in known
    )


def _judge_resource(run: ClientRun, authorize: ReceivedRequest, token: ReceivedRequest) -> None:
    first, second = parse_fields(authorize).get("resource"), parse_fields(token).get("resource")
    why = "asks for authorization without the resource that it is for"
    if not run.holds("auth.resource-parameter.sent", first, why, request=authorize):
        return
    why = "asks for a token without the resource that it is for"
    if not run.holds("auth.resource.both-requests", second, why, request=token):
        return
    run.passes("auth.resource-indicators.client")
    url = f"{run.server.fake_transport.origin}{run.path}"
    for given in (first, second):
        parts = urlsplit(given or "")
        host = urlsplit(url).netloc
        is_canonical = bool(parts.scheme) and parts.netloc == host and "#" not in (given or "")
        why = f"names the resource {given}, the server is {url}"
        if run.holds("auth.resource.canonical", is_canonical, why):
            run.holds("auth.resource.most-specific", given == url, why)


def _judge_use(run: ClientRun, later: list[ReceivedRequest], tokens: Collection[str]) -> None:
    def is_in_query(request: ReceivedRequest) -> bool:
        return any(token in request.query for token in tokens)

    for request in run.requests:
        why = "puts the access token into the query"
        run.holds("auth.token.not-in-query", not is_in_query(request), why, request=request)
    for request in later:
        given = request.headers.get("authorization")
        if request.path not in PROTECTED or (given is None and is_in_query(request)):
            continue
        if given is None:
            why = f"sends {request.method} without the token it was given"
            run.holds("auth.every-request", given, why, request=request)
            continue
        scheme, _, token = given.partition(" ")
        is_bearer, why = scheme.lower() == "bearer", f"presents a token with the scheme {scheme}"
        if run.holds("auth.token.bearer-header", is_bearer, why, request=request):
            is_own = token.strip() in tokens
            why = "sends a token that the server's authorization server did not issue"
            run.holds("auth.tokens.only-own-issuer", is_own, why, request=request)
            run.passes("auth.every-request")


@client_scenario(
    *_FLOW,
    *SELECTION,
    *REGISTRATION,
    *_TASKS,
    "auth.challenge.client-parses",
    "auth.challenge.client-reacts",
    "auth.prm.client-uses",
    "auth.as-metadata.client",
    "auth.client.discovery-both",
    on=("http", "sse"),
    era="both",
)
class RequiresToken(ProtectedFakeServer):
    """Requires a token, and names its metadata and a scope."""

    scope = "notes:read files:list"
    # Neither contains the other.
    scopes_supported = ("notes:read", "accounts:manage")

    def make_servers(self) -> list[FakeAuthorizationServer]:
        return [FakeAuthorizationServer(members={"scopes_supported": [*self.scopes_supported]})]

    async def judge(self, run: ClientRun) -> None:
        run.not_applicable(_TASKS, "a client gets no credentials from the server that asks it")
        if not self.was_tried(run):
            return
        run.passes("auth.challenge.client-reacts")
        named = any(each.path == self.names_metadata for each in run.requests)
        # Clients of 2025-03-26 do not know that metadata; the requirements begin later.
        why = "does not fetch the metadata that the challenge names"
        id = "auth.challenge.client-parses"
        if run.holds(id, named, why):
            found = _metadata_requests(run) or self.requests_to(run, "authorize")
            why = "fetches the metadata and ignores the authorization server in it"
            run.holds("auth.prm.client-uses", found, why)
        if self.requests_to(run, "authorize"):
            why = "asks for authorization without the metadata of the authorization server"
            run.holds("auth.as-metadata.client", _metadata_requests(run), why)
        judge_flow(run, self, knows_resource=True)
        judge_forms(run, self.named)
        judge_challenged_scope(run, self)
        judge_registration(run, self)


@client_scenario(
    "auth.discovery.base-url",
    "auth.discovery.protocol-version-header",
    "auth.dcr.implementations",
    *_FLOW[:9],
    on=("http", "sse"),
    revisions=revisions_of("auth.discovery.base-url"),
)
class IssuesItsOwnTokens(ProtectedFakeServer):
    """Requires a token, and is its own authorization server, as in 2025-03-26."""

    names_metadata = None

    def make_servers(self) -> list[FakeAuthorizationServer]:
        return [FakeAuthorizationServer(places=(OAUTH, OPENID))]

    async def judge(self, run: ClientRun) -> None:
        if not self.was_tried(run):
            return
        found = _metadata_requests(run)
        roots = [each for each in found if each.path == OAUTH]
        if found:
            why = f"looks for metadata at {found[0].path} alone, not at the root"
            run.holds("auth.discovery.base-url", roots, why, request=found[0])
        # Only a client that asked for this revision knew that it would be agreed on.
        if self.requested_revisions and self.requested_revisions[0] in self.revisions:
            for request in roots:
                given = request.headers.get("mcp-protocol-version")
                why = "looks for metadata without MCP-Protocol-Version"
                id = "auth.discovery.protocol-version-header"
                run.holds(id, given, why, request=request)
        if self.requests_to(run, "register"):
            run.passes("auth.dcr.implementations")
        judge_flow(run, self, knows_resource=False)


@client_scenario(
    "auth.fallback.default-paths",
    "auth.fallback.authorize-path",
    "auth.fallback.token-path",
    "auth.fallback.register-path",
    on=("http", "sse"),
    revisions=revisions_of("auth.discovery.base-url"),
)
class RequiresTokenWithoutMetadata(ProtectedFakeServer):
    """Requires a token, and publishes no metadata."""

    names_metadata = None

    def make_servers(self) -> list[FakeAuthorizationServer]:
        return [FakeAuthorizationServer(endpoints="", places=())]

    async def judge(self, run: ClientRun) -> None:
        tried = {each.path for each in run.requests if each.path not in PROTECTED}
        tried -= {path for path in tried if "/.well-known/" in path}
        if not self.was_tried(run):
            return
        if tried:
            for name in ("register", "authorize", "token"):
                if f"/{name}" in tried:
                    run.passes("auth.fallback.default-paths", f"auth.fallback.{name}-path")
            odd = sorted(tried - {"/register", "/authorize", "/token"} - {CALLBACK})
            why = f"asks at {odd[0] if odd else ''} although there is no metadata"
            run.holds("auth.fallback.default-paths", not odd, why)
        elif self.requested_revisions and self.requested_revisions[0] in self.revisions:
            why = "gives up when there is no metadata, without trying the default paths"
            run.fail("auth.fallback.default-paths", why)


@client_scenario("auth.state.verified", on=("http", "sse"), era="both")
class ReturnsAnotherState(ProtectedFakeServer):
    """Redirects the client with a state that it did not send."""

    state = "not-the-state-of-the-client"

    def make_servers(self) -> list[FakeAuthorizationServer]:
        server = FakeAuthorizationServer()
        server.state = self.state
        return [server]

    async def judge(self, run: ClientRun) -> None:
        id = "auth.state.verified"
        authorize = self.requests_to(run, "authorize")
        if not authorize:
            run.not_applicable(id, NOT_AT_ALL)
        elif "state" not in parse_fields(authorize[0]):
            run.fail(id, "asks for authorization without a state")
        else:
            came = "a different state" if self.state else "no state"
            why = f"accepts a code that arrived with {came}"
            run.holds(id, not self.requests_to(run, "token"), why)


@client_scenario("auth.state.verified", on=("http", "sse"), era="both")
class ReturnsNoState(ReturnsAnotherState):
    """Redirects the client without the state that it sent."""

    state = ""
