"""The conversation: what each party may do next, under each revision.

Everything that changes the state of a conversation is in this file. It does not know which role we
play: both parties are held to the same rules. The verbs, in the order of a message:

    step      Describe one message: its exchange and its revision. Monitors call it for every
              message, endpoints for notifications and for replies that fail. Next: `apply`.
    apply     Judge a step and take it, unless `refuse` says no. Next: another message.
    request   Judge and open a request whose exchange the caller made. Endpoints call it for each
              request, sent or received. Next, for this exchange: `reply`.
    reply     Judge and close an exchange with its result or error. Endpoints call it likewise.
    judge     Return what `apply` would find; nothing changes. For messages refused anyway.
    lose      Close an exchange whose answer will not come; no rule is asked.
    abandon   Stop waiting for an answer, but know it if it comes late.

`request` and `reply` take a short way, without a step, for messages to which no rule can object:
nearly all, once the opening is over. Callers cannot tell the difference. Phases:

    OPENING      client: initialize   -> NEGOTIATING
    NEGOTIATING  server: its result   -> NEGOTIATED, or its error -> OPENING
    NEGOTIATED   client: initialized  -> READY

A bridge may put several clients behind one connection, each with its own `initialize`. The newest
one counts: its capabilities from the request on, its revision from the answer on. A conversation
that is READY stays so, and requests in flight keep the revision they began with. Requests that name
their revision in `_meta` stand on their own; for them there are no phases.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import UNSET, UnsetType

from accord.protocol.exchange import (
    META_CAPABILITIES,
    META_SUBSCRIPTION,
    META_VERSION,
    Exchange,
    Step,
    answered_method,
    if_lasting,
    look_up,
    member,
    meta_of,
    step_of,
)
from accord.protocol.jsonrpc import FAULT, NOTIFICATION, REQUEST, RESULT, ErrorBody, Frame, Kind
from accord.protocol.party import (
    NONE_IN_USE,
    NONE_OPEN,
    Memory,
    PartyState,
    UsedIds,
    capability_paths,
    make_party,
)
from accord.protocol.revisions import BEFORE_HANDSHAKE, METHODS, Phase, Revision, find_revision
from accord.protocol.rules._rule import Index, Rule, breaches, enforced_rules
from accord.protocol.violation import CLIENT, OTHER, SERVER, Party, Violation
from accord.types._base import RequestId

if TYPE_CHECKING:
    from accord.trace import Record

Refuse: TypeAlias = Callable[[Sequence[Violation]], bool]
"""Decides by the violations of a step that it is not taken."""
Report: TypeAlias = Callable[[Rule], None]
"""Called with each rule that a step put to the test and that held."""

_NOTHING: Final[tuple[Violation, ...]] = ()
_Free: TypeAlias = dict[Party, frozenset[str]]
_NONE_FREE: Final[_Free] = {CLIENT: frozenset(), SERVER: frozenset()}
_Elsewhere: TypeAlias = tuple[Revision | None, _Free, _Free]
_NOT_ELSEWHERE: Final[_Elsewhere] = (None, _NONE_FREE, _NONE_FREE)
_CAPABILITIES: Final = frozenset(
    {each for row in METHODS for each in (row.needs, row.offers) if each}
)

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
"""The phase after a handshake message, by the phase before it."""


class Conversation:
    """The messages of two parties, judged by the revision they agreed on."""

    __slots__ = (
        "_elsewhere",
        "_free_requests",
        "_free_results",
        "_index",
        "_indexed",
        "_is_fixed",
        "_replaced",
        "client",
        "current",
        "memory",
        "phase",
        "revision",
        "server",
    )

    def __init__(self, *, revision: Revision | None = None, memory: Memory | None = None) -> None:
        self.phase = Phase.OPENING
        self._is_fixed = revision is not None
        self.assume(revision)
        self.memory = memory
        self.client = make_party(has_memory=memory is not None)
        self.server = make_party(has_memory=memory is not None)
        self._indexed = self.current
        self._index = enforced_rules(self.current.id, ready=False)
        # Filled when the opening is over, and only without a memory of every message.
        self._free_requests = self._free_results = _NONE_FREE
        # The same for the revision of messages that stand on their own.
        self._elsewhere = _NOT_ELSEWHERE
        # The capabilities before a further `initialize`, in case that is refused.
        self._replaced: frozenset[str] | None = None

    def party(self, name: Party) -> PartyState:
        """Return the state of a party."""
        return self.client if name == CLIENT else self.server

    @property
    def parties(self) -> dict[Party, PartyState]:
        """The states of both parties."""
        return {CLIENT: self.client, SERVER: self.server}

    # -- which revision a message belongs to

    def assume(self, revision: Revision | None) -> None:
        """Judge by a revision before the parties have named it; None: by the newest we speak."""
        self.revision = revision  # None until one is agreed on
        self.current = revision or BEFORE_HANDSHAKE

    def revision_for(self, named: object) -> Revision:
        """Return the revision that a request names in `_meta`; without one, the current."""
        row = None if self._is_fixed else find_revision(named)
        return self.current if row is None or row.handshake else row

    # -- finding what a message is about

    def open_exchange(self, sender: Party, id: RequestId) -> Exchange | None:
        """Return the exchange that a party opened under this id and that has no answer yet."""
        return self.party(sender).open.get(id)

    def find_answered(self, sender: Party, id: RequestId | UnsetType | None) -> Exchange | None:
        """Return the exchange that a reply of this party answers."""
        if id is None or id is UNSET:
            return None
        asker = self.party(OTHER[sender])
        return asker.open.get(id) or asker.cancelled.get(id)

    def find_subject(self, sender: Party, name: str, body: object) -> Exchange | None:
        """Return the exchange that a notification of this party is about, if it is about one."""
        other = self.party(OTHER[sender])
        if name == "notifications/progress":
            return look_up(other.tokens, member(body, "progressToken"))
        if name == "notifications/cancelled":
            id = member(body, "requestId")
            own = look_up(self.party(sender).open, id)
            return own or if_lasting(look_up(other.open, id))
        return if_lasting(look_up(other.open, meta_of(body).get(META_SUBSCRIPTION)))

    def find_crossed(self, sender: Party, name: str, body: object) -> Exchange | None:
        """Return the cancelled exchange that progress is about: the two may have crossed."""
        token = member(body, "progressToken") if name == "notifications/progress" else None
        if token is None or isinstance(token, bool):
            return None
        cancelled = self.party(OTHER[sender]).cancelled
        return next((each for each in cancelled.values() if each.token == token), None)

    def capabilities(self, party: Party, exchange: Exchange | None = None) -> frozenset[str] | None:
        """Return what a party declared, in the handshake or in a request, as dotted paths."""
        if party == CLIENT and exchange is not None and not exchange.revision.handshake:
            named = meta_of(exchange.params).get(META_CAPABILITIES)
            return exchange.peer.capabilities if exchange.peer else capability_paths(named)
        return self.party(party).capabilities

    # -- one message

    def step(
        self,
        sender: Party,
        frame: Frame,
        body: object = None,
        *,
        exchange: Exchange | None = None,
        within: Exchange | None = None,
        record: "Record | None" = None,
        in_batch: bool = False,
    ) -> Step:
        """Describe one message, sent or received; nothing changes until `apply`.

        Args:
            sender: the party that sends it.
            frame: its envelope.
            body: its params or result: a message type, or plain JSON in monitors.
            exchange: the request itself, where the caller has made it.
            within: the exchange during which a notification is sent; its revision counts.
            record: the facts of the transport, in monitors.
            in_batch: whether it is part of a batch.
        """
        kind = frame.kind
        name = "" if frame.method is UNSET else frame.method
        if kind == REQUEST:
            exchange = exchange or self._describe_request(sender, frame, name, body, record)
        elif kind == NOTIFICATION:
            exchange = self.find_subject(sender, name, body)
            if exchange is None and record is not None:
                exchange = self.find_crossed(sender, name, body)
        else:
            exchange = self.find_answered(sender, frame.id)
            name = answered_method(exchange, body)
        about = exchange or within
        return Step(
            sender,
            kind,
            name,
            self.current if about is None else about.revision,
            None if frame.id is UNSET else frame.id,
            body,
            None if frame.error is UNSET else frame.error,
            exchange,
            record,
            in_batch,
        )

    def _describe_request(
        self, sender: Party, frame: Frame, name: str, body: object, record: "Record | None"
    ) -> Exchange:
        assert frame.id is not UNSET
        assert frame.id is not None
        meta = meta_of(body)
        revision = self.revision_for(meta.get(META_VERSION))
        if name == "initialize" and self.phase is not Phase.OPENING and not self._is_fixed:
            # A further opening is judged by the revision it asks for, before it is answered.
            asked = find_revision(member(body, "protocolVersion"))
            revision = asked if asked is not None and asked.handshake else revision
        token = meta.get("progressToken")
        is_token = isinstance(token, int | str) and not isinstance(token, bool)
        method = revision.requests[sender].get(name)
        exchange = Exchange(frame.id, name, sender, revision, method, token if is_token else None)
        exchange.params = body
        if record is not None:
            exchange.since, exchange.number = record.t, record.number
        return exchange

    def apply(
        self,
        step: Step,
        refuse: Refuse | None = None,
        *,
        index: Index | None = None,
        report: Report | None = None,
    ) -> Sequence[Violation]:
        """Judge a step, and take it unless it is refused.

        Args:
            step: the step, made by `step`.
            refuse: decides by the violations, where there are any, that nothing changes.
            index: the rules to judge by, where they are not those that endpoints enforce.
            report: called with each rule that was put to the test and held.
        """
        violations = self.judge(step, index, report)
        if not violations or refuse is None or not refuse(violations):
            self._advance(step)
        return violations

    def judge(
        self, step: Step, index: Index | None = None, report: Report | None = None
    ) -> Sequence[Violation]:
        """Return the violations of the next step; nothing changes."""
        if index is None:
            index = self._index
            if step.revision is not self._indexed:
                index = enforced_rules(step.revision.id, ready=not step.revision.handshake)
        found: list[Violation] | None = None
        for rule in index.found[step.sender][step.kind][step.name]:
            outcome = rule.judge(step, self)
            if outcome is None:
                continue
            if outcome is not True:
                found = (found or []) + breaches(rule, outcome, step)
            elif report is not None:
                report(rule)
        return _NOTHING if found is None else found

    def request(
        self, exchange: Exchange, params: object = None, refuse: Refuse | None = None
    ) -> Sequence[Violation]:
        """Judge a request and open it, unless it is refused; as `apply`, without a step."""
        sender, id, token = exchange.sender, exchange.id, exchange.token
        party = self.client if sender == CLIENT else self.server
        waiting = party.open
        free = self._free_requests
        if exchange.revision is not self._indexed:
            row, free, _ = self._elsewhere
            if exchange.revision is not row:
                free = self._free_elsewhere(exchange.revision)[1]
        if (
            exchange.name in free[sender]
            and id not in waiting
            and (token is None or token not in party.tokens)
        ):
            if waiting is NONE_OPEN:
                party.open = {id: exchange}
            else:
                waiting[id] = exchange
            if token is not None:
                if party.tokens is NONE_IN_USE:
                    party.tokens = {token: exchange}
                else:
                    party.tokens[token] = exchange
            return _NOTHING
        return self.apply(step_of(sender, REQUEST, exchange, params), refuse)

    def reply(
        self,
        exchange: Exchange,
        result: object = None,
        refuse: Refuse | None = None,
        *,
        error: ErrorBody | None = None,
    ) -> Sequence[Violation]:
        """Judge the answer to a request and close it, unless that is refused; as `apply`."""
        asker, id = exchange.sender, exchange.id
        party = self.client if asker == CLIENT else self.server
        waiting = party.open
        is_open = waiting.get(id) is exchange
        free = self._free_results
        if exchange.revision is not self._indexed:
            row, _, free = self._elsewhere
            if exchange.revision is not row:
                free = self._free_elsewhere(exchange.revision)[2]
        if is_open and error is None and exchange.name in free[asker]:
            del waiting[id]
            token = exchange.token
            if token is not None and not exchange.is_task and party.tokens.get(token) is exchange:
                del party.tokens[token]
            return _NOTHING
        sender = OTHER[asker]
        if not is_open and refuse is not None:
            why = f"answers id {id!r} a second time"
            violations = [Violation("jsonrpc.request.answered", sender, why)]
            if refuse(violations):
                return violations
        kind: Kind = RESULT if error is None else FAULT
        return self.apply(step_of(sender, kind, exchange, result, error), refuse)

    def _free_elsewhere(self, revision: Revision) -> _Elsewhere:
        """Return the methods that no rule can object to, for messages that stand on their own."""
        if revision.handshake or self.memory is not None:
            return _NOT_ELSEWHERE
        index = enforced_rules(revision.id, ready=True)
        self._elsewhere = revision, index.free_requests, index.free_results
        return self._elsewhere

    def lose(self, exchange: Exchange) -> None:
        """Close a request whose answer is lost, as an error would; no rule is asked."""
        self._advance(step_of(OTHER[exchange.sender], FAULT, exchange, None))

    # -- taking a step

    def _advance(self, step: Step) -> None:
        """Open or close exchanges, change the phase, learn what the parties declare."""
        if step.kind == REQUEST:
            assert step.exchange is not None
            self._open(step.exchange)
        elif step.kind == NOTIFICATION:
            self._note(step)
        elif step.exchange is not None:
            self._settle(step.exchange, step.kind)
            if step.name == "server/discover" and step.kind == RESULT:
                server = self.server
                server.capabilities = capability_paths(member(step.body, "capabilities"))
        if step.revision.handshake and (self.phase is not Phase.READY or step.name == "initialize"):
            phase = TRANSITIONS.get((self.phase, step.sender, step.name, step.kind))
            if phase is not None:
                self._enter(phase, step)

    def _open(self, exchange: Exchange) -> None:
        """Open an exchange; of two under one id the first stays, so its caller gets the answer."""
        party = self.party(exchange.sender)
        earlier = party.keep_open(exchange)
        is_first = earlier is exchange
        earlier.duplicates += not is_first
        if exchange.token is not None and (is_first or self.memory is not None):
            party.keep_token(exchange, exchange.token)
        if is_first and party.used is not None:
            party.used.add(exchange.id)

    def _settle(self, exchange: Exchange, kind: Kind) -> None:
        """Close an exchange with its reply; an error may be the answer to its duplicate."""
        if exchange.duplicates and kind == FAULT:
            exchange.duplicates -= 1
            return
        party = self.party(exchange.sender)
        if exchange.cancelled and exchange.duplicates:
            exchange.duplicates -= 1  # either of the two may be the cancelled one
        elif exchange.cancelled:
            party.cancelled.pop(exchange.id, None)
        elif party.open.get(exchange.id) is exchange:
            del party.open[exchange.id]
            if exchange.duplicates:
                party.remember_cancelled(exchange)
        is_over = kind == FAULT or not exchange.is_task  # progress.task.same-token
        if is_over and not exchange.duplicates:
            party.forget_token(exchange)

    def _note(self, step: Step) -> None:
        exchange = step.exchange
        if exchange is None:
            return
        if step.name == "notifications/progress":
            value = member(step.body, "progress")
            if isinstance(value, int | float) and not isinstance(value, bool):
                last = exchange.progress
                exchange.progress = value if last is None else max(value, last)
            if step.record is not None and step.record.t is not None:
                self.renew(exchange, step.record.t)
        elif (
            step.name == "notifications/cancelled"
            and exchange.sender == step.sender
            and exchange.name != "initialize"
        ):
            self.abandon(exchange)
            self.party(step.sender).forget_token(exchange)

    def renew(self, exchange: Exchange, now: float) -> None:
        """Count the time without an answer from now on, by the clock of the records."""
        exchange.since = now
        waiting = self.party(exchange.sender).open
        if exchange.id in waiting:
            waiting[exchange.id] = waiting.pop(exchange.id)

    def abandon(self, exchange: Exchange) -> None:
        """Stop waiting for an answer; one that comes all the same is still known."""
        party = self.party(exchange.sender)
        exchange.cancelled = True
        party.remember_cancelled(party.open.pop(exchange.id))

    def begins_anew(self, step: Step) -> bool:
        """Return whether a step is a further `initialize`, of a client with its own ids."""
        is_opening = step.kind == REQUEST and step.name == "initialize" and step.sender == CLIENT
        return is_opening and self.phase is not Phase.OPENING

    def _enter(self, phase: Phase, step: Step) -> None:
        client = self.client
        if step.kind == REQUEST:
            if client.used is not None and self.begins_anew(step):
                client.used = UsedIds()
                for id in client.open:
                    client.used.add(id)
            if phase is Phase.READY:
                self._replaced = client.capabilities
            client.capabilities = capability_paths(member(step.body, "capabilities"))
        elif step.kind == RESULT:
            server = self.server
            server.capabilities = capability_paths(member(step.body, "capabilities"))
            chosen = find_revision(member(step.body, "protocolVersion"))
            if chosen is not None and chosen.handshake and not self._is_fixed:
                self.assume(chosen)
        elif phase is Phase.READY and step.kind == FAULT:
            client.capabilities = self._replaced
        self.phase = phase
        self._settle_rules()

    def _settle_rules(self) -> None:
        """Choose the rules for the revision and capabilities agreed on."""
        ready = self.phase is Phase.READY
        self._indexed = self.current
        # What rules ask for: a peer cannot make up more than a few combinations of it.
        declared = {
            party: None if state.capabilities is None else state.capabilities & _CAPABILITIES
            for party, state in self.parties.items()
            if ready
        }
        self._index = enforced_rules(self.current.id, ready=ready, **declared)
        if ready and self.memory is None:
            self._free_requests = self._index.free_requests
            self._free_results = self._index.free_results

    @property
    def is_blank(self) -> bool:
        """Whether no request is open or was cancelled, so that another client may use it."""
        client, server = self.client, self.server
        is_open = client.open or client.tokens or server.open or server.tokens
        return not (is_open or client.cancelled or server.cancelled)

    def begin(
        self, revision: Revision, *, server: object, client: object = None, ready: bool = True
    ) -> None:
        """Start after an opening that happened elsewhere, with these capabilities."""
        self.assume(revision)
        self.server.capabilities = capability_paths(server)
        self.client.capabilities = None if client is None else capability_paths(client)
        self.phase = Phase.READY if ready else Phase.NEGOTIATED  # until it is confirmed
        self._settle_rules()

    def close(self) -> None:
        """End the conversation; nothing may follow."""
        self.phase = Phase.CLOSED
