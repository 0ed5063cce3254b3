"""A fleet's report as one HTML page, readable without scripts.

The page is complete and may fetch nothing. Its content security policy allows only the style sheet
and the script of this package, by their digests, so injected text could not run.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from string import Template
from typing import Final, NamedTuple

from accord.check.rendering.markup import (
    SIGNS,
    draw_ring,
    escape_html,
    page_policy,
    read_asset,
)
from accord.check.rendering.wording import plural
from accord.check.report import SCORE_RULE
from accord.fleet.rendering import sections
from accord.fleet.rendering.details import server_details
from accord.fleet.rendering.elements import (
    STATE_VERDICTS,
    PageContext,
    facts,
    page_contexts,
    shorten,
    state_mark,
)
from accord.fleet.rendering.finding_groups import counted_findings
from accord.fleet.rendering.trends import trend_box
from accord.fleet.rendering.wording import (
    STATE_WORDS,
    change_text,
    coverage_percent,
    coverage_text,
    date_text,
    differences_by_server,
    fleet_title,
    headline,
    most_broken,
    outcome_state,
    reused_text,
    score_text,
    seconds_text,
    summarize,
    tests_text,
)
from accord.fleet.results import STATES, FleetView, RunDifference, RunOrigin, ServerResult

_PACKAGE: Final = "accord.fleet.rendering"
# A page that is larger has shorter lists.
_MOST_BYTES: Final = 1_900_000


class _Column(NamedTuple):
    """A column of the table; one with the largest value first sorts downwards at first."""

    title: str
    is_number: bool = True
    largest_first: bool = False


_COLUMNS: Final = {
    "server": _Column("Server", is_number=False),
    "state": _Column("State", is_number=False),
    "failures": _Column("Failures", largest_first=True),
    "warnings": _Column("Warnings", largest_first=True),
    "coverage": _Column("Coverage"),
    "score": _Column("Score"),
    "tests": _Column("Tests", largest_first=True),
    "start": _Column("Start", largest_first=True),
    "tools": _Column("Tools", largest_first=True),
    "tokens": _Column("Tokens", largest_first=True),
    "version": _Column("Version", is_number=False),
    "change": _Column("Change", is_number=False, largest_first=True),
    "trend": _Column("Trend"),
}


def as_html(view: FleetView, *, links: Mapping[str, str] | None = None) -> str:
    """Return the report as one complete page.

    Args:
        view: the run and all that is known beside it.
        links: the address of each server's own page, if it has one.
    """
    text = ""
    for page in page_contexts(view, links):
        text = _render(page)
        if len(text.encode("utf-8")) <= _MOST_BYTES:
            break
    return text


def _render(page: PageContext) -> str:
    view = page.view
    style, script = page_style(), read_asset("fleet.js", _PACKAGE)
    contents = list(_sections(page))
    parts = {
        "facts": _facts(view),
        "gauges": _gauges(view),
        "bar": _bar(view),
        "remarks": _remarks(view),
        "navigation": _navigation(contents),
        "choices": _choices(page),
        "chips": _chips(view),
        "orders": _orders(page),
        "table": _table(page),
        "sections": contents,
    }
    return Template(read_asset("fleet.html", _PACKAGE)).substitute(
        {name: "\n".join(lines) for name, lines in parts.items()},
        policy=escape_html(page_policy(style, script)),
        style=style,
        script=script,
        title=shorten(fleet_title(view.run), 120),
        outcome=_outcome(view),
        version=escape_html(view.run.accord),
    )


def page_style() -> str:
    """Return the style sheet: that of reports, and what only fleets need."""
    return read_asset("page.css") + read_asset("fleet.css", _PACKAGE)


# -- the summary


def _outcome(view: FleetView) -> str:
    state = outcome_state(view.run)
    return (
        f'<p class="outcome {state}"><span aria-hidden="true">{SIGNS[state]}</span>'
        f" {headline(view)}</p>"
    )


def _facts(view: FleetView) -> Iterator[str]:
    run, origin = view.run, view.run.origin
    workers = "1 worker" if run.jobs == 1 else f"{run.jobs} workers"
    yield from facts(
        [
            ("Fleet file", f"<code>{shorten(run.file, 120)}</code>" if run.file else ""),
            ("Date", escape_html(date_text(run.started))),
            ("Duration", f"{seconds_text(run.seconds)}, {workers}" if run.seconds else ""),
            ("accord", escape_html(run.accord)),
            ("Rule set", f"{shorten(run.rules.version, 60)} ({escape_html(run.rules.digest[:8])})"),
            ("Commit", _commit(origin)),
            ("Run", _run_number(view)),
            ("Compared with", shorten(view.comparison.against, 120) if view.comparison else ""),
        ]
    )


def _commit(origin: RunOrigin) -> str:
    if not origin.git_commit:
        return ""
    notes = [origin.git_branch] if origin.git_branch else []
    notes += ["with changes that are not committed"] if origin.is_dirty else []
    said = f" ({shorten(', '.join(notes), 120)})" if notes else ""
    return f"<code>{escape_html(origin.git_commit[:12])}</code>{said}"


def _run_number(view: FleetView) -> str:
    address = view.run.origin.ci_url
    number = str(view.run.id) if view.run.id else ""
    if address.startswith(("https://", "http://")):
        shown = number or "log"
        return f'<a href="{escape_html(address)}" rel="noreferrer">{shown}</a>'
    return number


def _gauges(view: FleetView) -> Iterator[str]:
    summary = summarize(view)
    if summary.applicable:
        percent = 100 * summary.exercised // summary.applicable
        caption = f"{summary.exercised:,} of {summary.applicable:,} exercised"
        yield draw_ring("covered", percent, f"{percent}%", f"<b>Coverage</b><br>{caption}")
    share = 100 * summary.as_expected / summary.servers if summary.servers else 0
    yield draw_ring(
        f"ring-{outcome_state(view.run)}",
        round(share, 1),
        f"{summary.as_expected}/{summary.servers}",
        "<b>As expected</b><br>servers",
    )


def _bar(view: FleetView) -> Iterator[str]:
    states = Counter(result.state for result in view.run.results)
    total = max(len(view.run.results), 1)
    yield (
        '<svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="fill-not-applicable" width="100" height="1"/>'
    )
    x = 0.0
    for state in STATES:
        wide = 100 * states[state] / total
        if wide:
            style = f"fill-{STATE_VERDICTS[state]}"
            yield f'<rect class="{style}" x="{x:.3f}" width="{wide:.3f}" height="1"/>'
        x += wide
    yield '</svg><ul class="counts">'
    for result in _one_of_each_state(view):
        yield f"<li>{state_mark(result)} <b>{states[result.state]}</b></li>"
    yield f'<li class="quiet">{_counts(view)}</li></ul>'


def _counts(view: FleetView) -> str:
    summary = summarize(view)
    counts = {
        "failure": summary.failures,
        "warning": summary.warnings,
        "exception": summary.accepted,
        "changed server": summary.drift,
        "finding": summary.findings,
        "hint": summary.hints,
        "reused result": summary.reused,
    }
    return ", ".join(plural(count, noun) for noun, count in counts.items() if count)


def _one_of_each_state(view: FleetView) -> list[ServerResult]:
    found = {result.state: result for result in view.run.results}
    return [found[state] for state in STATES if state in found]


def _remarks(view: FleetView) -> Iterator[str]:
    yield (
        "<p><b>As expected</b>: a server was checked and is within the limits of the fleet file."
        " <b>Coverage</b>: how many of the requirements that apply were put to the test; look at it"
        f" before the score. <b>Score</b>: {SCORE_RULE}. Scores can be compared only if the same"
        " set of rules made them. <b>Tokens</b>: about what the list of tools costs a model.</p>"
    )
    for note in view.run.notes:
        yield f"<p><b>Note</b>: {shorten(note)}</p>"


def _navigation(contents: Iterable[str]) -> Iterator[str]:
    """Yield links to the sections that the page has."""
    names = {
        "changes": "Regressions and fixes",
        "breaks": "What breaks most",
        "areas": "Areas",
        "drift": "Drift",
        "findings": "Findings",
        "trends": "Trends",
        "details": "Details",
    }
    text = "".join(line for line in contents if line.startswith("<section "))
    yield '<a href="#servers">Servers</a>'
    for id, name in names.items():
        if f'<h2 id="{id}">' in text:
            yield f'<a href="#{id}">{name}</a>'


# -- the table, and what chooses its rows


def _choices(page: PageContext) -> Iterator[str]:
    run = page.view.run
    tags = sorted({tag for result in run.results for tag in result.tags})
    owners = sorted({result.owner for result in run.results if result.owner})
    for name, values in (("tag", tags), ("owner", owners)):
        if not values:
            continue
        yield f'<label class="field">{name.capitalize()}<select name="{name}">'
        yield '<option value="">all</option>'
        for place, value in enumerate(values):
            yield f'<option value="{place}">{shorten(value, 60)}</option>'
        yield "</select></label>"


def _chips(view: FleetView) -> Iterator[str]:
    for result in _one_of_each_state(view):
        yield (
            f'<label class="chip"><input type="checkbox" name="state" value="{result.state}"'
            f" checked>{STATE_WORDS[result.state].capitalize()}</label>"
        )


def _columns(page: PageContext) -> dict[str, _Column]:
    """Return the columns of the table; those that would be empty are left out."""
    absent = set()
    if page.view.comparison is None:
        absent.add("change")
    if not any(len(points) > 1 for points in page.view.trends.values()):
        absent.add("trend")
    return {name: column for name, column in _COLUMNS.items() if name not in absent}


def _orders(page: PageContext) -> Iterator[str]:
    """Yield the choices of an order, for screens on which the table has no head."""
    yield '<option value="">worst first</option>'
    for place, (name, column) in enumerate(_columns(page).items()):
        if name != "trend":
            yield f'<option value="{place}">{column.title}</option>'


def _table(page: PageContext) -> Iterator[str]:
    columns, differences = _columns(page), differences_by_server(page.view)
    yield "<thead><tr>"
    for name, column in columns.items():
        order = ' data-first="descending"' if column.largest_first else ""
        fixed = " data-fixed" if name == "trend" else ""
        style = "" if column.is_number else ' class="words"'
        yield f'<th scope="col"{style}{order}{fixed}>{column.title}</th>'
    yield "</tr></thead><tbody>"
    results = page.view.run.results
    tags = sorted({tag for result in results for tag in result.tags})
    owners = sorted({result.owner for result in results if result.owner})
    for place, result in sorted(enumerate(results), key=lambda e: STATES.index(e[1].state)):
        numbers = " ".join(str(tags.index(tag)) for tag in dict.fromkeys(result.tags))
        owner = owners.index(result.owner) if result.owner else ""
        yield (
            f'<tr data-server="{place}" data-state="{result.state}" data-tags="{numbers}"'
            f' data-owner="{owner}">'
        )
        cells = _cells(page, place, result, differences.get(result.name, []))
        yield from (cells[name] for name in columns)
        yield "</tr>"
    yield "</tbody>"


def _cell(name: str, text: str, value: object = "", style: str = "") -> str:
    """Return a cell; on a narrow screen its label is shown, and it is sorted by its value."""
    title = _COLUMNS[name].title
    shown = f' class="{style}"' if style else ""
    return f'<td{shown} data-label="{title}" data-value="{value}">{text}</td>'


def _cells(
    page: PageContext, place: int, result: ServerResult, differences: list[RunDifference]
) -> dict[str, str]:
    surface = result.surface
    about = [part for part in (result.owner, ", ".join(result.tags)) if part]
    made, under = reused_text(result, page.view.run), _under("; ".join(about))
    cells = {
        "server": f'<th scope="row">{page.link(result.name)}{under}{_why(result)}</th>',
        "state": _cell(
            "state", state_mark(result) + _under(made), STATES.index(result.state), "words"
        ),
        **{name: _unknown(name) for name in _COLUMNS if name not in ("server", "state")},
        "change": _change_cell(differences),
        "trend": _trend_cell(page, place, result),
    }
    if result.server_version:
        cells["version"] = _cell("version", shorten(result.server_version, 24), "", "words")
    if result.applicable:
        percent = coverage_percent(result) or 0
        shown = f'{coverage_text(result)}<span class="under">{percent} %</span>'
        cells |= {
            "failures": _count_cell("failures", result.failures, "is-fail"),
            "warnings": _count_cell("warnings", result.warnings, "is-warn"),
            "coverage": _cell("coverage", shown, percent),
            "score": _cell("score", score_text(result.score), result.score or 0),
        }
    if result.tests.is_wanted:
        style = "is-fail" if result.tests.failed or result.tests.no_time else ""
        cells["tests"] = _cell("tests", tests_text(result), result.tests.failed, style)
    if result.timing.start is not None:
        start = result.timing.start
        cells["start"] = _cell("start", seconds_text(start), f"{start:.4g}")
    if surface is not None:
        cells["tools"] = _cell("tools", f"{surface.tools:,}", surface.tools)
        cells["tokens"] = _cell("tokens", f"{surface.tokens:,}", surface.tokens)
    return cells


def _unknown(name: str) -> str:
    style = "unknown" if _COLUMNS[name].is_number else "words unknown"
    return _cell(name, '<span class="quiet">\u2013</span>', "", style)


def _under(text: str) -> str:
    return f'<span class="under">{shorten(text, 120)}</span>' if text else ""


def _why(result: ServerResult) -> str:
    """Return the first reason for a state, in the colour of the state."""
    if not result.reasons:
        return ""
    style = "quiet" if result.is_as_expected else "f"
    return f'<span class="why {style}">{shorten(result.reasons[0], 120)}</span>'


def _count_cell(name: str, count: int, style: str) -> str:
    sign = SIGNS["fail" if style == "is-fail" else "warn"]
    text = f'<span aria-hidden="true">{sign}</span> {count:,}' if count else "0"
    return _cell(name, text, count, style if count else "none")


def _change_cell(differences: list[RunDifference]) -> str:
    worse = sum(each.is_regression for each in differences)
    style = "words is-fail" if worse else "words"
    value = 1000 * worse + len(differences)
    return _cell("change", change_text(differences), value, style)


def _trend_cell(page: PageContext, place: int, result: ServerResult) -> str:
    points = page.view.trends.get(result.name, ())
    if len(points) < 2:
        return _unknown("trend")
    drawing = (
        f'<svg class="trend" viewBox="{trend_box(points)}" preserveAspectRatio="none"'
        f' aria-hidden="true"><use href="#t{place}"/></svg>'
    )
    return _cell("trend", drawing, "", "spark")


# -- the rest


def _sections(page: PageContext) -> Iterator[str]:
    run, comparison = page.view.run, page.view.comparison
    parts = (
        ("changes", "Regressions and fixes", None, sections.comparison_parts(page)),
        ("breaks", "What breaks most", len(most_broken(run)), sections.broken_requirements(page)),
        ("areas", "Servers and areas", None, sections.area_matrix(page)),
        ("drift", "Drift", sum(bool(e.changes) for e in run.results), sections.drift_list(page)),
        ("findings", "Findings", len(counted_findings(run)), sections.finding_list(page)),
        ("trends", "Trends", None, sections.trend_list(page)),
    )
    for id, title, count, lines in parts:
        if id != "changes" or comparison is not None:
            yield from sections.section(id, title, count, lines)
    yield '<section aria-labelledby="details"><h2 id="details">Details</h2><div class="results">'
    yield from server_details(page)
    yield "</div></section>"
