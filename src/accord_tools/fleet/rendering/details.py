"""The details of one server on a fleet's page: its stages, breaches, tests, output."""

from collections.abc import Iterator
from typing import Final

from accord_tools.check.rendering.html import escape_html
from accord_tools.check.rendering.wording import count_calls, plural
from accord_tools.fleet.outcome import is_warning
from accord_tools.fleet.rendering.elements import (
    PageContext,
    facts,
    first_entries,
    mark,
    shorten,
    state_mark,
    unfold,
)
from accord_tools.fleet.rendering.wording import (
    STAGE_WORDS,
    counted_breaches,
    coverage_text,
    reused_text,
    score_text,
    seconds_text,
    tests_text,
)
from accord_tools.fleet.results import RequirementBreach, ServerResult

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
