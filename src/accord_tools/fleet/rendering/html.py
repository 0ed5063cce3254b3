"""A fleet's report as one HTML page: what the template `fleet.html` shows, in its order."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Any, Final, NamedTuple, TypeAlias

from accord.protocol.catalogue import catalogue
from accord_tools.fleet.rendering import wording
from accord_tools.fleet.rendering.trend import draw_trend, trend_box, trend_words
from accord_tools.fleet.results import (
    STATES,
    CatalogChange,
    CatalogFinding,
    ChangeKind,
    FleetView,
    RunDifference,
    ServerResult,
    ServerState,
    StageState,
    TrendPoint,
)
from accord_tools.reports.html import SIGNS, bar_shares, cut, render_page
from accord_tools.reports.wording import plural

# What the colour of a state is named after: a verdict, or the state where no verdict is like it.
_STATE_VERDICTS: Final[dict[ServerState, str]] = {
    "ok": "pass",
    "failed": "fail",
    "unreachable": "unreachable",
    "timed-out": "warn",
    "skipped": "not-applicable",
}
_STATE_SIGNS: Final[dict[ServerState, str]] = {
    "ok": SIGNS["pass"],
    "failed": SIGNS["fail"],
    "unreachable": "\u2298",
    "timed-out": "\u2026",
    "skipped": SIGNS["not-applicable"],
}
# The colour and the sign of a stage.
_STAGES: Final[dict[StageState, tuple[str, str]]] = {
    "passed": ("pass", SIGNS["pass"]),
    "failed": ("fail", SIGNS["fail"]),
    "timed-out": ("fail", "\u2026"),
    "skipped": ("not-applicable", SIGNS["not-applicable"]),
    "reused": ("not-exercised", "="),
}
_CHANGES: Final[dict[ChangeKind, tuple[str, str]]] = {
    "breaking": ("fail", "Breaking"),
    "text": ("warn", "Text"),
    "compatible": ("pass", "Compatible"),
}
# The cell of an area shows the first of these that it has.
_CELLS: Final = (
    ("fail", "f", SIGNS["fail"]),
    ("warn", "w", SIGNS["warn"]),
    ("accepted", "a", "~"),
    ("pass", "p", SIGNS["pass"]),
    ("not-exercised", "u", SIGNS["not-exercised"]),
    ("not-recorded", "u", SIGNS["not-exercised"]),
)
_MOST_IN_DIFF: Final = 4000
_MOST_LINES: Final = 16
# Lists are shortened until their entries fit into this, as long as texts are of usual length.
_BYTES_FOR_LISTS: Final = 800_000
_BYTES_PER_ENTRY: Final = 700
_LIMITS: Final = (200, 100, 50, 25, 12, 6, 3, 1)
# A page that is larger has shorter lists.
_MOST_BYTES: Final = 1_900_000


class _Column(NamedTuple):
    """A column of the table, and the order in which it is sorted at first."""

    title: str
    is_number: bool = True
    first: str = "ascending"


_LARGEST: Final = "descending"
_COLUMNS: Final = {
    "server": _Column("Server", is_number=False),
    "state": _Column("State", is_number=False),
    "failures": _Column("Failures", first=_LARGEST),
    "warnings": _Column("Warnings", first=_LARGEST),
    "coverage": _Column("Coverage"),
    "score": _Column("Score"),
    "tests": _Column("Tests", first=_LARGEST),
    "tools": _Column("Tools", first=_LARGEST),
    "change": _Column("Change", is_number=False, first=_LARGEST),
    "trend": _Column("Trend"),
}
# Facts of the line below a row, which the table can be sorted by as well.
_FACTS: Final = {
    "start": _Column("Start", first=_LARGEST),
    "tokens": _Column("Tokens", first=_LARGEST),
    "version": _Column("Version", is_number=False),
}


class _Cell(NamedTuple):
    """A cell of the table: its text, the number that it is sorted by, its style.

    `sign` repeats what the style says; `note` stands below.
    """

    text: str = ""
    value: object = ""
    style: str = ""
    sign: str = ""
    note: str = ""


_UNKNOWN: Final = _Cell("\u2013", style="unknown")


# A change, and what may be dangerous in its entry.
_RiskyChange: TypeAlias = tuple[CatalogChange, list[CatalogFinding]]


class FleetPage:
    """What a page about servers of a fleet shows.

    Args:
        view: the run and all that is known beside it.
        links: the address of each server's own page, if it has one.
        limit: how many entries of a list are shown; by default as many as usually fit.

    Attributes:
        places: the place of each server in the run, by which elements are named.
        worst_first: the servers with their places, by state.
        troubled_first: likewise, those that are not as expected first.
        tags: all tags, by whose places filters choose servers; likewise `owners`.
    """

    def __init__(
        self, view: FleetView, links: Mapping[str, str] | None = None, limit: int | None = None
    ) -> None:
        results = view.run.results
        self.view, self.links = view, links or {}
        self.limit = _list_limit(view) if limit is None else limit
        self.places: dict[str, int] = {}
        for place, result in enumerate(results):
            self.places.setdefault(result.name, place)
        places = list(enumerate(results))
        self.worst_first = sorted(places, key=lambda each: STATES.index(each[1].state))
        self.troubled_first = sorted(places, key=lambda each: each[1].is_as_expected)
        self.tags = sorted({tag for result in results for tag in result.tags})
        self.owners = sorted({result.owner for result in results if result.owner})
        self._differences = wording.differences_by_server(view)

    def numbers_of_tags(self, result: ServerResult) -> str:
        """Return the places of a server's tags."""
        return ",".join(str(self.tags.index(tag)) for tag in dict.fromkeys(result.tags))

    def trend(self, name: str) -> Sequence[TrendPoint]:
        """Return the earlier results of a server; empty if there is only one."""
        points = self.view.trends.get(name, ())
        return points if len(points) > 1 else ()

    def trends(self) -> list[tuple[int, ServerResult, Sequence[TrendPoint]]]:
        """Return the servers that have a trend, with their places."""
        found = ((place, each) for place, each in enumerate(self.view.run.results))
        return [(place, each, points) for place, each in found if (points := self.trend(each.name))]

    def columns(self) -> dict[str, _Column]:
        """Return the columns of the table; those that would be empty are left out."""
        absent = {"change"} if self.view.comparison is None else set()
        if not any(map(self.trend, self.view.trends)):
            absent.add("trend")
        return {name: column for name, column in _COLUMNS.items() if name not in absent}

    def cells(self, result: ServerResult) -> dict[str, _Cell]:
        """Return the cells of a server, by column."""
        limits, catalog = result.expect, result.catalog
        cells = dict.fromkeys(_COLUMNS, _UNKNOWN)
        del cells["server"]
        made = wording.reused_text(result, self.view.run)
        cells["state"] = _Cell(value=STATES.index(result.state), note=made)
        cells["change"] = self._change(result)
        if result.applicable:
            percent, coverage = wording.coverage_percent(result), wording.coverage_text(result)
            cells["failures"] = _count(result.failures, limits.failures, "fail")
            cells["warnings"] = _count(result.warnings, limits.warnings, "warn")
            cells["coverage"] = _Cell(coverage, percent or 0)
            cells["score"] = _Cell(wording.score_text(result.score), result.score or 0)
        if result.tests.is_wanted:
            cells["tests"] = _count_tests(result)
        if catalog is not None:
            cells["tools"] = _Cell(f"{catalog.tools:,}", catalog.tools)
        if self.trend(result.name):
            cells["trend"] = _Cell(style="spark")
        return cells

    def about(self, result: ServerResult) -> list[tuple[str, str, str]]:
        """Return the facts below a row: a name and value to sort it by, if any, and a text."""
        start, catalog = result.timing.start, result.catalog
        texts = (result.owner, ", ".join(result.tags))
        found = [("", "", cut(text, 60)) for text in texts if text]
        if start is not None:
            found.append(("start", f"{start:.4g}", f"start {wording.seconds_text(start)}"))
        if catalog is not None:
            found.append(("tokens", str(catalog.tokens), f"{catalog.tokens:,} tokens"))
        if result.server_version:
            found.append(("version", "", f"version {cut(result.server_version, 24)}"))
        return found

    def _change(self, result: ServerResult) -> _Cell:
        differences = self._differences.get(result.name, [])
        worse = sum(each.is_regression for each in differences)
        risks = wording.find_risks(result)
        risky = sum(each.kind in wording.DRIFT and each.subject in risks for each in differences)
        return _Cell(
            wording.change_text(differences),
            1000 * (worse + risky) + len(differences),
            "is-fail" if worse or risky else "",
            note="risky text" if risky else "",
        )

    def areas(self) -> tuple[list[str], list[tuple[ServerResult, dict[str, Counter[str]]]]]:
        """Return the areas in which a requirement applies to a server, and the counts of each."""
        results = [each for each in self.view.run.results if each.verdicts]
        rows = [(each, wording.count_by_area(each)) for each in results]
        return wording.order_areas(area for _, counts in rows for area in counts), rows

    def regressions(self, result: ServerResult) -> int:
        """Return in how many ways a server got worse."""
        return sum(each.is_regression for each in self._differences.get(result.name, []))

    def tasks(self) -> list[tuple[str, list[ServerResult], list[ServerResult]]]:
        """Return the servers of each owner that need attention, the worst first, and the others.

        The owner with most to do is first. Without owners there are no tasks.
        """
        owned: dict[str, list[ServerResult]] = {}
        for _, result in self.worst_first if self.owners else ():
            owned.setdefault(result.owner, []).append(result)
        rows = []
        for owner, results in owned.items():
            todo = [each for each in results if not each.is_as_expected or self.regressions(each)]
            others = [each for each in results if each not in todo]
            others.sort(key=lambda each: self.places[each.name])
            rows.append((owner, todo, others))
        return sorted(rows, key=lambda each: (-len(each[1]), each[0]))

    def mends(self, result: ServerResult) -> list[str]:
        """Return what mends the failures of a server."""
        rows = catalogue()
        broken = (each for each in result.breaches if each.counts and each.verdict == "fail")
        found = (rows[e.requirement].mend for e in broken if e.requirement in rows)
        return list(dict.fromkeys(found))

    def differences(self) -> list[tuple[str, Sequence[RunDifference]]]:
        """Return what got worse, what got better, and what else differs, with titles."""
        comparison = self.view.comparison
        if comparison is None:
            return []
        worse, fixed, others = wording.group_differences(comparison)
        others.sort(key=lambda each: not self.risks(each))
        return [("Regressions", worse), ("Fixed", fixed), ("Other changes", others)]

    def risks(self, each: RunDifference) -> list[CatalogFinding]:
        """Return what may be dangerous in the entry that differs."""
        place = self.places.get(each.server)
        if place is None or each.kind not in wording.DRIFT:
            return []
        return wording.find_risks(self.view.run.results[place]).get(each.subject, [])

    def drift(self) -> Iterator[tuple[ServerResult, str, str, str, list[_RiskyChange]]]:
        """Yield which servers offer something else than before, in how many ways and which.

        The colour and the word are those of the worst change. Dangerous changes are first.
        """
        for result in self.view.run.results:
            if result.changes:
                risks, kinds = wording.find_risks(result), list(_CHANGES)
                changes = [(each, risks.get(each.subject, [])) for each in result.changes]
                changes.sort(key=lambda each: (not each[1], kinds.index(each[0].kind)))
                counts = Counter(each.kind for each in result.changes)
                present = [(kind, word) for kind, (_, word) in _CHANGES.items() if counts[kind]]
                worst = ("fail", "Risky text") if changes[0][1] else _CHANGES[present[0][0]]
                shown = ", ".join(f"{counts[kind]} {word.lower()}" for kind, word in present)
                yield result, *worst, shown, changes

    def findings(self) -> list[tuple[str, bool, bool, list[CatalogFinding]]]:
        """Return the findings by their id: whether they are hints, and about a single server.

        Those about several servers together are first.
        """
        run = self.view.run
        groups: dict[tuple[bool, bool, str], list[CatalogFinding]] = {}
        for findings in (run.findings, *(result.findings for result in run.results)):
            for each in findings:
                key = (findings is not run.findings, each.severity != "warn", each.id)
                groups.setdefault(key, []).append(each)
        return [
            (id, is_hint, is_single, found)
            for (is_single, is_hint, id), found in sorted(groups.items(), key=lambda e: e[0])
        ]


def as_html(view: FleetView, *, links: Mapping[str, str] | None = None) -> str:
    """Return the report as one complete page.

    Args:
        view: the run and all that is known beside it.
        links: the address of each server's own page, if it has one.
    """
    text, first = "", _list_limit(view)
    for limit in _LIMITS:
        if limit <= first:
            text = _render(FleetPage(view, links, limit))
            if len(text.encode("utf-8")) <= _MOST_BYTES:
                break
    return text


def _count(count: int, limit: int | None, verdict: str) -> _Cell:
    """Return a count: grey with the limit if a limit allows it, else in the colour of a verdict."""
    if not count:
        return _Cell("0", 0, "none")
    allowed = f"of {limit:,} allowed" if limit else ""
    if limit is None and verdict == "fail":
        allowed = "any allowed"
    if allowed and (limit is None or count <= limit):
        return _Cell(f"{count:,}", count, "none", note=allowed)
    return _Cell(f"{count:,}", count, f"is-{verdict}", SIGNS[verdict], allowed)


def _count_tests(result: ServerResult) -> _Cell:
    tests, limit = result.tests, result.expect.tests
    passed, *notes = wording.tests_text(result).split(", ")
    style = "is-fail" if tests.failed or tests.no_time else ""
    if tests.failed and (limit is None or tests.failed <= limit):
        notes.insert(0, f"{'any number' if limit is None else f'{limit:,}'} may fail")
        style = "is-fail" if tests.no_time else "none"
    return _Cell(passed, tests.failed + tests.no_time, style, note=", ".join(notes))


def _list_limit(view: FleetView) -> int:
    """Return the longest length for lists with which the page does not grow too large."""
    lengths = [
        len(each)
        for result in view.run.results
        for each in (result.breaches, result.tests.failures, result.changes, result.findings)
    ]
    lengths += [len(view.run.findings)]
    most = _BYTES_FOR_LISTS // _BYTES_PER_ENTRY
    fitting = (limit for limit in _LIMITS if sum(min(e, limit) for e in lengths) <= most)
    return next(fitting, _LIMITS[-1])


def _render(page: FleetPage) -> str:
    view, summary = page.view, wording.summarize(page.view)
    columns = page.columns()
    return render_page(
        "fleet.html",
        **server_facts(page),
        product="MCP fleet",
        title=cut(wording.fleet_title(view.run), 120),
        summary=summary,
        state=wording.outcome_state(view.run),
        comparison=view.comparison,
        shares=bar_shares({_STATE_VERDICTS[each]: summary.states[each] for each in STATES}),
        columns=columns,
        orders=[(n, c) for n, c in {**columns, **_FACTS}.items() if n != "trend"],
        chips=[
            (each, wording.STATE_WORDS[each].capitalize())
            for each in STATES
            if summary.states[each]
        ],
        CHANGES=_CHANGES,
        area_cell=_area_cell,
        diff_lines=_diff_lines,
        draw_trend=draw_trend,
        trend_box=trend_box,
        trend_words=trend_words,
    )


def server_facts(page: FleetPage) -> dict[str, Any]:
    """Return what the templates need that show a server."""
    return {
        "page": page,
        "run": page.view.run,
        "version": page.view.run.accord,
        "fleet_words": wording,
        "STAGES": _STAGES,
        "STATES": STATES,
        "STATE_SIGNS": _STATE_SIGNS,
        "STATE_VERDICTS": _STATE_VERDICTS,
    }


def _area_cell(counts: Counter[str] | None) -> tuple[str, str]:
    """Return the style and the text of the cell of an area."""
    for verdict, style, sign in _CELLS:
        if counts is not None and counts[verdict]:
            return style, f"{sign}{counts[verdict]}"
    return "", ""


def _diff_lines(before: str | None, after: str | None) -> Iterator[tuple[str, str]]:
    """Yield the lines of two JSON values that were removed and added, with their elements."""
    lines = [
        line
        for line in list(
            unified_diff(_json_lines(before), _json_lines(after), n=1, lineterm=""),
        )[2:]
        if not line.startswith("@@")
    ]
    tags = {"-": "del", "+": "ins", " ": "span"}
    yield from ((tags[line[0]], f"{line[0]} {line[1:]}") for line in lines[:_MOST_LINES])
    if len(lines) > _MOST_LINES:
        yield "span", plural(len(lines) - _MOST_LINES, "more line")


def _json_lines(text: str | None) -> list[str]:
    if text is None:
        return []
    if len(text) > _MOST_IN_DIFF:
        return [f"{text[:_MOST_IN_DIFF]} ..."]
    try:
        shown = json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    except (ValueError, RecursionError):
        shown = text
    # Only these breaks: others are escaped and stay visible.
    return shown.split("\n")
