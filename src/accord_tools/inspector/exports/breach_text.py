"""The broken clauses of a session as text to paste into an issue."""

from collections.abc import Iterator
from typing import Final

from accord.protocol.catalogue import catalogue
from accord.protocol.revisions import REVISIONS
from accord.types import RevisionId
from accord_tools.check.rendering.text import code_span, escape_markdown
from accord_tools.check.rendering.wording import page_of
from accord_tools.check.report import anchor
from accord_tools.inspector.exports.session_files import rows_of
from accord_tools.inspector.log.message_log import BrokenClause, InspectedLog

CLAUSES_MOST: Final = 100
"""The most clauses in one text."""
_EVIDENCE: Final = 600


def breaches_as_text(
    log: InspectedLog, title: str, revision: RevisionId, command: tuple[str, str] | None
) -> str:
    """Return the broken clauses, each with a message that breaks it, in Markdown.

    Args:
        log: of the session.
        title: of the server.
        revision: that is spoken.
        command: the command line that checks the server again, up to its options, and what follows
            them; None if the server cannot be reached again.
    """
    order = sorted(_find_broken(log), key=lambda each: (each.severity != "fail", each.first))
    lines = [f"# {escape_markdown(title)}: broken clauses of the Model Context Protocol", ""]
    lines.append(f"Revision {revision}. {_count(order)}")
    for clause in order[:CLAUSES_MOST]:
        lines += ["", *_describe(log, clause, revision)]
        if command is not None and clause.party == "server":
            again = f"{command[0]} --only {clause.requirement} --revision {revision}{command[1]}"
            lines.append(f"- check again: {code_span(again)}")
    if len(order) > CLAUSES_MOST:
        lines += ["", f"And {len(order) - CLAUSES_MOST} more."]
    return "\n".join(lines) + "\n"


def _find_broken(log: InspectedLog) -> list[BrokenClause]:
    """Return the broken clauses without those that a person broke with a raw message."""
    found: dict[tuple[str, str], BrokenClause] = {}
    for row in rows_of(log):
        for each in row.breaches:
            if each.party == "client" and row.conversation.startswith("raw-"):
                continue
            key = (each.requirement, each.party)
            known = found.get(key)
            if known is None:
                found[key] = BrokenClause(
                    each.requirement, each.severity, each.party, 1, row.number, each.why
                )
            else:
                known.count += 1
    listed = {each.requirement for each in found.values()}
    # Of rows that left the log, the clauses are still known.
    left = (each for each in log.broken.values() if each.first < log.first_kept)
    return [*found.values(), *(each for each in left if each.requirement not in listed)]


def _count(order: list[BrokenClause]) -> str:
    if not order:
        return "No message broke a clause."
    failures = sum(each.severity == "fail" for each in order)
    return f"{failures} clauses fail, {len(order) - failures} warn."


def _describe(log: InspectedLog, clause: BrokenClause, revision: RevisionId) -> Iterator[str]:
    row = catalogue().get(clause.requirement)
    times = "once" if clause.count == 1 else f"{clause.count} times"
    yield f"## {clause.requirement} ({clause.severity})"
    yield ""
    yield f"- the {clause.party} {escape_markdown(clause.why)} ({times})"
    if row is not None:
        level = row.level_in(revision) if revision in REVISIONS else row.level
        yield f"- clause ({level}): {escape_markdown(row.text)}"
        url = page_of(anchor(row, revision))
        if url:
            yield f"- specification: {url}"
        yield f"- to mend it: {escape_markdown(row.mend)}"
    entry = log.get(clause.first)
    if entry is not None and entry.body:
        text = " ".join(entry.body.decode(errors="replace").split())
        shown = text if len(text) <= _EVIDENCE else f"{text[:_EVIDENCE]}..."
        yield f"- message {entry.number}, from the {entry.sender}: {code_span(shown)}"
