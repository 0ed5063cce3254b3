"""Recorded traffic, judged: feeds the records to a monitor and reports what it saw."""

from collections.abc import Callable, Iterable

from accord.check.report import Findings, Report, Setting, build
from accord.errors import TraceError
from accord.protocol.catalogue import requirements
from accord.protocol.monitor import JUDGED_HERE, Monitor
from accord.protocol.rules import complete
from accord.trace import Record
from accord.types import RevisionId

__all__ = ["decidable", "replay"]


def replay(
    records: Iterable[Record],
    *,
    target: str,
    revision: RevisionId | None = None,
    seen: Callable[[int], None] | None = None,
) -> Report:
    """Judge a recording; at no time is more than one record kept.

    Args:
        records: what was observed, in order.
        target: what the report calls it.
        revision: the revision to judge by; without it the one that the parties agreed on.
        seen: told the number of records after each one.

    Raises:
        TraceError: there is no message in it.
    """
    monitor = Monitor(revision=revision)
    findings = Findings()
    messages = 0
    transports: set[str] = set()
    for count, record in enumerate(records, 1):
        messages += record.message is not None or record.raw is not None
        transports.add(record.transport)
        for violation in monitor.observe(record):
            findings.add(violation)
        if seen is not None:
            seen(count)
    if not messages:
        raise TraceError("no message in this recording")
    for violation in monitor.close():
        findings.add(violation)
    judged_by = monitor.conversation.current.id
    return build(
        monitor.verdicts(),
        target=target,
        revision=monitor.revision,
        judged_by=judged_by,
        decidable=decidable(judged_by),
        findings=findings.sorted(),
        setting=Setting(transport=" and ".join(sorted(transports))),
    )


def decidable(revision: RevisionId) -> set[str]:
    """What recorded traffic can show: all matters of the wire, and what else has a rule."""
    on_the_wire = {row.id for row in requirements(revision=revision, check="wire")}
    return on_the_wire | JUDGED_HERE | {rule.requirement for rule in complete(revision).rules}
