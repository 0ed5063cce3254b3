"""Docstrings: three styles, and text that fits none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.server.schema.docstrings import parse_docstring as parse

GOOGLE = """Find things.

    Looks everywhere.

    Args:
        query: What to look for,
            in plain words.
        limit (int, optional): How many: at most.
        *rest: The rest.

    Returns:
        list[str]: The names found.

    Raises:
        ValueError: never.

    Example:
        find("x")
    """

NUMPY = """Find things.

    Looks everywhere.

    Parameters
    ----------
    query : str
        What to look for,
        in plain words.
    limit : int, optional
        How many: at most.
    x, y : float
        Where.

    Returns
    -------
    list of str
        The names found.

    Raises
    ------
    ValueError
        never.
    """

SPHINX = """Find things.

    Looks everywhere.

    :param query: What to look for,
        in plain words.
    :param int limit: How many: at most.
    :type query: str
    :raises ValueError: never.
    :returns: The names found.
    :rtype: list[str]
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_all_styles_say_the_same(text):
    found = parse(text)
    assert found.summary.startswith("Find things.\n\nLooks everywhere.")
    assert found.parameters["query"] == "What to look for, in plain words."
    assert found.parameters["limit"] == "How many: at most."
    assert "names found" not in found.summary
    assert "never" not in found.summary
    assert "limit" not in found.summary


def test_examples_stay_in_the_prose():
    assert 'find("x")' in parse(GOOGLE).summary


def test_a_numpy_entry_may_name_several_parameters():
    found = parse(NUMPY)
    assert found.parameters["x"] == found.parameters["y"] == "Where."


def test_starred_parameters_lose_their_stars():
    assert parse(GOOGLE).parameters["rest"] == "The rest."


def test_an_empty_docstring_has_no_parts():
    assert parse(None) == parse("") == ("", {})


@pytest.mark.parametrize(
    "text",
    [
        "Do it.\n\nArgs:\nnot indented, so not a section",
        "Do it.\n\nReturns\nnothing to speak of",
        "Do it.\n\nReturns\n--\nnothing",
    ],
    ids=["colon", "no rule", "short rule"],
)
def test_prose_that_looks_like_a_heading_is_prose(text):
    assert parse(text) == (text, {})


def test_fields_without_text_are_left_out():
    found = parse("X.\n\n:param: what?\n:param a: One.\n:returns: Two.\n:returns:")
    assert found == ("X.", {"a": "One."})


def test_unknown_fields_are_prose():
    assert parse(":custom thing: text").summary == ":custom thing: text"


def test_paragraphs_of_a_description_stay_apart():
    found = parse("X.\n\nArgs:\n    a: One.\n\n        Two.\n    b: Three.")
    assert found.parameters == {"a": "One.\nTwo.", "b": "Three."}


def test_text_after_a_section_is_prose_again():
    found = parse("X.\n\nArgs:\n    a: One.\n\nMore.")
    assert found == ("X.\n\nMore.", {"a": "One."})


def test_lines_before_the_first_entry_of_a_section_are_left_out():
    assert parse("X.\n\nArgs:\n    !!\n    a: One.").parameters == {"a": "One."}


@given(st.text(alphabet=st.sampled_from(list("Args:\n-= *()xy,\t`Returns:param"))))
def test_parsing_never_fails(text):
    parse(text)
