"""Tables of cases: a test that runs once for each row, within one item of pytest.

An item costs pytest about a millisecond, and a process that runs tests collects all of them. Tests
whose rows take less than that run their rows themselves. A row that fails is reported as a subtest,
with its id and its own traceback, and the other rows run all the same. `--case TEXT` runs the rows
whose id contains the text.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

Test = Callable[..., None]
Ids = Sequence[str | None] | Callable[[Any], object] | None

COUNT = "cases"
"""The property of a report that says how many rows ran."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option that chooses rows of tables."""
    parser.addoption("--case", help="of tables of cases, run the rows whose id contains this")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count the rows of tables that ran, which are more than the tests."""
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    counts = [
        number
        for report in reports
        if report.when == "call" and not isinstance(report, pytest.SubtestReport)
        for name, number in report.user_properties
        if name == COUNT
    ]
    if counts:
        terminalreporter.write_line(f"{sum(counts)} cases ran as rows of {len(counts)} tests")


class Case(NamedTuple):
    """One row: its id, and the values of the arguments."""

    id: str
    values: dict[str, Any]


def cases(names: str | Sequence[str], rows: Iterable[Any], *, ids: Ids = None) -> Any:
    """Run a test for each row, as `pytest.mark.parametrize` does, but within one item.

    Fixtures of the test are set up once for all rows.
    """
    columns = [each.strip() for each in names.split(",")] if isinstance(names, str) else [*names]
    table = list(_read(columns, list(rows), ids))

    def decorate(test: Test) -> Test:
        inner, own = getattr(test, "table", (test, [Case("", {})]))
        crossed = [
            Case("-".join(filter(None, (case.id, row.id))), case.values | row.values)
            for row in table
            for case in own
        ]
        return _with_table(inner, crossed)

    return decorate


def _read(columns: list[str], rows: list[Any], ids: Ids) -> Iterator[Case]:
    listed = [None] * len(rows) if ids is None or callable(ids) else [*ids]
    for number, (row, given) in enumerate(zip(rows, listed, strict=True)):
        if isinstance(row, type(pytest.param())):
            if row.marks:
                raise ValueError(f"row {number} has marks; use pytest.mark.parametrize for it")
            given, values = given or row.id, row.values
        else:
            values = (row,) if len(columns) == 1 else tuple(row)
        if len(values) != len(columns):
            raise ValueError(f"row {number} has {len(values)} values, expected {len(columns)}")
        if given is None:
            words = [None if not callable(ids) else ids(value) for value in values]
            given = "-".join(
                str(word) if word is not None else _id(name, value, number)
                for word, name, value in zip(words, columns, values, strict=True)
            )
        yield Case(str(given), dict(zip(columns, values, strict=True)))


def _id(name: str, value: Any, number: int) -> str:
    if isinstance(value, str | int | float | bool | bytes | None):
        return str(value)
    return getattr(value, "__name__", f"{name}{number}")


def _with_table(test: Test, table: list[Case]) -> Test:
    if not table:
        raise ValueError(f"{test.__name__} has a table without rows")
    rows = {name for case in table for name in case.values}
    signature = inspect.signature(test)
    fixtures = [each for name, each in signature.parameters.items() if name not in rows]
    own = [each.name for each in fixtures]
    fixtures += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
        for name in ("request", "subtests")
        if name not in own
    ]

    @functools.wraps(test)
    def run(**given: Any) -> None:
        request, subtests = given["request"], given["subtests"]
        wanted = request.config.getoption("--case")
        chosen = [case for case in table if wanted is None or wanted in case.id]
        arguments = {name: given[name] for name in own}
        skipped = []
        for case in chosen:
            try:
                test(**arguments, **case.values)
            except pytest.skip.Exception as skip:
                skipped.append(str(skip))
            except (Exception, pytest.fail.Exception):
                with subtests.test(case.id):
                    raise
        request.node.user_properties.append((COUNT, len(chosen) - len(skipped)))
        if chosen and len(skipped) == len(chosen):
            pytest.skip(skipped[0])

    run.table = (test, table)
    del run.__wrapped__  # pytest would read the arguments of the test itself
    run.__signature__ = signature.replace(parameters=fixtures)
    return run
