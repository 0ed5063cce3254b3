"""Files of cases in pytest runs of their own."""

import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

LOOSE = Path(__file__).parent / "loose.py"
EXAMPLE = Path(__file__).parents[3] / "examples" / "everything.accord.toml"


def ran(pytester: pytest.Pytester, *words: object, **counts: int) -> str:
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:cov", *words)
    result.assert_outcomes(**counts)
    return str(result.stdout)


def written(pytester: pytest.Pytester, habit: str, more: str = "", name: str = "a") -> Path:
    command = [sys.executable, "-S", "-E", str(LOOSE), habit]
    path = pytester.path / f"{name}.accord.toml"
    path.write_text(f"command = {command!r}\nexamples = 5\n{more}")
    return path


def test_each_case_and_each_contract_test_is_an_item(pytester: pytest.Pytester) -> None:
    written(pytester, "good", '[[case]]\nname = "it reads"\nread = "note://1"\n')
    out = ran(pytester, "-v", "-rs", passed=16, skipped=1)
    assert "a.accord.toml::count answers valid arguments PASSED" in out
    assert "a.accord.toml::it reads PASSED" in out
    assert "run with --tool" in out


def test_a_failure_is_shown_without_a_traceback(pytester: pytest.Pytester) -> None:
    more = 'contract = false\n[[case]]\nname = "it counts"\ncall = "count"\narguments = { a = 3 }\n'
    written(pytester, "good", f"{more}expect = {{ text = 'three' }}\n")
    out = ran(pytester, failed=1)
    assert 'sent:     count {"a": 3}\nexpected: the text "three"\nreceived: "{' in out
    assert "again:    accord call count --unchecked --json" in out
    assert 'a.accord.toml::it counts - expected the text "three"; received' in out
    assert "runtest" not in out


def test_a_mistake_in_the_file_is_a_collection_error(pytester: pytest.Pytester) -> None:
    path = written(pytester, "good", "[[case]]\ncall = 'x'\n")
    out = ran(pytester, errors=1)
    assert f"{path}:3: case 1 has no name" in out


def test_an_unreachable_server_is_a_collection_error(
    pytester: pytest.Pytester,
) -> None:
    (pytester.path / "a.accord.toml").write_text('command = ["accord-there-is-no-such-command"]')
    assert "accord-there-is-no-such-command" in ran(pytester, errors=1)


def test_tests_can_be_selected_by_words_of_their_names(pytester: pytest.Pytester) -> None:
    written(pytester, "good")
    ran(pytester, "-k", "refuses and tag", passed=2, deselected=14)


def test_the_example_passes(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:cov", "-v", EXAMPLE)
    assert set(result.parseoutcomes()) == {"passed", "skipped"}
    assert "plans a journey PASSED" in str(result.stdout)
