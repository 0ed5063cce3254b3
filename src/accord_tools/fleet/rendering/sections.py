"""The sections of a fleet's page below its table, and the details of one server.

Sections are areas, breaches, changes, findings and trends.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from accord.protocol.catalogue import catalogue
from accord_tools.fleet.rendering.elements import (
    PageContext,
    difference_mark,
    facts,
    first_entries,
    mark,
    shorten,
    show_diff,
    state_mark,
    trend_svg,
    unfold,
)
from accord_tools.fleet.rendering.wording import (
    DIFFERENCE_WORDS,
    DRIFT,
    FIXES,
    STAGE_WORDS,
    STATE_WORDS,
    BrokenRequirement,
    count_by_area,
    counted_breaches,
    coverage_text,
    find_risks,
    most_broken,
    reused_text,
    score_text,
    seconds_text,
    tests_text,
    used_areas,
)
from accord_tools.fleet.results import (
    STATES,
    CatalogChange,
    CatalogFinding,
    ChangeKind,
    RequirementBreach,
    RunDifference,
    ServerResult,
    is_warning,
)
from accord_tools.reports.html import SIGNS
from accord_tools.reports.markdown import escape_html
from accord_tools.reports.wording import count_calls, plural

# The cell of an area shows the first of these that it has.
_CELLS: Final = (
    ("fail", "f", SIGNS["fail"]),
    ("warn", "w", SIGNS["warn"]),
    ("accepted", "a", "~"),
    ("pass", "p", SIGNS["pass"]),
    ("not-exercised", "u", SIGNS["not-exercised"]),
    ("not-recorded", "u", SIGNS["not-exercised"]),
)
# So many are shown at once, so many more are folded.
_MOST_OPEN: Final = 12
_MOST_FOLDED: Final = 150
_MOST_NAMES: Final = 20
_CHANGES: Final[dict[ChangeKind, tuple[str, str]]] = {
    "breaking": ("fail", "Breaking"),
    "text": ("warn", "Text"),
    "compatible": ("pass", "Compatible"),
}
# Reasons of a server that are shown to its owner.
_MOST_REASONS: Final = 3


def section(id: str, title: str, count: int | None, lines: Iterator[str]) -> Iterator[str]:
    """Yield a section with its heading; nothing if it has no content."""
    content = list(lines)
    if not content:
        return
    shown = "" if count is None else f' <span class="quiet count">{count:,}</span>'
    yield f'<section aria-labelledby="{id}"><h2 id="{id}">{title}{shown}</h2>'
    yield from content
    yield "</section>"


# -- owners


def owner_list(page: PageContext) -> Iterator[str]:
    """Yield what each owner has to do, the one with most to do first; nothing without owners."""
    owned: dict[str, list[ServerResult]] = {}
    for result in page.view.run.results:
        owned.setdefault(result.owner, []).append(result)
    if not any(owned):
        return
    worse = Counter(
        each.server for each in (page.view.comparison.regressions if page.view.comparison else ())
    )
    rows = []
    for owner, results in owned.items():
        todo = [each for each in results if not each.is_as_expected or worse[each.name]]
        rows.append((owner, todo, [each for each in results if each not in todo]))
    yield '<div class="results">'
    for owner, todo, others in sorted(rows, key=lambda row: (-len(row[1]), row[0])):
        said = mark("fail", f"{len(todo)} to do") if todo else mark("pass", "Nothing to do")
        yield (
            f'<details class="result"{" open" if todo else ""}><summary>{said}'
            f'<span class="id">{shorten(owner, 80) or "no owner"}</span>'
            f'<span class="tag">{plural(len(todo) + len(others), "server")}</span></summary>'
            '<div class="inside"><ul class="breaches">'
        )
        order = sorted(todo, key=lambda each: STATES.index(each.state))
        yield from (_task(each, worse[each.name], page) for each in order)
        yield "</ul>"
        if others:
            names, more = first_entries([page.link(each.name) for each in others], page.limit)
            yield f'<p class="quiet">Nothing to do: {", ".join(names)}</p>{more}'
        yield "</div></details>"
    yield "</div>"


def _task(result: ServerResult, regressions: int, page: PageContext) -> str:
    """Return what is wrong with a server, and what mends it."""
    lines = [shorten(reason) for reason in result.reasons[:_MOST_REASONS]]
    if regressions:
        lines.append(f'<a href="#changes">{plural(regressions, "regression")}</a>')
    rows = catalogue()
    mends = dict.fromkeys(
        rows[each.requirement].mend
        for each in result.breaches
        if each.counts and each.verdict == "fail" and each.requirement in rows
    )
    lines += [f'<span class="quiet">{shorten(mend)}</span>' for mend in [*mends][:_MOST_REASONS]]
    shown = "".join(f"<div>{line}</div>" for line in lines)
    return (
        f"<li{page.data(result.name)}>{state_mark(result)} <b>{page.link(result.name)}</b>"
        f"{shown}</li>"
    )


# -- servers and areas


def area_matrix(page: PageContext) -> Iterator[str]:
    """Yield a table of servers and areas; nothing if no server was checked."""
    results = [result for result in page.view.run.results if result.verdicts]
    areas = used_areas(results)
    if not areas:
        return
    legend = (
        (f"{SIGNS['fail']} failed", "f"),
        (f"{SIGNS['warn']} warned", "w"),
        ("~ accepted, or newer than the set of rules", "a"),
        (f"{SIGNS['pass']} passed", "p"),
        (f"{SIGNS['not-exercised']} not exercised", "u"),
        ("empty: does not apply", ""),
    )
    shown = ", ".join(f'<span class="{style}">{text}</span>' for text, style in legend)
    yield f'<div class="card"><p class="legend">Requirements of each area: {shown}.</p>'
    yield '<div class="scroll" tabindex="0" role="group" aria-label="Servers and areas">'
    yield '<table class="matrix"><caption class="unseen">Servers and areas</caption>'
    heads = "".join(f'<th scope="col"><span>{escape_html(area)}</span></th>' for area in areas)
    yield f'<thead><tr><th scope="col">Server</th>{heads}</tr></thead><tbody>'
    for result in results:
        counts = count_by_area(result)
        cells = "".join(_area_cell(counts.get(area)) for area in areas)
        name = page.link(result.name)
        yield f'<tr{page.data(result.name)}><th scope="row">{name}</th>{cells}</tr>'
    yield "</tbody></table></div></div>"


def _area_cell(counts: Counter[str] | None) -> str:
    for verdict, style, sign in _CELLS:
        if counts is not None and counts[verdict]:
            return f'<td class="{style}">{sign}{counts[verdict]}</td>'
    return "<td></td>"


def broken_requirements(page: PageContext) -> Iterator[str]:
    """Yield the requirements that most servers break, each with its clause."""
    rows = most_broken(page.view.run)
    if not rows:
        return
    yield from _fold_rest([_broken_row(row, page) for row in rows])


def _fold_rest(entries: Sequence[str]) -> Iterator[str]:
    """Yield the first entries of a long list, and others folded."""
    yield '<div class="results">'
    yield from entries[:_MOST_OPEN]
    yield "</div>"
    folded, more = first_entries(entries[_MOST_OPEN:], _MOST_FOLDED)
    if folded:
        yield f'<details class="fold card"><summary>{len(folded)} more</summary>'
        yield from folded
        yield f"{more}</details>"


def _broken_row(row: BrokenRequirement, page: PageContext) -> str:
    verdict = "fail" if row.failing else "warn"
    names = (*row.failing, *row.warning)
    links = ", ".join(page.link(name) for name in names[:_MOST_NAMES])
    others = len(names) - _MOST_NAMES
    links += f" and {others} more" if others > 0 else ""
    id = escape_html(row.id)
    if row.page is not None:
        id = f'<a href="{escape_html(row.page)}" rel="noreferrer">{id}</a>'
    return (
        f'<div class="entry">{mark(verdict, plural(len(names), "server"))}'
        f'<div><p><span class="id">{id}</span> <span class="tag">{escape_html(row.level)}'
        f"</span> {shorten(row.clause)}</p>"
        f'<p class="quiet">{shorten(row.mend)}</p><p>{links}</p></div></div>'
    )


# -- the comparison


def comparison_parts(page: PageContext) -> Iterator[str]:
    """Yield what got worse, what got better, and what else differs."""
    comparison = page.view.comparison
    if comparison is None:
        return
    differences = comparison.differences
    against = shorten(comparison.against, 200)
    if not differences:
        yield f'<p class="card">Nothing differs from {against}.</p>'
    else:
        yield f'<p class="quiet">Compared with {against}.</p>'
        yield from _differences("Regressions", comparison.regressions, page)
        fixed = [each for each in differences if each.kind in FIXES]
        yield from _differences("Fixed", fixed, page)
        others = [e for e in differences if not e.is_regression and e.kind not in FIXES]
        others.sort(key=lambda each: not _risks(each, page))
        yield from _differences("Other changes", others, page)
    for title, ids in (
        ("New rules, which are never regressions", comparison.new_rules),
        ("Rules that the set no longer has", comparison.dropped_rules),
    ):
        if ids:
            shown, more = first_entries(ids, 50)
            listed = ", ".join(f"<code>{shorten(id, 100)}</code>" for id in shown)
            yield f'<details class="card fold"><summary>{title} ({len(ids)})</summary>'
            yield f"<p>{listed}</p>{more}</details>"


def _differences(title: str, found: Sequence[RunDifference], page: PageContext) -> Iterator[str]:
    if not found:
        return
    yield f'<div class="group"><h3>{title} <span class="quiet">{len(found):,}</span></h3>'
    yield from _fold_rest([_difference(each, page) for each in found])
    yield "</div>"


def _difference(each: RunDifference, page: PageContext) -> str:
    is_named = not each.subject or each.subject in each.text
    subject = "" if is_named else f" <code>{shorten(each.subject, 120)}</code>"
    flaky = ' <span class="tag">flaky</span>' if each.is_flaky else ""
    word, risks = DIFFERENCE_WORDS[each.kind].capitalize(), _risks(each, page)
    shown = mark("fail", word) if risks else difference_mark(each, word)
    return (
        f'<div class="entry"{page.data(each.server)}>{shown}'
        f"<div><b>{page.link(each.server)}</b>{subject} {unfold(each.text)}{flaky}"
        f"{_risk_lines(risks)}</div></div>"
    )


def _risks(each: RunDifference, page: PageContext) -> list[CatalogFinding]:
    place = page.places.get(each.server)
    if place is None or each.kind not in DRIFT:
        return []
    return find_risks(page.view.run.results[place]).get(each.subject, [])


def _risk_lines(risks: Iterable[CatalogFinding]) -> str:
    return "".join(
        f'<div class="f"><code>{shorten(each.id, 100)}</code> {unfold(each.text)}</div>'
        for each in risks
    )


def drift_list(page: PageContext) -> Iterator[str]:
    """Yield what servers offer that they did not offer before, with diffs."""
    results = [result for result in page.view.run.results if result.changes]
    if not results:
        return
    yield '<div class="results">'
    for result in results:
        kinds = Counter(change.kind for change in result.changes)
        worst = _CHANGES[next(kind for kind in _CHANGES if kinds[kind])]
        risks = find_risks(result)
        if any(change.subject in risks for change in result.changes):
            worst = "fail", "Risky text"
        counts = ", ".join(
            f"{kinds[kind]} {word.lower()}" for kind, (_, word) in _CHANGES.items() if kinds[kind]
        )
        since = f" since the {shorten(result.changed_since, 60)}" if result.changed_since else ""
        is_open = " open" if len(results) + len(result.changes) <= 6 else ""
        yield (
            f'<details class="result"{page.data(result.name)}{is_open}><summary>'
            f'{mark(*worst)}<span class="id">{shorten(result.name, 80)}</span>'
            f'<span class="tag">{plural(len(result.changes), "change")}</span>'
            f'<span class="summary quiet">{counts}{since}</span></summary><div class="inside">'
        )
        yield from _changes(result, page)
        yield "</div></details>"
    yield "</div>"


def _changes(result: ServerResult, page: PageContext) -> Iterator[str]:
    risks, kinds = find_risks(result), list(_CHANGES)
    ordered = sorted(
        result.changes, key=lambda each: (each.subject not in risks, kinds.index(each.kind))
    )
    shown, more = first_entries(ordered, page.limit)
    yield '<ul class="breaches">'
    for each in shown:
        yield from _change(each, risks.get(each.subject, []))
    yield f"</ul>{more}"


def _change(change: CatalogChange, risks: Sequence[CatalogFinding]) -> Iterator[str]:
    verdict, word = _CHANGES[change.kind]
    yield (
        f"<li>{mark('fail' if risks else verdict, word)} <b>{shorten(change.subject, 120)}</b>"
        f" {unfold(change.what, 200)}{_risk_lines(risks)}"
    )
    if change.before is not None or change.after is not None:
        yield show_diff(change.before, change.after)
    yield "</li>"


# -- findings


def finding_list(page: PageContext) -> Iterator[str]:
    """Yield the findings by their id; those about several servers together are first."""
    run = page.view.run
    groups: dict[tuple[int, int, str], list[CatalogFinding]] = {}
    for rank, findings in enumerate((run.findings, [e for r in run.results for e in r.findings])):
        for each in findings:
            key = (rank, each.severity != "warn", each.id)
            groups.setdefault(key, []).append(each)
    if not groups:
        return
    yield '<div class="results">'
    for (rank, is_info, id), found in sorted(groups.items()):
        servers = {each.server for each in found if each.server}
        about = "the fleet as a whole" if rank == 0 else plural(len(servers), "server")
        verdict = ("not-exercised", "Hint", "i") if is_info else ("warn", "Warning", None)
        yield (
            f'<details class="result"><summary>{mark(*verdict)}'
            f'<span class="id">{shorten(id, 100)}</span>'
            f'<span class="tag">{plural(len(found), "finding")}</span>'
            f'<span class="summary quiet">{about}</span></summary><div class="inside">'
        )
        shown, more = first_entries(found, page.limit)
        yield '<ul class="breaches">'
        yield from (_finding(each, page) for each in shown)
        yield f"</ul>{more}</div></details>"
    yield "</div>"


def _finding(finding: CatalogFinding, page: PageContext) -> str:
    server = f"<b>{page.link(finding.server)}</b> " if finding.server else ""
    subject = f"<code>{shorten(finding.subject, 120)}</code> " if finding.subject else ""
    notes = [shorten(finding.source, 200)] if finding.source else []
    notes += [f"accepted: {shorten(finding.accepted, 200)}"] if finding.accepted else []
    said = f' <span class="quiet">{"; ".join(notes)}</span>' if notes else ""
    return f"<li{page.data(finding.server)}>{server}{subject}{unfold(finding.text)}{said}</li>"


# -- trends


def trend_list(page: PageContext) -> Iterator[str]:
    """Yield a drawing per server that has at least two results."""
    drawn = [
        (place, result, points)
        for place, result in enumerate(page.view.run.results)
        if len(points := page.view.trends.get(result.name, ())) > 1
    ]
    if not drawn:
        return
    yield (
        '<div class="card"><p class="legend"><span class="f">Steps</span>: failures.'
        " Dashed line: coverage, from 0 to 100 %. Vertical line: the set of rules changed, so the"
        " two sides cannot be compared. Shaded: not checked.</p>"
        '<div class="trends">'
    )
    for place, result, points in drawn:
        last, most = points[-1], max(point.failures for point in points)
        said = f"{plural(last.failures, 'failure')} (most {most})"
        said += f", {last.exercised} of {last.applicable}"
        if last.state not in ("ok", "failed"):
            said = STATE_WORDS[last.state]
        yield (
            f'<figure data-server="{place}"><figcaption>{page.link(result.name)}'
            f' <span class="quiet">{said}</span></figcaption>'
            f"{trend_svg(points, f't{place}')}</figure>"
        )
    yield "</div></div>"


# -- details of one server: its stages, breaches, tests, output


_STAGE_SIGNS: Final = {
    "passed": "\u2713",
    "failed": "\u2715",
    "timed-out": "\u2026",
    "skipped": "\u2013",
    "reused": "=",
}
_STAGE_VERDICTS: Final = {
    "passed": "pass",
    "failed": "fail",
    "timed-out": "fail",
    "skipped": "not-applicable",
    "reused": "not-exercised",
}
_WORDS: Final = {"fail": "Failed", "warn": "Warning"}


def server_details(page: PageContext) -> Iterator[str]:
    """Yield the details of every server, folded; those with trouble first."""
    order = sorted(
        range(len(page.view.run.results)),
        key=lambda place: page.view.run.results[place].is_as_expected,
    )
    for place in order:
        result = page.view.run.results[place]
        said = result.reasons[0] if result.reasons else _in_short(result)
        yield (
            f'<details class="result server{_attention(result)}" id="server-{place}"'
            f' data-server="{place}">'
            f'<summary>{state_mark(result)}<span class="id">{shorten(result.name, 80)}</span>'
            f'<span class="tag">{shorten(result.server_version, 40)}</span>'
            f'<span class="summary quiet">{shorten(said, 200)}</span></summary>'
            '<div class="inside">'
        )
        yield from server_story(result, page)
        yield "</div></details>"


def _attention(result: ServerResult) -> str:
    """Return the class of what is printed unfolded."""
    return "" if result.is_as_expected else " attention"


def _in_short(result: ServerResult) -> str:
    counts = f"{plural(result.failures, 'failure')}, {plural(result.warnings, 'warning')}"
    return f"{counts}, {coverage_text(result)} exercised"


def server_story(result: ServerResult, page: PageContext) -> Iterator[str]:
    """Yield everything about a server that fits on the page."""
    yield '<dl class="facts">'
    yield from facts(_facts(result, page))
    yield "</dl>"
    was_skipped = result.state == "skipped"
    for title, lines in (
        ("Why it was skipped" if was_skipped else "Why it is not as expected", result.reasons),
        ("Remarks", result.remarks),
        ("Still running after it was stopped", result.left_processes),
    ):
        if lines:
            yield f"<h3>{title}</h3><ul>"
            yield from (f"<li>{unfold(line)}</li>" for line in lines[: page.limit])
            yield "</ul>"
    yield from _stages(result)
    yield from _breaches(result, page)
    yield from _tests(result, page)
    yield from _findings(result, page)
    yield from _tool_calls(result, page)
    yield from _doubts(result)
    if result.stderr:
        shown, more = first_entries(result.stderr, page.limit)
        written = "\n".join(shorten(line, 300) for line in shown)
        yield f"<h3>First and last lines of stderr</h3><pre>{written}</pre>{more}"


def _facts(result: ServerResult, page: PageContext) -> Iterator[tuple[str, str]]:
    catalog, timing = result.catalog, result.timing
    if (address := page.links.get(result.name)) is not None:
        yield "Report", f'<a href="{escape_html(address)}">all requirements</a>'
    yield "Target", f"<code>{shorten(result.target, 200)}</code>" if result.target else ""
    yield "Transport", shorten(result.transport, 40)
    yield "Revisions", escape_html(", ".join(result.revisions))
    yield "Says it is", shorten(f"{result.server_name} {result.server_version}".strip(), 80)
    yield "Owner", shorten(result.owner, 80)
    yield "Tags", shorten(", ".join(result.tags), 200)
    if result.applicable:
        yield "Coverage", coverage_text(result)
        yield "Score", score_text(result.score)
    yield "Accepted", str(result.accepted) if result.accepted else ""
    yield "Tests", tests_text(result) if result.tests.is_wanted else ""
    if catalog is not None:
        counts = [
            plural(count, noun)
            for count, noun in (
                (catalog.tools, "tool"),
                (catalog.resources, "resource"),
                (catalog.templates, "template"),
                (catalog.prompts, "prompt"),
            )
            if count
        ]
        yield "Offers", ", ".join(counts) or "nothing"
        yield "Tokens", f"{catalog.tokens:,}"
    yield "Start", "" if timing.start is None else seconds_text(timing.start)
    for name, median, most in (
        ("Ping", timing.ping_median, timing.ping_95),
        (f"Calls of {shorten(timing.tool, 40)}", timing.call_median, timing.call_95),
    ):
        if median is not None:
            worst = "" if most is None else f", 95 % within {seconds_text(most)}"
            yield name, f"median {seconds_text(median)}{worst}"
    yield "Took", seconds_text(result.seconds) if result.seconds else ""
    made = reused_text(result, page.view.run)
    yield "Result", f"reused, {shorten(made, 60)}" if made else ""
    yield "Not reusable", shorten(result.not_cached, 200)


def _anchor(result: ServerResult, page: PageContext, part: str) -> str:
    """Return the attribute by which links lead to a part of the details of a server."""
    return f' id="server-{page.places[result.name]}-{part}"'


def _stages(result: ServerResult) -> Iterator[str]:
    if not result.stages:
        return
    yield '<h3>Stages</h3><ol class="stages">'
    for stage in result.stages:
        sign, verdict = _STAGE_SIGNS[stage.state], _STAGE_VERDICTS[stage.state]
        took = f" {seconds_text(stage.seconds)}" if stage.seconds else ""
        text = f': <span class="quiet">{unfold(stage.text)}</span>' if stage.text else ""
        ended = mark(verdict, f"{stage.name} {STAGE_WORDS[stage.state]}", sign)
        yield f"<li>{ended}{took}{text}</li>"
    yield "</ol>"


def _breaches(result: ServerResult, page: PageContext) -> Iterator[str]:
    breaches = counted_breaches(result)
    if not breaches:
        return
    shown, more = first_entries(breaches, page.limit)
    yield f'<h3>Requirements broken ({len(breaches)})</h3><ul class="breaches">'
    yield from (_breach(each) for each in shown)
    yield f"</ul>{more}"


def _breach(breach: RequirementBreach) -> str:
    notes = [escape_html(", ".join(breach.revisions))] if breach.revisions else []
    if breach.accepted:
        notes.append(f"accepted: {shorten(breach.accepted, 200)}")
    if breach.is_pending:
        notes.append("newer than the set of rules, does not count")
    verdict = breach.verdict if breach.counts else "not-applicable"
    return (
        f"<li>{mark(verdict, _WORDS[breach.verdict])} <code>{shorten(breach.requirement, 100)}"
        f'</code> <span class="tag">{escape_html(breach.level)}</span> {unfold(breach.message)}'
        f' <span class="quiet">{"; ".join(notes)}</span></li>'
    )


def _tests(result: ServerResult, page: PageContext) -> Iterator[str]:
    if not result.tests.failures:
        return
    shown, more = first_entries(result.tests.failures, page.limit)
    anchor = _anchor(result, page, "tests")
    yield f'<h3{anchor}>Tests that failed ({result.tests.failed})</h3><ul class="breaches">'
    for test in shown:
        yield (
            f"<li>{mark('fail', shorten(test.kind, 40) or 'test')} <b>{shorten(test.name, 120)}</b>"
            f" {unfold(test.summary)}"
        )
        if test.repeat:
            yield (
                f'<div class="again"><pre><code>{shorten(test.repeat, 1000)}</code></pre>'
                '<button type="button" class="copy" hidden>Copy</button></div>'
            )
        yield "</li>"
    yield f"</ul>{more}"


def _findings(result: ServerResult, page: PageContext) -> Iterator[str]:
    """Yield the findings about a server that count, warnings first."""
    counted = [each for each in result.findings if not each.accepted]
    if not counted:
        return
    ordered = sorted(counted, key=lambda each: not is_warning(each))
    shown, more = first_entries(ordered, page.limit)
    anchor = _anchor(result, page, "findings")
    yield f'<h3{anchor}>Findings ({len(counted)})</h3><ul class="breaches">'
    for each in shown:
        is_hint = not is_warning(each)
        said = mark("not-exercised", "Hint", "i") if is_hint else mark("warn", "Warning")
        subject = f"<b>{shorten(each.subject, 120)}</b> " if each.subject else ""
        yield f"<li>{said} <code>{shorten(each.id, 100)}</code> {subject}{unfold(each.text)}</li>"
    yield f"</ul>{more}"


def _tool_calls(result: ServerResult, page: PageContext) -> Iterator[str]:
    called = [each for each in result.tool_calls if each.calls]
    if not called:
        return
    # Those that never worked first.
    ordered = sorted(called, key=lambda each: not each.never_succeeded)
    shown, more = first_entries(ordered, page.limit)
    yield f'<details class="fold"><summary>Calls of {plural(len(called), "tool")}</summary><ul>'
    for each in shown:
        style = ' class="f"' if each.never_succeeded else ""
        yield f"<li{style}><code>{shorten(each.name, 100)}</code>: {count_calls(each)}</li>"
    yield f"</ul>{more}</details>"


def _doubts(result: ServerResult) -> Iterator[str]:
    """Yield which verdicts change without cause, and which were decided by a second check."""
    if result.flaky:
        shown, more = first_entries(result.flaky, 20)
        ids = ", ".join(f"<code>{shorten(id, 100)}</code>" for id in shown)
        yield f"<h3>Verdicts that change without cause</h3><p>{ids}</p>{more}"
    if result.repeated:
        pairs, more = first_entries(list(result.repeated.items()), 20)
        ids = ", ".join(f"<code>{shorten(id, 100)}</code> (was {word})" for id, word in pairs)
        yield f"<h3>Checked again alone, because the machine was busy</h3><p>{ids}</p>{more}"
