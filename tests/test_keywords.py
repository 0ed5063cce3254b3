"""A misspelt keyword is reported, with the one that was meant, wherever keywords are passed on."""

import doctest

import pytest

from accord import errors


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(errors).failed == 0


def test_an_unknown_keyword_is_reported_with_those_that_exist() -> None:
    with pytest.raises(TypeError, match="tool\\(\\) has no keyword 'q'; it has name, timeout"):
        errors.refuse_unknown("tool()", ["q"], ["timeout", "name"])


def test_keywords_that_exist_are_passed_on() -> None:
    errors.refuse_unknown("tool()", ["timeout", "name"], ["name", "timeout"])
