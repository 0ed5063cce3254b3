"""Scopes: which ones a client asks for, and what it does if a token has too few."""

from typing import Final

from accord.types import RevisionId
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.http_transport import CannedResponse, ReceivedRequest
from accord_tools.check.fake_server.protected import (
    NOT_AT_ALL,
    ConsentRequest,
    FakeAuthorizationServer,
    IssuedGrant,
    ProtectedFakeServer,
    own_scopes,
)
from accord_tools.check.fake_server.server import client_scenario

_ORDER: Final = "auth.scope.selection-order"
_RELATION: Final = "auth.scope.no-assumed-relation"
_AUTHORITATIVE: Final = "auth.scope.challenge-authoritative"
_STEPS_UP: Final = "auth.scope.client-steps-up"
_UNION: Final = "auth.scope.client-union"
_LIMIT: Final = "auth.scope.retry-limit"
SELECTION: Final = (_ORDER, _RELATION, _AUTHORITATIVE)
# The specification names no number: this many attempts for one operation are not limited.
_MANY: Final = 5
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
