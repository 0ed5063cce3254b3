"""A fleet's report as one HTML page, readable without scripts.

The page is complete and may fetch nothing. Its content security policy allows only the style sheet
and the script of this package, by their digests, so injected text could not run.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from string import Template
from typing import Final, NamedTuple

from accord_tools.fleet.rendering import sections
from accord_tools.fleet.rendering.elements import (
    STATE_VERDICTS,
    PageContext,
    facts,
    mark_of_state,
    page_contexts,
    shorten,
    state_mark,
    trend_box,
    unfold,
)
from accord_tools.fleet.rendering.sections import server_details
from accord_tools.fleet.rendering.wording import (
    DRIFT,
    STATE_WORDS,
    change_text,
    counted_findings,
    coverage_percent,
    coverage_text,
    date_text,
    differences_by_server,
    find_risks,
    fleet_title,
    most_broken,
    outcome_state,
    reused_text,
    score_text,
    seconds_text,
    summarize,
    tests_text,
)
from accord_tools.fleet.results import STATES, FleetView, RunDifference, RunOrigin, ServerResult
from accord_tools.reports.html import SIGNS, draw_ring, page_policy, read_asset
from accord_tools.reports.markdown import escape_html
from accord_tools.reports.report import SCORE_RULE
from accord_tools.reports.wording import plural

# -- the table of servers: a row of numbers each, and a line of text below it


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
    "tools": _Column("Tools", largest_first=True),
    "change": _Column("Change", is_number=False, largest_first=True),
    "trend": _Column("Trend"),
}
# Facts of the line below a row, which the table can be sorted by as well.
_FACTS: Final = {
    "start": _Column("Start", largest_first=True),
    "tokens": _Column("Tokens", largest_first=True),
    "version": _Column("Version", is_number=False),
}
_MOST_REASON: Final = 300
_DOT: Final = " <i>\u00b7</i> "


def _columns(page: PageContext) -> dict[str, _Column]:
    """Return the columns of the table; those that would be empty are left out."""
    absent = set()
    if page.view.comparison is None:
        absent.add("change")
    if not any(len(points) > 1 for points in page.view.trends.values()):
        absent.add("trend")
    return {name: column for name, column in _COLUMNS.items() if name not in absent}


def table_orders(page: PageContext) -> Iterator[str]:
    """Yield the choices of an order: also by facts and on screens without a head of the table."""
    yield '<option value="">worst first</option>'
    for name, column in {**_columns(page), **_FACTS}.items():
        if name != "trend":
            first = "descending" if column.largest_first else "ascending"
            yield f'<option value="{name}" data-first="{first}">{column.title}</option>'


def server_table(page: PageContext) -> Iterator[str]:
    """Yield the head of the table, and for each server a body of two rows, the worst first."""
    columns, differences = _columns(page), differences_by_server(page.view)
    yield "<thead><tr>"
    for name, column in columns.items():
        order = ' data-first="descending"' if column.largest_first else ""
        fixed = " data-fixed" if name == "trend" else ""
        style = "" if column.is_number else ' class="words"'
        yield f'<th scope="col"{style} data-name="{name}"{order}{fixed}>{column.title}</th>'
    yield "</tr></thead>"
    results = page.view.run.results
    tags = sorted({tag for result in results for tag in result.tags})
    owners = sorted({result.owner for result in results if result.owner})
    for place, result in sorted(enumerate(results), key=lambda e: STATES.index(e[1].state)):
        numbers = " ".join(str(tags.index(tag)) for tag in dict.fromkeys(result.tags))
        owner = owners.index(result.owner) if result.owner else ""
        yield (
            f'<tbody data-server="{place}" data-state="{result.state}" data-tags="{numbers}"'
            f' data-owner="{owner}"><tr>'
        )
        cells = _cells(page, place, result, differences.get(result.name, []))
        yield from (cells[name] for name in columns)
        yield f'</tr><tr class="below"><td colspan="{len(columns)}">{_below(result)}</td></tr>'
        yield "</tbody>"


def _cells(
    page: PageContext, place: int, result: ServerResult, differences: list[RunDifference]
) -> dict[str, str]:
    made = reused_text(result, page.view.run)
    cells = {
        "server": f'<th scope="row" data-name="server">{page.link(result.name)}</th>',
        "state": _cell(
            "state", state_mark(result) + _under(made), STATES.index(result.state), "words"
        ),
        **{name: _unknown(name) for name in _COLUMNS if name not in ("server", "state")},
        "change": _change_cell(result, differences),
        "trend": _trend_cell(page, place, result),
    }
    if result.applicable:
        percent = coverage_percent(result) or 0
        limits = result.expect
        cells |= {
            "failures": _count_cell("failures", result.failures, limits.failures, "fail"),
            "warnings": _count_cell("warnings", result.warnings, limits.warnings, "warn"),
            "coverage": _cell("coverage", coverage_text(result), percent),
            "score": _cell("score", score_text(result.score), result.score or 0),
        }
    if result.tests.is_wanted:
        cells["tests"] = _tests_cell(result)
    if result.catalog is not None:
        cells["tools"] = _cell("tools", f"{result.catalog.tools:,}", result.catalog.tools)
    return cells


def _cell(name: str, text: str, value: object = "", style: str = "") -> str:
    """Return a cell; on a narrow screen its label is shown, and it is sorted by its value."""
    title = _COLUMNS[name].title
    shown = f' class="{style}"' if style else ""
    return f'<td{shown} data-name="{name}" data-label="{title}" data-value="{value}">{text}</td>'


def _unknown(name: str) -> str:
    style = "unknown" if _COLUMNS[name].is_number else "words unknown"
    return _cell(name, '<span class="quiet">\u2013</span>', "", style)


def _under(text: str) -> str:
    return f'<span class="under">{shorten(text, 120)}</span>' if text else ""


def _count_cell(name: str, count: int, limit: int | None, verdict: str) -> str:
    """Return a count: grey with the limit if a limit allows it, else in the colour of a verdict."""
    if not count:
        return _cell(name, "0", 0, "none")
    allowed = f"of {limit:,} allowed" if limit else ""
    if limit is None and verdict == "fail":
        allowed = "any allowed"
    is_allowed = bool(allowed) and (limit is None or count <= limit)
    sign = "" if is_allowed else f'<span aria-hidden="true">{SIGNS[verdict]}</span> '
    text = f"{sign}{count:,}{_under(allowed)}"
    return _cell(name, text, count, "none" if is_allowed else f"is-{verdict}")


def _tests_cell(result: ServerResult) -> str:
    tests, limit = result.tests, result.expect.tests
    parts = tests_text(result).split(", ")
    rest, style = ", ".join(parts[1:]), ""
    if tests.failed and (limit is None or tests.failed <= limit):
        may = "any number" if limit is None else f"{limit:,}"
        rest, style = ", ".join(filter(None, [f"{may} may fail", rest])), "none"
    elif tests.failed:
        style = "is-fail"
    if tests.no_time:
        style = "is-fail"
    return _cell("tests", parts[0] + _under(rest), tests.failed + tests.no_time, style)


def _change_cell(result: ServerResult, differences: list[RunDifference]) -> str:
    worse = sum(each.is_regression for each in differences)
    risks = find_risks(result)
    risky = sum(each.kind in DRIFT and each.subject in risks for each in differences)
    style = "words is-fail" if worse or risky else "words"
    text = change_text(differences) + _under("risky text" if risky else "")
    return _cell("change", text, 1000 * (worse + risky) + len(differences), style)


def _trend_cell(page: PageContext, place: int, result: ServerResult) -> str:
    points = page.view.trends.get(result.name, ())
    if len(points) < 2:
        return _unknown("trend")
    drawing = (
        f'<svg class="trend" viewBox="{trend_box(points)}" preserveAspectRatio="none"'
        f' aria-hidden="true"><use href="#t{place}"/></svg>'
    )
    return _cell("trend", drawing, "", "spark")


# -- the line below


def _below(result: ServerResult) -> str:
    """Return why a server is in its state, and the facts that have no column."""
    why = ""
    if result.reasons:
        style = "quiet" if result.is_as_expected else f"state-{STATE_VERDICTS[result.state]}"
        more = f" (and {len(result.reasons) - 1} more)" if len(result.reasons) > 1 else ""
        why = f'<div class="why {style}">{unfold(result.reasons[0], _MOST_REASON)}{more}</div>'
    about = [shorten(part, 60) for part in (result.owner, ", ".join(result.tags)) if part]
    about += [
        f'<span data-name="{name}" data-value="{value}">{text}</span>'
        for name, (value, text) in _sort_values(result).items()
    ]
    return f'{why}<div class="about">{_DOT.join(about)}</div>' if about else why


def _sort_values(result: ServerResult) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    if (start := result.timing.start) is not None:
        found["start"] = f"{start:.4g}", f"start {seconds_text(start)}"
    if result.catalog is not None:
        tokens = result.catalog.tokens
        found["tokens"] = str(tokens), f"{tokens:,} tokens"
    if result.server_version:
        found["version"] = "", f"version {shorten(result.server_version, 24)}"
    return found


# -- the page


_PACKAGE: Final = "accord_tools.fleet.rendering"
# A page that is larger has shorter lists.
_MOST_BYTES: Final = 1_900_000


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
        "orders": table_orders(page),
        "table": server_table(page),
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
        f" {_headline(view)}</p>"
    )


def _headline(view: FleetView) -> str:
    """Return the run in one line that begins with what is to be done."""
    summary = summarize(view)
    if not summary.attention:
        return summary.headline
    verb = "needs" if summary.attention == 1 else "need"
    return f"{summary.attention} of {summary.servers} {verb} attention; {summary.headline}"


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
            ("Requirements tried", _coverage(view)),
            ("Commit", _commit(origin)),
            ("Run", _run_number(view)),
            ("Compared with", shorten(view.comparison.against, 120) if view.comparison else ""),
        ]
    )


def _coverage(view: FleetView) -> str:
    summary = summarize(view)
    return f"{summary.exercised:,} of {summary.applicable:,}" if summary.applicable else ""


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
    summary, state = summarize(view), outcome_state(view.run)
    count, caption = summary.as_expected, "As expected"
    if summary.attention:
        count, caption = summary.attention, "Need attention"
    share = 100 * count / summary.servers if summary.servers else 0
    shown = f"{count}/{summary.servers}"
    yield draw_ring(f"ring-{state}", round(share, 1), shown, f"<b>{caption}</b><br>servers")


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
    for state in STATES:
        if states[state]:
            yield f"<li>{mark_of_state(state)} <b>{states[state]}</b></li>"
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


def _remarks(view: FleetView) -> Iterator[str]:
    yield (
        "<p><b>As expected</b>: a server was checked and is within the limits of the fleet file;"
        " one that breaks as much as these limits allow is <b>within the limits</b>. <b>Timed"
        " out</b>: there was no time for all of its tests or requirements. <b>Coverage</b>: how"
        " many of the requirements that apply were put to the test. It does not rate a server: one"
        " that offers little, or whose tools may not be called, gives little occasion; look at it"
        f" before the score. <b>Score</b>: {SCORE_RULE}. Scores can be compared only if the same"
        " set of rules made them. <b>Tokens</b>: about what the list of tools costs a model.</p>"
    )
    for note in view.run.notes:
        yield f"<p><b>Note</b>: {shorten(note)}</p>"


def _navigation(contents: Iterable[str]) -> Iterator[str]:
    """Yield links to the sections that the page has."""
    names = {
        "owners": "By owner",
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


# -- what chooses the rows of the table


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
    present = {result.state for result in view.run.results}
    for state in STATES:
        if state in present:
            yield (
                f'<label class="chip"><input type="checkbox" name="state" value="{state}"'
                f" checked>{STATE_WORDS[state].capitalize()}</label>"
            )


# -- the rest


def _sections(page: PageContext) -> Iterator[str]:
    run, comparison = page.view.run, page.view.comparison
    parts = (
        ("owners", "What to do, by owner", None, sections.owner_list(page)),
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
