"""Reports as Markdown, for pull requests and job summaries."""

from collections.abc import Iterator

from accord.check.rendering import wording
from accord.check.report import SCORE_RULE, Report, ViolationGroup


def as_markdown(report: Report) -> str:
    """Return the report for a pull request: the outcome, the breaches, the areas folded away."""
    word, counts = wording.outcome(report)
    lines = [
        f"### accord: {_escape(report.target)}",
        "",
        f"- **result: {word} ({counts})**",
        f"- {wording.revision(report)}{_over(report)}",
        f"- {wording.coverage(report)}",
        *(
            f"- {_escape(line)}"
            for line in (wording.calls_line(report), wording.not_called_line(report))
            if line
        ),
        *(f"- note: {_escape(note)}" for note in report.setting.notes),
        f"- score: {wording.score(report)} ({SCORE_RULE})",
        "",
    ]
    repeats = {result.id: result.repeat for result in report.results}
    for group in report.violations:
        lines += _group_lines(group, report)
        if (repeat := repeats.get(group.violation.requirement)) is not None:
            lines.append(f"  - again: {_code(wording.escape_unprintable(repeat))}")
        lines.append("")
    lines += ["<details><summary>By area</summary>", ""]
    columns = wording.COLUMNS
    lines += [f"| area | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for area, verdicts in wording.by_area(report):
        lines.append(f"| {area} | {' | '.join(str(verdicts[name]) for name in columns)} |")
    return "\n".join([*lines, "", "</details>"]) + "\n"


def _over(report: Report) -> str:
    transport = report.setting.transport
    return "" if transport is None else f", over {_escape(transport)}"


def _group_lines(group: ViolationGroup, report: Report) -> Iterator[str]:
    violation = group.violation
    level = wording.level(violation.requirement, report)
    yield (
        f"- **{group.severity}** `{violation.requirement}` ({level}, {violation.party})"
        f"{wording.where(group, report)}"
    )
    yield f"  - clause: {_escape(wording.clause(violation.requirement))}"
    yield f"  - why: {violation.party} {_escape(violation.why)}"
    for message in wording.evidence_messages(group, report):
        yield f"  - message: {_code(wording.excerpt(message))}"


def _escape(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    shown = wording.escape_unprintable(text)
    for sign in "\\`*_{}[]<>#|~":
        shown = shown.replace(sign, f"\\{sign}")
    # The zero-width space keeps GitHub from notifying the user of that name.
    return shown.replace("@", "@&#8203;")


def _code(text: str) -> str:
    fence = "`"
    while fence in text:
        fence += "`"
    return f"{fence} {text} {fence}"
