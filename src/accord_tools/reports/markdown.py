"""Reports as Markdown, for pull requests and the summaries of workflows."""

import re
from html import escape
from typing import Final

from accord.cli.terminal import escape_unprintable
from accord_tools.reports import wording
from accord_tools.reports.report import SCORE_RULE, Report

# Where GitHub would see a name, an address or the number of an issue.
_LINK: Final = re.compile(
    r"@(?=\w)|(?<!&)#(?=\w)|(?:https?|ftp|mailto|xmpp)(?=:)|www(?=\.)", re.IGNORECASE
)


def as_markdown(report: Report) -> str:
    """Return the report for a pull request: the outcome, the breaches, the areas folded away."""
    word, counts = wording.outcome(report)
    transport = report.setting.transport
    over = "" if transport is None else f", over {escape_markdown(transport)}"
    lines = [
        f"### accord: {escape_markdown(report.target)}",
        "",
        f"- **result: {word} ({counts})**",
        f"- {wording.revision(report)}{over}",
        f"- coverage: {wording.coverage(report)}",
        *(f"- {escape_markdown(line)}" for line in wording.tool_lines(report)),
        *(f"- note: {escape_markdown(note)}" for note in report.setting.notes),
        f"- rules: {escape_markdown(report.rules)}",
        f"- score: {wording.score(report)} ({SCORE_RULE})",
        "",
    ]
    for group in wording.shown_violations(report):
        context = wording.violation_context(group, report)
        lines.append(f"- **{group.severity}** `{group.violation.requirement}` {context}")
        for fact in wording.violation_facts(group, report):
            is_code = fact.label in ("at", "message", "again")
            lines.append(
                f"  - {fact.label}: {(code_span if is_code else escape_markdown)(fact.text)}"
            )
        lines.append("")
    lines += ["<details><summary>By area</summary>", ""]
    columns = wording.columns(report)
    lines += [f"| area | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for area, verdicts in wording.by_area(report):
        lines.append(f"| {area} | {' | '.join(str(verdicts[name]) for name in columns)} |")
    return "\n".join([*lines, "", "</details>"]) + "\n"


def escape_markdown(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    shown = escape_unprintable(text).replace("&", "&amp;")
    for sign in "\\`*_{}[]<>#|~$":
        shown = shown.replace(sign, f"\\{sign}")
    return break_links(shown)


def break_links(markup: str) -> str:
    """Return Markdown or HTML in which GitHub makes no links of plain text, and notifies no user.

    A zero-width space stands after what it would recognize.
    """
    return _LINK.sub(r"\g<0>&#8203;", markup)


def code_span(text: str) -> str:
    """Return a text as code in a line of Markdown."""
    fence = "`"
    while fence in text:
        fence += "`"
    return f"{fence} {escape_unprintable(text)} {fence}"


def escape_html(text: str) -> str:
    """Escape a text for the content of an element, or for a quoted attribute."""
    return escape(escape_unprintable(text))
