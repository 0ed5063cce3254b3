"""Tables of cases: each row runs, a row that fails is named, and all are counted."""

import pytest

from support.tables import cases

pytest_plugins = ["pytester"]

CONFTEST = "from support.tables import pytest_addoption, pytest_terminal_summary"
ODD = """
import pytest
from support.tables import cases

RAN = []

@cases("number", [1, 2, 3, 4])
def test_is_odd(number):
    RAN.append(number)
    assert number % 2 == 1

def test_all_rows_ran():
    assert RAN == [1, 2, 3, 4]
"""
CROSSED = """
import pytest
from support.tables import cases

@pytest.fixture
def ten():
    return 10

@cases("a", [1, 2], ids=["one", "two"])
@cases("b, c", [(1, 1), pytest.param(2, 2, id="pair")])
def test_crossed(ten, a, b, c):
    print(f"ran {a} {b} {c} {ten}")
    assert (a, b) != (2, 2), "the last row"

@cases("b", [1, 2])
def test_skipped(b):
    pytest.skip("not here")
"""


@pytest.fixture
def run(pytester):
    """Run a test file that may use tables."""
    pytester.makeconftest(CONFTEST)

    def run(text, *options):
        pytester.makepyfile(text)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)

    return run


def test_rows_after_one_that_fails_run_all_the_same(run):
    result = run(ODD)
    result.assert_outcomes(passed=1, failed=3)  # two rows, and the test that has them
    result.stdout.fnmatch_lines(["SUBFAILED*2* *test_is_odd*", "SUBFAILED*4* *test_is_odd*"])


def test_the_rows_are_counted(run):
    run(ODD).stdout.fnmatch_lines(["4 cases ran as rows of 1 tests"])


def test_tables_are_crossed_and_rows_get_fixtures(run):
    result = run(CROSSED, "-rA")
    result.stdout.fnmatch_lines(["ran 1 1 1 10", "ran 1 2 2 10", "ran 2 1 1 10", "ran 2 2 2 10"])
    result.stdout.fnmatch_lines(["SUBFAILED*pair-two* *test_crossed*"])


def test_a_table_whose_rows_all_skip_is_skipped(run):
    run(CROSSED, "-k", "test_skipped").assert_outcomes(skipped=1)


def test_an_option_chooses_rows_by_their_id(run):
    result = run(CROSSED, "-k", "crossed", "--case=-one")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["2 cases ran as rows of 1 tests"])


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([], "without rows"),
        ([(1, 2, 3)], "row 0 has 3 values, expected 2"),
        ([pytest.param(1, 2, marks=pytest.mark.thorough)], "row 0 has marks"),
    ],
)
def test_a_faulty_table_is_refused(rows, error):
    with pytest.raises(ValueError, match=error):
        cases("a, b", rows)(lambda a, b: None)
