"""The conversation: what each party may do next, under each revision.

Everything that changes the state of a conversation is in this file, and it does not know which role
we play: both parties are held to the same rules. It judges one step at a time (`judge`) and then
takes it (`advance`). Phases:

    OPENING      client: initialize   -> NEGOTIATING
    NEGOTIATING  server: its result   -> NEGOTIATED, or its error -> OPENING
    NEGOTIATED   client: initialized  -> READY

A bridge may put several clients behind one connection, each with its own `initialize`. The newest
one counts: its capabilities from the request on, its revision from the answer on. A conversation
that is READY stays so, and requests in flight keep the revision they began with.

Requests that name their revision in `_meta` stand on their own; for them there are no phases.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from accord.protocol.exchange import Exchange, Step, member, meta_of
from accord.protocol.jsonrpc import FAULT, NOTIFICATION, REQUEST, RESULT, Kind
from accord.protocol.memory import Bounded, Memory, UsedIds
from accord.protocol.methods import METHODS
from accord.protocol.revision import Phase, Revision
from accord.protocol.revisions import BEFORE_HANDSHAKE, REVISIONS
from accord.protocol.rules._rule import breaches, enforced
from accord.protocol.violation import CLIENT, OTHER, SERVER, Party, Violation
from accord.types._base import ProgressToken, RequestId

META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

TRANSITIONS: Final[dict[tuple[Phase, Party, str, Kind], Phase]] = {
    (Phase.OPENING, CLIENT, "initialize", REQUEST): Phase.NEGOTIATING,
    (Phase.NEGOTIATING, SERVER, "initialize", RESULT): Phase.NEGOTIATED,
    (Phase.NEGOTIATING, SERVER, "initialize", FAULT): Phase.OPENING,
    (Phase.NEGOTIATED, CLIENT, "notifications/initialized", NOTIFICATION): Phase.READY,
    (Phase.NEGOTIATING, CLIENT, "initialize", REQUEST): Phase.NEGOTIATING,
    (Phase.NEGOTIATED, CLIENT, "initialize", REQUEST): Phase.NEGOTIATING,
    (Phase.NEGOTIATED, SERVER, "initialize", RESULT): Phase.NEGOTIATED,
    (Phase.READY, CLIENT, "initialize", REQUEST): Phase.READY,
    (Phase.READY, SERVER, "initialize", RESULT): Phase.READY,
    (Phase.READY, SERVER, "initialize", FAULT): Phase.READY,
}

# Late answers to cancelled requests are told from stray ones as long as they come within this many
# cancellations.
_CANCELLED_REMEMBERED: Final = 1024
_NOTHING: Final[tuple[Violation, ...]] = ()
_NONE_FREE: Final[dict[Party, frozenset[str]]] = {CLIENT: frozenset(), SERVER: frozenset()}
# Shared by all who have cancelled nothing or have no token in use: an idle conversation owns less.
_NONE_CANCELLED: Final[Bounded[RequestId, Exchange]] = Bounded(0)
_NONE_IN_USE: Final[dict[ProgressToken, Exchange]] = {}
_CAPABILITIES: Final = frozenset(
    {each for row in METHODS for each in (row.needs, row.offers) if each}
)


class PartyState(msgspec.Struct):
    """What is known of one party: its requests under way, its progress tokens, what it declared.

    `capabilities` are dotted paths, None while they are unknown. `used` is every id it ever used;
    only a conversation that remembers has it, and such a one forgets the oldest open requests: it
    cannot refuse any.
    """

    open: dict[RequestId, Exchange] = msgspec.field(default_factory=dict)
    tokens: dict[ProgressToken, Exchange] = msgspec.field(default_factory=lambda: _NONE_IN_USE)
    cancelled: Bounded[RequestId, Exchange] = msgspec.field(default_factory=lambda: _NONE_CANCELLED)
    capabilities: frozenset[str] | None = None
    info: Any = None
    used: UsedIds | None = None

    def keep_token(self, exchange: Exchange, token: ProgressToken) -> None:
        """Know a request by its token; of two with the same, the first."""
        if self.tokens is _NONE_IN_USE:
            self.tokens = {}
        self.tokens.setdefault(token, exchange)

    def remember_cancelled(self, exchange: Exchange) -> None:
        """Know a request by which an answer may come, though nobody waits for it."""
        if self.cancelled is _NONE_CANCELLED:
            self.cancelled = Bounded(_CANCELLED_REMEMBERED)
        self.cancelled[exchange.id] = exchange


class Conversation:
    """All that two parties say to each other, judged by the revision they agreed on."""

    # What was known of the client before a further `initialize`, in case that is refused.
    _replaced: tuple[frozenset[str] | None, Any] = (None, None)

    def __init__(self, *, revision: Revision | None = None, memory: Memory | None = None) -> None:
        self.phase = Phase.OPENING
        self.current: Revision
        self.revision = revision
        self.memory = memory
        self.parties: dict[Party, PartyState] = {
            party: PartyState()
            if memory is None
            else PartyState(open=Bounded(), tokens=Bounded(), used=UsedIds())
            for party in (CLIENT, SERVER)
        }
        self._indexed = self.current
        self._index = enforced(self.current.id, ready=False)
        # Filled when the opening is over, and only where nobody remembers every message.
        self._unobjectionable = self._unobjectionable_results = _NONE_FREE

    # -- which revision a message belongs to

    @property
    def revision(self) -> Revision | None:
        """The revision agreed on; None until there is one."""
        return self._agreed

    @revision.setter
    def revision(self, revision: Revision | None) -> None:
        self._agreed = revision
        self.current = revision or BEFORE_HANDSHAKE
        """The revision of messages that do not name one."""

    def revision_for(self, meta: dict[str, Any]) -> Revision:
        """Return the revision that a request names in `_meta`; without one, the current."""
        named = meta.get(META_VERSION)
        if isinstance(named, str):
            row = REVISIONS.get(named)
            if row is not None and not row.handshake:
                return row
        return self.current

    # -- finding what a message is about

    def open_exchange(self, sender: Party, id: RequestId) -> Exchange | None:
        """Return the exchange that a party opened under this id and that has no answer yet."""
        return self.parties[sender].open.get(id)

    def answered_by(self, sender: Party, id: RequestId | None) -> Exchange | None:
        """Return the exchange that a reply of this party answers."""
        if id is None:
            return None
        asker = self.parties[OTHER[sender]]
        return asker.open.get(id) or asker.cancelled.get(id)

    def concerned(self, sender: Party, name: str, body: Any) -> Exchange | None:
        """Return the exchange that a notification of this party is about, if it is about one."""
        other = self.parties[OTHER[sender]]
        if name == "notifications/progress":
            return _look_up(other.tokens, member(body, "progressToken"))
        if name == "notifications/cancelled":
            id = member(body, "requestId")
            own = _look_up(self.parties[sender].open, id)
            return own or _lasting(_look_up(other.open, id))
        return _lasting(_look_up(other.open, meta_of(body).get(META_SUBSCRIPTION)))

    def crossed(self, sender: Party, name: str, body: Any) -> Exchange | None:
        """Return the cancelled exchange that progress is about: the two may have crossed."""
        token = member(body, "progressToken") if name == "notifications/progress" else None
        if token is None or isinstance(token, bool):
            return None
        cancelled = self.parties[OTHER[sender]].cancelled
        return next((each for each in cancelled.values() if each.token == token), None)

    def capabilities(self, party: Party, exchange: Exchange | None = None) -> frozenset[str] | None:
        """Return what a party declared, in the handshake or in a request, as dotted paths."""
        if party == CLIENT and exchange is not None and not exchange.revision.handshake:
            return capability_paths(meta_of(exchange.params).get(META_CAPABILITIES))
        return self.parties[party].capabilities

    # -- one step

    def judge(self, step: Step) -> Sequence[Violation]:
        """Return the breaches of the next step; nothing changes."""
        index = self._index
        if step.revision is not self._indexed:
            index = enforced(step.revision.id, ready=not step.revision.handshake)
        found: list[Violation] | None = None
        for rule in index.found[step.sender][step.kind][step.name]:
            outcome = rule.judge(step, self)
            if outcome is not None and outcome is not True:
                found = (found or []) + breaches(rule, outcome, step.sender)
        return _NOTHING if found is None else found

    def advance(self, step: Step) -> None:
        """Take the step: exchanges open or close, the phase may change, facts are learned."""
        if step.kind == REQUEST:
            assert step.exchange is not None
            self.open(step.exchange)
        elif step.kind == NOTIFICATION:
            self._note(step)
        elif step.exchange is not None:
            self.settle(step.exchange, step.kind)
            if step.name == "server/discover" and step.kind == RESULT:
                server = self.parties[SERVER]
                server.capabilities = capability_paths(member(step.body, "capabilities"))
        if step.revision.handshake and (self.phase is not Phase.READY or step.name == "initialize"):
            phase = TRANSITIONS.get((self.phase, step.sender, step.name, step.kind))
            if phase is not None:
                self._enter(phase, step)

    def apply(self, step: Step) -> Sequence[Violation]:
        """Judge a step and take it, whatever the verdict."""
        violations = self.judge(step)
        self.advance(step)
        return violations

    def open(self, exchange: Exchange) -> None:
        """Open an exchange; of two under one id the first stays, so its caller gets the answer."""
        party = self.parties[exchange.sender]
        earlier = party.open.setdefault(exchange.id, exchange)
        if earlier is not exchange:
            earlier.duplicates += 1
            return
        if exchange.token is not None:
            party.keep_token(exchange, exchange.token)
        if party.used is not None:
            party.used.add(exchange.id)

    def admit(self, exchange: Exchange) -> bool:
        """Open a request that no rule can object to; false where the rules have to be asked."""
        party = self.parties[exchange.sender]
        if (
            exchange.name not in self._unobjectionable[exchange.sender]
            or exchange.revision is not self._indexed
            or exchange.id in party.open
        ):
            return False
        if exchange.token is not None:
            if exchange.token in party.tokens:
                return False
            party.keep_token(exchange, exchange.token)
        party.open[exchange.id] = exchange
        return True

    def dismiss(self, exchange: Exchange) -> bool:
        """Close an exchange with a result that no rule can object to; false as for `admit`."""
        party = self.parties[exchange.sender]
        if (
            exchange.name not in self._unobjectionable_results[exchange.sender]
            or exchange.revision is not self._indexed
            or party.open.get(exchange.id) is not exchange
        ):
            return False
        del party.open[exchange.id]
        if exchange.token is not None:
            self._forget_token(party, exchange)
        return True

    def settle(self, exchange: Exchange, kind: Kind) -> None:
        """Close an exchange with its reply; an error may be the answer to its duplicate."""
        if exchange.duplicates and kind == FAULT:
            exchange.duplicates -= 1
            return
        party = self.parties[exchange.sender]
        if exchange.cancelled:
            party.cancelled.pop(exchange.id, None)
        elif party.open.get(exchange.id) is exchange:
            del party.open[exchange.id]
            if exchange.duplicates:
                party.remember_cancelled(exchange)
        self._forget_token(party, exchange)

    def _note(self, step: Step) -> None:
        exchange = step.exchange
        if exchange is None:
            return
        if step.name == "notifications/progress":
            value = member(step.body, "progress")
            if isinstance(value, int | float) and not isinstance(value, bool):
                known = exchange.progress
                exchange.progress = value if known is None else max(value, known)
        elif (
            step.name == "notifications/cancelled"
            and exchange.sender == step.sender
            and exchange.name != "initialize"
        ):
            self.abandon(exchange)
            self._forget_token(self.parties[step.sender], exchange)

    def abandon(self, exchange: Exchange) -> None:
        """Stop waiting for an answer; one that comes all the same is still known."""
        party = self.parties[exchange.sender]
        exchange.cancelled = True
        party.remember_cancelled(party.open.pop(exchange.id))

    def _forget_token(self, party: PartyState, exchange: Exchange) -> None:
        if exchange.token is not None and party.tokens.get(exchange.token) is exchange:
            del party.tokens[exchange.token]

    def begins_anew(self, step: Step) -> bool:
        """Tell whether a step is a further `initialize`, whose client has ids of its own."""
        is_opening = step.kind == REQUEST and step.name == "initialize" and step.sender == CLIENT
        return is_opening and self.phase is not Phase.OPENING

    def _enter(self, phase: Phase, step: Step) -> None:
        client = self.parties[CLIENT]
        if step.kind == REQUEST:
            if client.used is not None and self.begins_anew(step):
                client.used = UsedIds()
                for id in client.open:
                    client.used.add(id)
            if phase is Phase.READY:
                self._replaced = client.capabilities, client.info
            client.capabilities = capability_paths(member(step.body, "capabilities"))
            client.info = member(step.body, "clientInfo")
        elif step.kind == RESULT:
            server = self.parties[SERVER]
            server.capabilities = capability_paths(member(step.body, "capabilities"))
            server.info = member(step.body, "serverInfo")
            named = member(step.body, "protocolVersion")
            chosen = REVISIONS.get(named) if isinstance(named, str) else None
            if chosen is not None and chosen.handshake:
                self.revision = chosen
        elif phase is Phase.READY and step.kind == FAULT:
            client.capabilities, client.info = self._replaced
        self.phase = phase
        self._settle_rules()

    def _settle_rules(self) -> None:
        """Find the rules for what is agreed on now."""
        ready = self.phase is Phase.READY
        self._indexed = self.current
        self._index = enforced(self.current.id, ready=ready, **(self._declared() if ready else {}))
        if ready and self.memory is None:
            self._unobjectionable = self._index.free_requests
            self._unobjectionable_results = self._index.free_results

    def _declared(self) -> dict[Party, frozenset[str] | None]:
        """What rules ask for; nobody can make up more than a few combinations of it."""
        return {
            party: None if state.capabilities is None else state.capabilities & _CAPABILITIES
            for party, state in self.parties.items()
        }

    @property
    def is_blank(self) -> bool:
        """Whether nothing is left of what was said: nothing is open, nothing was cancelled."""
        client, server = self.parties.values()
        is_open = client.open or client.tokens or server.open or server.tokens
        return not (is_open or client.cancelled or server.cancelled)

    def begin(self, revision: Revision, *, server: Any, client: Any = None) -> None:
        """Take the opening as done elsewhere, with these capabilities of either party."""
        self.revision = revision
        self.parties[SERVER].capabilities = capability_paths(server)
        if client is not None:
            self.parties[CLIENT].capabilities = capability_paths(client)
        self.phase = Phase.READY
        self._settle_rules()

    def close(self) -> None:
        """End the conversation; nothing may follow."""
        self.phase = Phase.CLOSED


def _look_up(exchanges: dict[RequestId, Exchange], key: Any) -> Exchange | None:
    # Only strings and integers are ids; true would find what 1 names.
    if isinstance(key, int | str) and not isinstance(key, bool):
        return exchanges.get(key)
    return None


def _lasting(exchange: Exchange | None) -> Exchange | None:
    """Only subscriptions are named by who serves them."""
    return exchange if exchange is not None and exchange.is_lasting else None


def capability_paths(capabilities: Any) -> frozenset[str]:
    """Flatten capabilities to dotted paths; an object or `true` declares, nothing else does."""
    if isinstance(capabilities, frozenset):
        return capabilities
    if isinstance(capabilities, msgspec.Struct):
        capabilities = msgspec.to_builtins(capabilities)
    found: set[str] = set()
    _collect(capabilities, "", found, 0)
    return _shared(frozenset(found))


@lru_cache(maxsize=1024)
def _shared(paths: frozenset[str]) -> frozenset[str]:
    """Let sessions with the same capabilities share one set: it is most of what a session costs."""
    return paths


def _collect(value: Any, prefix: str, found: set[str], depth: int) -> None:
    # Capabilities nest four deep at most (tasks.requests.tools.call); what lies below is settings.
    if not isinstance(value, dict) or depth > 4:
        return
    for key, inner in value.items():
        if inner is True or isinstance(inner, dict):
            path = f"{prefix}{key}"
            found.add(path)
            _collect(inner, f"{path}.", found, depth + 1)
