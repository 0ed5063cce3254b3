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
    for finding in report.findings:
        lines += _finding(finding, report)
        if (repeat := repeats.get(finding.requirement)) is not None:
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


def _finding(finding: ViolationGroup, report: Report) -> Iterator[str]:
    level = wording.level(finding.requirement, report)
    yield (
        f"- **{finding.severity}** `{finding.requirement}` ({level}, {finding.party})"
        f"{wording.where(finding, report)}"
    )
    yield f"  - clause: {_marked(wording.clause(finding.requirement))}"
    yield f"  - why: {finding.party} {_marked(finding.why)}"
    for message in wording.evidence_messages(finding, report):
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
