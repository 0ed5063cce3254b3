"""The report of a session, as `accord check trace` makes it of its trace. Secrets are masked."""

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from accord.errors import TraceError
from accord.testing.recording import create_next
from accord_tools.check.rendering.html import as_html
from accord_tools.check.trace_check import replay
from accord_tools.inspector.log.message_log import MAIN, InspectedLog, trace_records
from accord_tools.inspector.session import InspectedSession


def session_as_report(session: InspectedSession) -> bytes:
    """Return the report as a page. It takes a while: call it in a thread.

    Raises:
        TraceError: the log has no message of the newest connection.
    """
    log = session.part(InspectedLog)
    main = log.main
    # The report names the lines of the trace.
    records = (
        replace(record, number=number)
        for number, record in enumerate(trace_records(log, MAIN if main is None else main.name), 1)
    )
    report = replay(records, target=session.target.title)
    return as_html(report).encode(errors="replace")


def write_reports(sessions: Iterable[InspectedSession], path: Path) -> list[Path]:
    """Write a report for each session that has messages; returns the files.

    Args:
        sessions: what was inspected.
        path: of the first file, others are `name-2` and so on; one that exists is left alone.

    Raises:
        OSError: a file cannot be created or written.
    """
    written = []
    for session in sessions:
        try:
            page = session_as_report(session)
        except TraceError:
            continue  # nothing was said
        chosen, file = create_next(path)
        with file:
            file.write(page)
        written.append(chosen)
    return written
