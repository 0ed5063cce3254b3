"""A fleet's report as one HTML page, readable without scripts.

The page is complete and may fetch nothing. Its content security policy allows only the style sheet
and the script of this package, by their digests, so injected text could not run.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from string import Template
from typing import Final

from accord_tools.check.rendering.html import (
    SIGNS,
    draw_ring,
    escape_html,
    page_policy,
    read_asset,
)
from accord_tools.check.rendering.wording import plural
from accord_tools.check.report import SCORE_RULE
from accord_tools.fleet.rendering import sections
from accord_tools.fleet.rendering.details import server_details
from accord_tools.fleet.rendering.elements import (
    STATE_VERDICTS,
    PageContext,
    facts,
    mark_of_state,
    page_contexts,
    shorten,
)
from accord_tools.fleet.rendering.finding_groups import counted_findings
from accord_tools.fleet.rendering.table import server_table, table_orders
from accord_tools.fleet.rendering.wording import (
    STATE_WORDS,
    date_text,
    fleet_title,
    most_broken,
    outcome_state,
    seconds_text,
    summarize,
)
from accord_tools.fleet.results import STATES, FleetView, RunOrigin

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
