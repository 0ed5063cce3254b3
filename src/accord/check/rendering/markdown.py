"""Reports for pull requests and job summaries."""

from collections.abc import Iterator

from accord.check.rendering import wording
from accord.check.report import SCORE_RULE, Report, ViolationGroup


def as_markdown(report: Report) -> str:
    """Return the report for a pull request: the outcome, the breaches, the areas folded away."""
    word, told = wording.outcome(report)
    lines = [
        f"### accord: {_marked(report.target)}",
        "",
        f"- **result: {word} ({told})**",
        f"- {wording.revision(report)}{_over(report)}",
        f"- {wording.coverage(report)}",
        *(
            f"- {_marked(told)}"
            for told in (wording.calls_line(report), wording.not_called_line(report))
            if told
        ),
        *(f"- note: {_marked(note)}" for note in report.setting.notes),
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
    for area, counts in wording.by_area(report):
        lines.append(f"| {area} | {' | '.join(str(counts[name]) for name in columns)} |")
    return "\n".join([*lines, "", "</details>"]) + "\n"


def _over(report: Report) -> str:
    transport = report.setting.transport
    return "" if transport is None else f", over {_marked(transport)}"


def _group_lines(group: ViolationGroup, report: Report) -> Iterator[str]:
    violation = group.violation
    level = wording.level(violation.requirement, report)
    yield (
        f"- **{group.severity}** `{violation.requirement}` ({level}, {violation.party})"
        f"{wording.where(group, report)}"
    )
    yield f"  - clause: {_marked(wording.clause(violation.requirement))}"
    yield f"  - why: {violation.party} {_marked(violation.why)}"
    for message in wording.evidence_messages(group, report):
        yield f"  - message: {_code(wording.excerpt(message))}"


def _marked(text: str) -> str:
    """Text that Markdown shows as it is."""
    shown = wording.escape_unprintable(text)
    for sign in "\\`*_{}[]<>#|~":
        shown = shown.replace(sign, f"\\{sign}")
    # A zero-width space keeps the name after it from being called into the discussion.
    return shown.replace("@", "@&#8203;")


def _code(text: str) -> str:
    fence = "`"
    while fence in text:
        fence += "`"
    return f"{fence} {text} {fence}"
