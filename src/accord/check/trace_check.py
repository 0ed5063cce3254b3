"""Recorded traffic, judged: feeds the records to monitors and reports what they saw."""

from collections.abc import Callable, Collection, Iterable
from typing import Final

import msgspec

from accord.check.report import Report, Setting, ViolationGroups, build_report
from accord.check.verdicts import is_chosen, sum_tallies
from accord.errors import TraceError
from accord.protocol.catalogue import requirements
from accord.protocol.monitor import JUDGED_HERE, Monitor
from accord.protocol.rules import complete
from accord.protocol.violation import Violation
from accord.trace import Record
from accord.types import RevisionId

_SESSION: Final = "mcp-session-id"
_LOST: Final = 404


def replay(
    records: Iterable[Record],
    *,
    target: str,
    revision: RevisionId | None = None,
    only: Collection[str] = (),
    seen: Callable[[int], None] | None = None,
    setting: Setting | None = None,
) -> Report:
    """Judge a recording; at no time is more than one record kept.

    A client that lost its session and began anew has several conversations in one recording.

    Args:
        records: what was observed, in order.
        target: what the report calls it.
        revision: the revision to judge by; without it the one that the parties agreed on.
        only: ids of requirements to report on, or their beginnings; empty reports on all.
        seen: told the number of records after each one.
        setting: what the report says of the check; the transport is filled in.

    Raises:
        TraceError: there is no message in it.
    """
    conversations = _Conversations(revision)
    findings = ViolationGroups()
    messages = 0
    transports: set[str] = set()

    def note(violations: Iterable[Violation]) -> None:
        for violation in violations:
            if is_chosen(violation.requirement, only):
                findings.add(violation)

    for count, record in enumerate(records, 1):
        messages += record.message is not None or record.raw is not None
        transports.add(record.transport)
        note(conversations.of(record).observe(record))
        if seen is not None:
            seen(count)
    if not messages:
        raise TraceError("no message in this recording")
    note(conversations.close())
    monitor = conversations.current
    judged_by = monitor.conversation.current.id
    return build_report(
        [each for each in monitor.verdicts() if is_chosen(each.id, only)],
        target=target,
        revision=monitor.revision,
        judged_by=judged_by,
        decidable=decidable(judged_by),
        violations=findings.ordered(),
        setting=msgspec.structs.replace(
            setting or Setting(), transport=" and ".join(sorted(transports))
        ),
    )


class _Head(msgspec.Struct):
    method: str | None = None


class _Conversations:
    """The conversations of one recording, one monitor for each; mostly there is one.

    Attributes:
        current: the monitor of the conversation that began last.
    """

    def __init__(self, revision: RevisionId | None) -> None:
        self._revision = revision
        self.current = Monitor(revision=revision)
        self._all = [self.current]
        self._by_session: dict[str, Monitor] = {}
        self._is_open = False
        self._is_lost = False

    def of(self, record: Record) -> Monitor:
        """Return the monitor of the conversation that a record belongs to."""
        method = _opening_method(record)
        http = record.http
        session = None if http is None else http.header(_SESSION)
        if method == "initialize" and self._is_open and self._is_anew(record, session):
            self.current = Monitor(revision=self._revision)
            self._all.append(self.current)
            self._is_open = self._is_lost = False
        elif method == "notifications/initialized":
            self._is_open = True
        if record.sender == "server" and http is not None:
            self._is_lost |= http.status == _LOST
        if session is None:
            return self.current
        return self._by_session.setdefault(session, self.current)

    def _is_anew(self, record: Record, session: str | None) -> bool:
        """Tell whether an initialize begins another conversation, and is no second one in this."""
        has_headers = record.http is not None and bool(record.http.headers)
        return record.transport == "http" and session is None and (has_headers or self._is_lost)

    def close(self) -> list[Violation]:
        """End all conversations; what was counted in them stands in the last one then."""
        late = [violation for each in self._all for violation in each.close()]
        if len(self._all) > 1:
            ids = dict.fromkeys(id for each in self._all for id in each.tallies)
            total = {id: sum_tallies(each.tallies.get(id) for each in self._all) for id in ids}
            self.current.tallies.update(total)
        return late


def _opening_method(record: Record) -> str | None:
    """Return the method of a message of the client, where it may open a conversation."""
    if record.sender != "client" or record.message is None:
        return None
    if b"initialize" not in bytes(record.message):
        return None
    try:
        return msgspec.json.decode(record.message, type=_Head).method
    except (ValueError, RecursionError):
        return None


def decidable(revision: RevisionId) -> set[str]:
    """What recorded traffic can show: all matters of the wire, and what else has a rule."""
    on_the_wire = {row.id for row in requirements(revision=revision, check="wire")}
    return on_the_wire | JUDGED_HERE | {rule.requirement for rule in complete(revision).rules}
