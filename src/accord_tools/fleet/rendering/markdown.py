"""A fleet's report as Markdown, for the summary of a workflow's step or a pull request."""

from collections.abc import Iterable, Iterator
from typing import Final

from accord_tools.fleet.rendering.wording import (
    DIFFERENCE_WORDS,
    STATE_WORDS,
    counted_breaches,
    counted_findings,
    date_text,
    difference_text,
    differences_by_server,
    fleet_title,
    group_differences,
    group_findings,
    headline,
    reused_text,
    server_cells,
)
from accord_tools.fleet.results import STATES, FleetView, RunDifference, ServerResult
from accord_tools.reports.markdown import break_links, code_span, escape_html, escape_markdown
from accord_tools.reports.wording import plural

# GitHub shows summaries of a step up to 1 MiB; what follows would be lost with all before it.
_MOST_BYTES: Final = 1_000_000
_CUT: Final = "\n\n*The report is longer than 1 MB and was cut here.*\n"
_MOST_LETTERS: Final = 300
_MOST_ITEMS: Final = 50
_COLUMNS: Final = ("failures", "warnings", "coverage", "score", "tests", "change")
_SIGNS: Final = {"ok": "\u2705", "skipped": "\u2796"}
_BAD: Final = "\u274c"


def as_markdown(view: FleetView) -> str:
    """Return the headline, the table, regressions and failures; at most 1 MB."""
    run = view.run
    lines = [f"### accord fleet: {_text(fleet_title(run))}", "", f"**{headline(view)}**", ""]
    facts = [date_text(run.started), f"accord {run.accord}", f"rules {run.rules.version}"]
    if view.comparison is not None:
        facts.append(f"compared with {view.comparison.against}")
    lines += [", ".join(_text(fact) for fact in facts), ""]
    lines += _table(view)
    lines += _comparison(view)
    for result in sorted(run.results, key=lambda each: STATES.index(each.state)):
        if not result.is_as_expected:
            lines += _server(result)
    lines += _findings(view)
    return _cut(lines)


def _text(text: str) -> str:
    return escape_markdown(text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]} ...")


def _cut(lines: Iterable[str]) -> str:
    """Join lines as long as they fit; what is folded away is never left open."""
    kept: list[str] = []
    size, is_folded = 0, False
    closing = "\n</details>\n"
    for line in lines:
        size += len(line.encode(errors="backslashreplace")) + 1
        if size + len(closing) + len(_CUT) > _MOST_BYTES:
            return "\n".join([*kept, closing if is_folded else "", _CUT])
        if line.startswith("<details>"):
            is_folded = True
        elif line == "</details>":
            is_folded = False
        kept.append(line)
    return "\n".join(kept) + "\n"


def _table(view: FleetView) -> Iterator[str]:
    differences = differences_by_server(view)
    yield f"| server | state | {' | '.join(_COLUMNS)} |"
    yield "|---|---|---:|---:|---:|---:|---:|---|"
    for result in sorted(view.run.results, key=lambda each: STATES.index(each.state)):
        found = server_cells(result, view, differences.get(result.name, ()))
        state = f"{_SIGNS.get(result.state, _BAD)} {STATE_WORDS[result.state]}"
        if made := reused_text(result, view.run):
            state += f", {_text(made)}"
        elif result.reasons and not result.applicable:
            # Its row has no numbers that could tell.
            state += f": {_text(result.reasons[0])}"
        cells = [_text(result.name), state, *(found[name] for name in _COLUMNS)]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _comparison(view: FleetView) -> Iterator[str]:
    if view.comparison is None:
        return
    worse, fixed, _ = group_differences(view.comparison)
    for title, found in (("Regressions", worse), ("Fixed", fixed)):
        if found:
            yield f"#### {title}"
            yield ""
            yield from _list([_difference(each) for each in found])
    if view.comparison.new_rules:
        ids = [code_span(id) for id in view.comparison.new_rules]
        yield f"New rules, which do not count as regressions: {', '.join(_few(ids))}"
        yield ""


def _difference(each: RunDifference) -> str:
    return (
        f"**{_text(each.server)}**: {DIFFERENCE_WORDS[each.kind]}: {_text(difference_text(each))}"
    )


def _list(items: list[str]) -> Iterator[str]:
    yield from (f"- {item}" for item in _few(items))
    yield ""


def _few(items: list[str]) -> list[str]:
    more = len(items) - _MOST_ITEMS
    return [*items[:_MOST_ITEMS], f"and {more} more"] if more > 0 else items


def _server(result: ServerResult) -> Iterator[str]:
    yield f"<details><summary>{_summary(result)}</summary>"
    yield ""
    yield from _list([_text(reason) for reason in result.reasons])
    breaches = [each for each in counted_breaches(result) if each.counts]
    items = [
        f"**{each.verdict}** {code_span(each.requirement)} {_text(each.message)}"
        for each in breaches
    ]
    if items:
        yield from _list(items)
    if result.changed_since == "lock" and result.changes:
        yield from _list(
            [
                f"**{each.kind} change** {_text(each.subject)}: {_text(each.what)}"
                for each in result.changes
            ]
        )
    tests = [
        f"**test** {_text(each.name)}: {_text(each.summary)}"
        + (f" {code_span(each.repeat)}" if each.repeat else "")
        for each in result.tests.failures
    ]
    if tests:
        yield from _list(tests)
    yield "</details>"
    yield ""


def _summary(result: ServerResult) -> str:
    # A summary is HTML, in which Markdown's escapes by backslash would show.
    name = break_links(escape_html(result.name[:_MOST_LETTERS]))
    counts = plural(result.failures, "failure") if result.applicable else ""
    return f"{name}: {STATE_WORDS[result.state]}{f', {counts}' if counts else ''}"


def _findings(view: FleetView) -> Iterator[str]:
    counted = counted_findings(view.run)
    if not counted:
        return
    yield f"<details><summary>{plural(len(counted), 'finding')}</summary>"
    yield ""
    yield from _list(
        [
            f"{code_span(each.id)} "
            + (f"**{_text(each.server)}** " if each.server else "")
            + (f"{_text(', '.join(_few(list(each.subjects))))}: " if each.subjects else "")
            + _text(each.text)
            for each in group_findings(counted)
        ]
    )
    yield "</details>"
    yield ""
