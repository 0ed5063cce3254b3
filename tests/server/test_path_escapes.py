"""Values of template variables that would lead out of a path."""

import pytest

from accord.server.entries.resources import path_escape

REFUSED_ANYWHERE = ["..", "../x", "x/..", "a/../b", "..\\x", "a\\..\\b", "a\0", "\0"]
ABSOLUTE = ["/etc/passwd", "\\\\host\\share", "C:/x", "c:\\x"]
WITH_SLASHES = ["a/b", "a\\b", "a/", ".hidden/x"]
HARMLESS = ["", "a", ".", "...", "a..b", "..a", ".hidden", "a b", "C:", "é", "a:b"]


@pytest.mark.parametrize("spans_segments", [False, True])
@pytest.mark.parametrize("value", REFUSED_ANYWHERE)
def test_parents_and_nul_are_refused_in_every_variable(value: str, spans_segments: bool) -> None:
    assert path_escape(value, spans_segments=spans_segments) is not None
    assert path_escape(value, spans_segments=spans_segments, may_be_absolute=True) is not None


@pytest.mark.parametrize("value", [*WITH_SLASHES, *ABSOLUTE])
def test_slashes_are_refused_in_a_variable_of_one_segment(value: str) -> None:
    assert path_escape(value, spans_segments=False) == "holds a slash or backslash"


@pytest.mark.parametrize("value", [*WITH_SLASHES, *HARMLESS])
def test_a_variable_of_several_segments_may_hold_slashes(value: str) -> None:
    assert path_escape(value, spans_segments=True) is None


@pytest.mark.parametrize("value", ABSOLUTE)
def test_a_variable_of_several_segments_is_not_absolute(value: str) -> None:
    assert path_escape(value, spans_segments=True) == "is an absolute path"
    assert path_escape(value, spans_segments=True, may_be_absolute=True) is None


@pytest.mark.parametrize("value", HARMLESS)
def test_other_values_are_served(value: str) -> None:
    assert path_escape(value, spans_segments=False) is None
