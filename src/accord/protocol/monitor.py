"""The monitor: watches both parties and reports every breach, by requirement.

It sees records, never sends, and has no clock but the times in the records. Until the revision is
known it holds the opening back, so that `initialize` is judged by the revision it led to.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec

from accord.protocol.catalogue import Requirement, catalogue
from accord.protocol.codec import Codec, Limits, parse
from accord.protocol.conversation import Conversation
from accord.protocol.exchange import META_VERSION, Exchange, Step, meta_of
from accord.protocol.jsonrpc import (
    FAULT,
    METHOD_NOT_FOUND,
    NOTIFICATION,
    REQUEST,
    VERSION_2_0,
    Batch,
    Frame,
    Kind,
    MalformedMessage,
)
from accord.protocol.party import Bounded, Memory
from accord.protocol.revisions import REQUESTS, REVISIONS, Revision, find_revision
from accord.protocol.rules import Index, Rule, complete
from accord.protocol.rules.body import learn
from accord.protocol.rules.http import HTTP_RULES, HttpFactsJudge, HttpRule
from accord.protocol.rules.places import MALFORMED_MEMBERS
from accord.protocol.verdict import (
    Tally,
    Verdict,
    VerdictName,
    evidence_of,
    excerpt_of,
    is_opening,
    most_specific,
    out_of_scope,
    plain_messages,
    text_of,
    without_opening,
)
from accord.protocol.violation import CLIENT, FAIL, OTHER, SERVER, Party, Violation
from accord.trace import LINE_LIMIT, HttpFacts, Record
from accord.types._base import RequestId, RevisionId

# Requests after a notification that may be answered in its place.
_NEXT_REQUESTS: Final = 8
# An opening is three messages; more of them without a revision are judged by the default one.
_HELD_BACK: Final = 64
# Malformed requests whose errors are awaited.
_HALF_READ: Final = 10_000
_NO_RULES: Final = Index(())
_OVER_HTTP: Final = frozenset({"http", "sse"})

Passed: TypeAlias = Callable[[Record, tuple[str, ...]], object]
"""Called with a judged record and the requirements of the rules that held; some may repeat."""


class Monitor:
    """Judges a conversation from the outside.

    Args:
        revision: judge by this one; otherwise it is found in the handshake or in `_meta`.
        patience: seconds from request to reply, by the times of the records, after which an answer
            counts as missing.
        kept: how many breaches of one requirement are kept with their evidence; all are counted.
        judged: the one party to judge; both by default.
        passed: called after each record that rules were applied to, with those that held.
    """

    def __init__(
        self,
        *,
        revision: RevisionId | None = None,
        patience: float = 300.0,
        kept: int = 5,
        judged: Party | None = None,
        passed: Passed | None = None,
    ) -> None:
        self._given = None if revision is None else REVISIONS[revision]
        self._codec = Codec(Limits(message_bytes=LINE_LIMIT, message_values=LINE_LIMIT))
        self._rows = catalogue()
        self._held: list[Record] | None = None if self._given else []
        self._asked_for: Revision | None = None
        self._opening: object = None
        self._patience = max(0.0, patience)
        self._kept = kept
        self._is_judged: dict[Party, bool] = {
            party: judged in (None, party) for party in (CLIENT, SERVER)
        }
        self._unreadable: dict[Party, int] = {"client": 0, "server": 0}
        self._half_read: Bounded[tuple[Party, RequestId], None] = Bounded(_HALF_READ)
        self._last = _LastMessages()
        self._transports: set[str] = set()
        self.tallies: dict[str, Tally] = {}
        self.messages = 0
        self._memory = Memory()
        self._passed = passed
        self._passing: list[str] = []
        # Without a listener the count stays as cheap as it can be.
        self._on_held = self._count if passed is None else self._count_and_note
        self._http = HttpFactsJudge(self._memory, self._count_if_judged)
        self.conversation = Conversation(revision=self._given, memory=self._memory)

    @property
    def revision(self) -> RevisionId | None:
        """The revision of the conversation, None until it is named."""
        row = self._given or self.conversation.revision
        return None if row is None else row.id

    # -- taking in

    def observe(self, record: Record) -> list[Violation]:
        """Judge the next record; the violations may be those of records held back before."""
        if self._held is None and self._opens_anew(record):
            self._held = []
        # Text that is not a message need not wait for the revision, but HTTP must.
        if self._held is None or (record.message is None and record.http is None):
            return self._observe(record)
        self._held.append(record)
        found = self._names_revision(record)
        if found is None and len(self._held) < _HELD_BACK:
            return []
        return self._release(found)

    def _opens_anew(self, record: Record) -> bool:
        """Return whether a client that spoke without handshake falls back to one."""
        return (
            self._given is None
            and not self.conversation.current.handshake
            and record.sender == "client"
            and record.message is not None
            and b"initialize" in bytes(record.message)
            and any(map(is_opening, plain_messages(record)))
        )

    def close(self) -> list[Violation]:
        """End the recording; an unanswered request is not a breach then."""
        return [] if self._held is None else self._release(None)

    def miss(self, party: Party) -> None:
        """Note that messages of a party were lost: from now on any id may be one that it used."""
        self.conversation.party(party).used = None

    def _release(self, revision: Revision | None) -> list[Violation]:
        held, self._held = self._held or [], None
        self.conversation.assume(revision or self._asked_for or self.conversation.revision)
        violations: list[Violation] = []
        is_stateless = revision is not None and not revision.handshake
        for record in without_opening(held) if is_stateless else held:
            violations += self._observe(record)
        return violations

    def _names_revision(self, record: Record) -> Revision | None:
        for message in plain_messages(record):
            params, result = message.get("params"), message.get("result")
            meta = meta_of(params)
            if META_VERSION in meta:
                named = find_revision(meta[META_VERSION])
                if named is not None and not named.handshake and self._opening is None:
                    return named
            elif message.get("method") == "initialize" and isinstance(params, dict):
                self._asked_for = find_revision(params.get("protocolVersion"))
                self._opening = message.get("id")
            elif record.sender == "server" and isinstance(result, dict):
                chosen = find_revision(result.get("protocolVersion"))
                if chosen is not None and chosen.handshake:
                    return chosen
            elif "error" in message and message.get("id") == self._opening:
                self._opening = None
        return None

    # -- judging

    def _observe(self, record: Record) -> list[Violation]:
        violations = self._judge(record)
        if record.http is not None and record.http.is_refusal:
            self._settle_refused(record.http)
        if self._passing and self._passed is not None:
            self._passed(record, tuple(self._passing))
            self._passing.clear()
        return violations

    def _settle_refused(self, facts: HttpFacts) -> None:
        """An HTTP refusal answers the requests of its POST; after 401 they may be sent again."""
        client = self.conversation.client
        for id in self._http.requests_of(facts):
            exchange = client.open.get(id)
            if exchange is not None:
                self.conversation.abandon(exchange)
            if facts.status == _UNAUTHORIZED and client.used is not None:
                client.used.give_back(id)

    def _judge(self, record: Record) -> list[Violation]:
        self._transports.add(record.transport)
        text = text_of(record)
        if text is None:
            return [] if record.http is None else self._judge_http(record, None)
        self.messages += 1
        violations = self._overdue(record)
        try:
            decoded = self._codec.decode(text)
        except MalformedMessage as malformed:
            violations += self._judge_http(record, malformed)
            if record.http is not None and record.http.is_refusal:
                # The body of an error status need not be a message.
                return violations
            return violations + self._judge_malformed(record, malformed)
        if record.http is not None:
            violations += self._judge_http(record, decoded)
        if isinstance(decoded, Frame):
            return violations + self._step(record, decoded)
        return violations + self._batch(record, decoded)

    def _judge_http(
        self, record: Record, decoded: Frame | Batch | MalformedMessage | None
    ) -> list[Violation]:
        facts = record.http
        if facts is None or record.transport == "stdio":
            return []
        found = self._http.observe(record, facts, decoded, self.conversation.current)
        return self._report(record, most_specific(found)) if found else []

    def _batch(self, record: Record, batch: Batch) -> list[Violation]:
        violations: list[Violation] = []
        opens = any(isinstance(e, Frame) and e.method == "initialize" for e, _ in batch.parts)
        is_known = self.conversation.current.batching
        is_whole = is_known and not opens
        self._unreadable[record.sender] += not is_whole  # the refusal has no id
        # Also before 2025-03-26, which knew no batches either. An HTTP refusal may have any body.
        if not is_known and not (record.http and record.http.is_refusal):
            breach = Violation("jsonrpc.batch.removed", record.sender, "sends a batch")
            violations += self._report(record, [breach])
        for index, (part, _) in enumerate(batch.parts):
            if isinstance(part, MalformedMessage):
                violations += self._judge_malformed(record, part, index)
            else:
                violations += self._step(record, part, index)
                if not is_whole:
                    self._expect_no_answer(record.sender, part)
        return violations

    def _expect_no_answer(self, sender: Party, frame: Frame) -> None:
        """A batch may be refused as a whole; then its requests have no answers of their own."""
        exchange = self.conversation.party(sender).open.get(frame.id)  # type: ignore[arg-type]  # no id: no request
        if frame.kind == REQUEST and exchange is not None:
            self.conversation.abandon(exchange)

    def _judge_malformed(
        self, record: Record, malformed: MalformedMessage, index: int | None = None
    ) -> list[Violation]:
        self._unreadable[record.sender] += 1
        if malformed.id is not None:
            self._half_read[record.sender, malformed.id] = None
        requirement = malformed.requirement
        if requirement == _ID_ECHO and self._answers_notification(record.sender):
            requirement = _NOT_ANSWERED
        if record.raw is not None and record.transport == "stdio":
            requirement = f"stdio.{_STDIO_TEXT[record.sender]}-only-messages"
        why = f"sends a malformed message: {malformed}"
        place = MALFORMED_MEMBERS.get(malformed.requirement)
        violation = Violation(self._in_force(requirement), record.sender, why, place=place)
        return self._report(record, [violation], index)

    def _answers_notification(self, sender: Party) -> bool:
        """Return whether a result without a valid id can only answer a notification."""
        asker = OTHER[sender]
        return self._last.is_notification(asker) and not self.conversation.party(asker).open

    def _in_force(self, requirement: str) -> str:
        """The requirement itself where it holds in this revision, else the one that took its place,
        else the one on all messages.
        """
        row = self._rows[requirement]
        for id in (requirement, *row.replaced_by):
            if self._rows[id].holds_in(self.conversation.current.id):
                return id
        return VERSION_2_0

    def _step(self, record: Record, frame: Frame, index: int | None = None) -> list[Violation]:
        """Judge one message; `index` is its place in a batch."""
        other = OTHER[record.sender]
        if frame.kind == FAULT and (other, frame.id) in self._half_read:
            del self._half_read[other, frame.id]  # type: ignore[arg-type]  # one of its keys
            self._unreadable[other] -= 1
            return []
        body, is_readable = _read(frame)
        step = self.conversation.step(
            record.sender, frame, body, record=record, in_batch=index is not None
        )
        if is_readable:
            rules = complete(step.revision.id)
            report = self._on_held if self._is_judged[record.sender] else None
            found = [*self.conversation.apply(step, index=rules, report=report)]
            found += self._stray_error(step)
        else:
            self.conversation.apply(step, index=_NO_RULES)
            self._unreadable[record.sender] += 1
            why = "sends a number too large to be read"
            found = [Violation(VERSION_2_0, record.sender, why)]
        if step.kind == REQUEST and self._is_duplicate(step):
            # A refusal may leave out the id, which stands for another request.
            self._unreadable[record.sender] += 1
        learn(step, self.conversation, self._memory)
        self._last.note(step)
        return self._report(record, most_specific(found), index) if found else []

    def _is_duplicate(self, step: Step) -> bool:
        """Return whether a request has the id of one that is in flight."""
        return self.conversation.party(step.sender).open.get(step.id) is not step.exchange  # type: ignore[arg-type]  # a request has an id

    def _stray_error(self, step: Step) -> list[Violation]:
        """An error without id must answer something that could not be read."""
        http = step.record and step.record.http
        if step.kind != FAULT or step.id is not None or (http and http.is_refusal):
            return []
        other = OTHER[step.sender]
        if self._unreadable[other]:
            self._unreadable[other] -= 1
            return []
        if self._last.is_batch(other):
            # The whole batch is refused; its requests stay unanswered.
            return []
        waiting = self.conversation.party(other).open.values()
        answers_notification = self._last.is_notification_answered(step, waiting)
        requirement = self._in_force(_NOT_ANSWERED if answers_notification else _ID_ECHO)
        what = "a notification" if answers_notification else "a readable message"
        why = f"answers {what} with an error without id"
        return [Violation(requirement, step.sender, why, place="/error")]

    def _overdue(self, record: Record) -> list[Violation]:
        """Answers that are missing after all patience, by the times of the records."""
        found: list[Violation] = []
        if record.t is None:
            return found
        for asker, state in self.conversation.parties.items():
            # The first is always the one that has waited longest.
            while (exchange := next(iter(state.open.values()), None)) is not None:
                since = exchange.since
                if since is not None and not record.t - since > self._patience:
                    break
                if since is None or exchange.is_lasting:
                    self.conversation.renew(exchange, record.t)
                    continue
                self.conversation.abandon(exchange)
                requirement = self._in_force(
                    "jsonrpc.response.client-sends"
                    if asker == "server"
                    else "jsonrpc.request.answered"
                )
                why = (
                    f"leaves {exchange.name} (id {exchange.id!r}) unanswered "
                    f"for {self._patience:g} s"
                )
                found.append(Violation(requirement, OTHER[asker], why))
        return self._report(record, found)

    # -- keeping count

    def _tally(self, requirement: str) -> Tally:
        tally = self.tallies.get(requirement)
        if tally is None:
            tally = self.tallies[requirement] = Tally(kept=[])
        return tally

    def _count(self, rule: Rule) -> None:
        """Count a rule that held; breaches are counted when they are reported."""
        tally = self.tallies.get(rule.requirement) or self._tally(rule.requirement)
        tally.exercised += 1

    def _count_and_note(self, rule: Rule) -> None:
        self._count(rule)
        self._passing.append(rule.requirement)

    def _count_if_judged(self, rule: HttpRule) -> None:
        if self._is_judged[rule.party]:
            self._tally(rule.requirement).exercised += 1
            if self._passed is not None:
                self._passing.append(rule.requirement)

    def _report(
        self, record: Record, violations: list[Violation], index: int | None = None
    ) -> list[Violation]:
        reported = []
        revision = self.conversation.current.id
        for violation in violations:
            if not self._is_judged[violation.party]:
                continue
            row = self._rows[violation.requirement]
            severity = violation.severity or row.severity_in(revision)
            tally = self._tally(violation.requirement)
            tally.exercised = max(tally.exercised, 1)
            if severity is None:
                tally.hint = tally.hint or violation.why
                continue
            place = violation.place
            if place is not None and index is not None:
                place = f"/{index}{place}"
            # A place in a large message takes time to find; the first ones are enough.
            is_kept = len(tally.kept) < self._kept
            shown = excerpt_of(record, place if is_kept else None)
            if is_kept and shown.mark is None:
                # Such as a member that a malformed message lacks.
                place = None
            complete_violation = msgspec.structs.replace(
                violation,
                severity=severity,
                number=record.number or None,
                evidence=shown.text,
                place=place,
                mark=shown.mark,
            )
            tally.breaches += 1
            tally.worst = FAIL if FAIL in (tally.worst, severity) else severity
            if is_kept:
                tally.kept.append(complete_violation)
            reported.append(complete_violation)
        return reported

    def verdicts(self) -> list[Verdict]:
        """Return a verdict for each requirement of the revision, and for any other broken one."""
        revision = self.conversation.current.id
        ruled = {rule.requirement for rule in complete(revision).rules} | JUDGED_HERE
        ruled |= {rule.requirement for rule in HTTP_RULES}
        return [
            self._verdict(row, revision, is_ruled=row.id in ruled)
            for row in self._rows.values()
            if row.holds_in(revision) or row.id in self.tallies
        ]

    def _verdict(self, row: Requirement, revision: RevisionId, *, is_ruled: bool) -> Verdict:
        tally = self.tallies.get(row.id, Tally())
        name: VerdictName
        if tally.worst is not None:
            name, message = tally.worst, f"broken {tally.breaches} times"
            if tally.kept:
                more = f" (and {tally.breaches - 1} more)" if tally.breaches > 1 else ""
                message = tally.kept[0].why + more
        elif tally.exercised:
            name, message = "pass", tally.held_text
        else:
            name, message = self._explain_unexercised(row, is_ruled=is_ruled)
        return Verdict(
            id=row.id,
            level=row.level_in(revision),
            party=row.party,
            revisions=tuple(id for id in REVISIONS if row.holds_in(REVISIONS[id].id)),
            verdict=name,
            message=message,
            evidence=[evidence_of(kept) for kept in tally.kept],
        )

    def _explain_unexercised(self, row: Requirement, *, is_ruled: bool) -> tuple[VerdictName, str]:
        reason = out_of_scope(row, self.conversation, self._transports)
        if reason is not None:
            return "not-applicable", reason
        lacking = self._http.name_lacking(row.id) if self._transports & _OVER_HTTP else ""
        if lacking:
            return "not-recorded", f"the recording does not show {lacking}"
        if is_ruled:
            return "not-exercised", "no message put this to the test"
        if row.check == "human":
            return "not-exercised", "no recording can show this; it takes a person"
        return "not-exercised", f"no recording can show this; it takes a check of kind {row.check}"


_UNAUTHORIZED: Final = 401
_ID_ECHO: Final = "jsonrpc.response.id-echo"
_NOT_ANSWERED: Final = "jsonrpc.notification.not-answered"
_STDIO_TEXT: Final[dict[Party, str]] = {"server": "server.stdout", "client": "client.stdin"}

JUDGED_HERE: Final = frozenset(
    {
        VERSION_2_0,
        "jsonrpc.batch.removed",
        _NOT_ANSWERED,
        "jsonrpc.response.client-sends",
    }
)
"""Requirements that are judged before or after there is a step, not by a rule."""


class _LastMessages:
    """What an error without id may answer.

    It is the kind of each party's last message, its last notification, and the next few requests.
    An answer to one of those shows that the notification was passed over in silence.
    """

    def __init__(self) -> None:
        self._kinds: dict[Party, Kind | None] = {CLIENT: None, SERVER: None}
        self._in_batch: dict[Party, bool] = {CLIENT: False, SERVER: False}
        self._notified: dict[Party, tuple[str, set[RequestId]] | None] = {
            CLIENT: None,
            SERVER: None,
        }

    def note(self, step: Step) -> None:
        """Note a message."""
        sender, kind = step.sender, step.kind
        self._kinds[sender], self._in_batch[sender] = kind, step.in_batch
        if kind == NOTIFICATION:
            self._notified[sender] = step.name, set()
        elif kind == REQUEST:
            notified = self._notified[sender]
            if notified is not None and step.id is not None and len(notified[1]) < _NEXT_REQUESTS:
                notified[1].add(step.id)
        else:
            notified = self._notified[OTHER[sender]]
            if notified is not None and step.id in notified[1]:
                self._notified[OTHER[sender]] = None

    def is_batch(self, party: Party) -> bool:
        """Return whether the last message of a party was part of a batch."""
        return self._in_batch[party]

    def is_notification(self, party: Party) -> bool:
        """Return whether the last message of a party was a notification."""
        return self._kinds[party] == NOTIFICATION

    def is_notification_answered(self, error: Step, waiting: Iterable[Exchange]) -> bool:
        """Return whether an error without id seems to answer a notification.

        Args:
            error: the message.
            waiting: the requests that it may answer just as well.
        """
        asker = OTHER[error.sender]
        if self.is_notification(asker):
            return True
        notified = self._notified[asker]
        if notified is None or error.error is None:
            return False
        if notified[0] in str(error.error.message):
            return True
        # A method that exists is not "not found".
        is_known = all(each.name in REQUESTS for each in waiting)
        return error.error.code == METHOD_NOT_FOUND and is_known


def _read(frame: Frame) -> tuple[Any, bool]:
    """Read the body of a frame, and say whether all of it could be read."""
    if frame.body is None:
        return None, True
    try:
        return msgspec.json.decode(frame.body), True
    except msgspec.DecodeError:
        return parse(bytes(frame.body)), False
