"""Texts for patterns: they match, and what is not read has none."""

import re

from accord_tools.arguments.patterns import text_for_pattern
from support.tables import cases

PATTERNS = [
    r"^\d{5}$",
    r"^[A-Z]{2}-\d{3,5}$",
    r"^[a-z0-9]+(?:-[a-z0-9]+)*$",
    r"^(foo|ba[rz])$",
    r"\w+@\w+\.\w{2,}",
    r"^#[0-9a-fA-F]{6}$",
    r"^[^/\s]+/[^/\s]+$",
    r"^\+?[1-9]\d{1,14}$",
    r"^v\d+\.\d+\.\d+(-[a-z]+)?$",
    r"^\$[0-9]+\.[0-9]{2}\$$",
    r"^(?P<year>\d{4})-\d\d$",
    r"^[^\x00-\x1f]+?$",
    r"^[\u4e00-\u9fa5]{2}$",
    r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
    r"[\]-]",
    r"^.\t[\n-\r]\x41$",
    r"^(a|b+|(c|d{2}))$",
    "a|b",
    "",
]


@cases("pattern", PATTERNS)
def test_the_text_of_a_pattern_matches_it(pattern):
    for least, turn in ((0, 0), (12, 0), (0, 1), (0, 7)):
        text = text_for_pattern(pattern, least=least, turn=turn)
        assert text is not None
        assert re.search(pattern, text), (pattern, text)


def test_a_text_is_as_long_as_was_asked_for_if_the_pattern_allows_it():
    assert len(text_for_pattern("^[a-z]+$", least=30)) == 30
    assert len(text_for_pattern("^[a-z]{2,4}$", least=30)) == 4


@cases(
    "pattern",
    [
        "^(?=a)b$",
        r"(a)\1",
        "^a|b$",
        r"\bword",
        "(?<=a)b",
        "a)",
        "[a",
        "a**",
        r"\xzz",
        r"\ud800",
        r"[^\s\S]",
        "(",
        "a{",
        "[z-a]",
        "*",
        r"\p{Greek}",
        "a" * 2_000,
        "(" * 30 + "a" + ")" * 30,
        "^((a{100}){100}){100}$",
    ],
    ids=lambda each: each[:20],
)
def test_a_pattern_that_is_not_read_has_no_text(pattern):
    assert text_for_pattern(pattern) is None


def test_repeated_nothing_ends():
    assert text_for_pattern("(a?b*){99999}") == ""


def test_a_class_of_unicode_has_characters_of_ascii():
    # Python's own expressions do not know these classes.
    assert text_for_pattern(r"^\p{Lu}\p{Nd}$") == "A1"
