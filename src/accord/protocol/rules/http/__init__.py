"""Judges what recordings show of HTTP: requests, statuses, headers, sessions, streams, tokens.

Monitors alone run these rules; endpoints have their own decisions about HTTP. The judge is pure:
it sees records in order, and says which requirement each breaks.
"""

from collections.abc import Callable, Iterator

import accord.protocol.rules.http.authorization
import accord.protocol.rules.http.requests
import accord.protocol.rules.http.responses
import accord.protocol.rules.http.streams  # noqa: F401  # these register their rules
from accord.protocol.jsonrpc import Batch, Frame, MalformedMessage
from accord.protocol.party import Memory
from accord.protocol.revisions import Revision
from accord.protocol.rules._rule import Breach
from accord.protocol.rules.http._rule import (
    HTTP_RULES,
    NEEDED_BY_MESSAGES,
    HttpRule,
    When,
    facts_in,
    http_rules,
    needed_facts,
)
from accord.protocol.rules.http.exchanges import (
    LAST_EVENT,
    STATE,
    HttpState,
    Moment,
    Posted,
    RecordedExchange,
    read_posted,
)
from accord.protocol.rules.http.requests import find_fault
from accord.protocol.violation import Violation
from accord.trace import HttpFacts, Record
from accord.types._base import RequestId

__all__ = ["HTTP_RULES", "NEEDED_BY_MESSAGES", "HttpFactsJudge", "HttpRule", "needed_facts"]


class HttpFactsJudge:
    """Judges the HTTP facts of the records of one conversation.

    Args:
        memory: what the monitor remembers; the state is kept there too.
        held: called with each rule that held.

    Attributes:
        known: the kinds of facts that the recording has.
    """

    def __init__(self, memory: Memory, held: Callable[[HttpRule], None]) -> None:
        self.known: set[str] = set()
        self._memory = memory
        self._held = held
        self._state: HttpState | None = None

    def observe(
        self,
        record: Record,
        facts: HttpFacts,
        decoded: Frame | Batch | MalformedMessage | None,
        revision: Revision,
    ) -> list[Violation]:
        """Judge the facts of one record."""
        state = self._state
        if state is None:
            state = self._state = HttpState(revision, self._memory)
            self._memory.facts[STATE] = state
        state.revision = revision
        self.known |= facts_in(record, facts)
        posted = read_posted(record, decoded)
        if record.sender == "client":
            return list(self._request(state, record, facts, posted))
        return list(self._response(state, record, facts, posted))

    def requests_of(self, facts: HttpFacts) -> list[RequestId]:
        """Return the ids of the requests that a response belongs to."""
        known = self._state and self._state.exchanges.get(facts.exchange or "")
        return list(known.posted.requests) if known else []

    def name_lacking(self, requirement: str) -> str:
        """Name the facts that a requirement needs and the recording lacks; empty if none."""
        needed = needed_facts(requirement)
        if needed is None:
            return ""
        return " and ".join(sorted(needed - self.known)) if self.known else "what HTTP said"

    def _request(
        self, state: HttpState, record: Record, facts: HttpFacts, posted: Posted
    ) -> Iterator[Violation]:
        key = facts.exchange or facts.stream
        exchange = RecordedExchange(
            key=key,
            form=record.transport,
            method=(facts.method or "").upper(),
            request=facts,
            posted=posted,
            number=record.number,
            stream=facts.stream or key,
        )
        if exchange.method == "POST":
            exchange.is_resumed = False
        elif facts.knows(LAST_EVENT):
            exchange.is_resumed = facts.header(LAST_EVENT) is not None
            exchange.resumed = facts.header(LAST_EVENT)
        moment = Moment(exchange, facts, record)
        if not state.revision.handshake:
            exchange.fault = find_fault(exchange, state)
        yield from self._judge("request", moment, state)
        state.add_request(moment)
        posted.forget_bodies()

    def _response(
        self, state: HttpState, record: Record, facts: HttpFacts, posted: Posted
    ) -> Iterator[Violation]:
        exchange = state.find(record, facts)
        exchange.form = record.transport  # only the first event tells the older form
        moment = Moment(exchange, facts, record, is_malformed=posted.is_malformed)
        if exchange.response is None and facts.status is not None:
            yield from self._judge("head", moment, state)
            state.add_head(moment)
            yield from self._settle(state, exchange)
        if facts.event is not None:
            yield from self._judge("event", moment, state)
            state.add_event(moment)
        elif facts.retry is not None:
            exchange.retry = facts.retry
        for frame in posted.frames:
            each = Moment(exchange, facts, record, frame)
            yield from self._judge("message", each, state)
            state.add_message(each)
        if posted.is_malformed:
            # What cannot be read may have been the answer.
            exchange.open.clear()
        if facts.ended is not None:
            exchange.ended, exchange.ended_at = facts.ended, record.t
            yield from self._judge("end", moment, state)

    def _settle(self, state: HttpState, exchange: RecordedExchange) -> Iterator[Violation]:
        """Report what counts only if the server goes on serving."""
        if exchange.is_ok and exchange.method == "POST" and state.suspects:
            suspects, state.suspects = state.suspects, []
            for requirement, why in suspects:
                yield Violation(requirement, "server", why)

    def _judge(self, when: When, moment: Moment, state: HttpState) -> Iterator[Violation]:
        for each in http_rules(state.revision.id, moment.exchange.form, when):
            outcome = each.judge(moment, state)
            if outcome is None:
                continue
            if outcome is True:
                self._held(each)
                continue
            for item in [outcome] if isinstance(outcome, str | Breach) else outcome:
                breach = Breach(item) if isinstance(item, str) else item
                yield Violation(each.requirement, each.party, breach.why, severity=breach.severity)
