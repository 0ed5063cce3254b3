"""The table of servers on a fleet's page: a row of numbers each, and a line of text below it."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from accord_tools.check.rendering.html import SIGNS
from accord_tools.fleet.rendering.elements import (
    STATE_VERDICTS,
    PageContext,
    shorten,
    state_mark,
    unfold,
)
from accord_tools.fleet.rendering.trends import trend_box
from accord_tools.fleet.rendering.wording import (
    DRIFT,
    change_text,
    coverage_percent,
    coverage_text,
    differences_by_server,
    find_risks,
    reused_text,
    score_text,
    seconds_text,
    tests_text,
)
from accord_tools.fleet.results import STATES, RunDifference, ServerResult


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
        for name, (value, text) in _facts(result).items()
    ]
    return f'{why}<div class="about">{_DOT.join(about)}</div>' if about else why


def _facts(result: ServerResult) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    if (start := result.timing.start) is not None:
        found["start"] = f"{start:.4g}", f"start {seconds_text(start)}"
    if result.catalog is not None:
        tokens = result.catalog.tokens
        found["tokens"] = str(tokens), f"{tokens:,} tokens"
    if result.server_version:
        found["version"] = "", f"version {shorten(result.server_version, 24)}"
    return found
