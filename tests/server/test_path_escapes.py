"""Values of template variables that would lead out of a path."""

from accord.server.entries.resources import path_escape
from support.tables import cases

REFUSED_ANYWHERE = ["..", "../x", "x/..", "a/../b", "..\\x", "a\\..\\b", "a\0", "\0"]
ABSOLUTE = ["/etc/passwd", "\\\\host\\share", "C:/x", "c:\\x"]
WITH_SLASHES = ["a/b", "a\\b", "a/", ".hidden/x"]
HARMLESS = ["", "a", ".", "...", "a..b", "..a", ".hidden", "a b", "C:", "é", "a:b"]


@cases("spans_segments", [False, True])
@cases("value", REFUSED_ANYWHERE)
def test_parents_and_nul_are_refused_in_every_variable(value: str, spans_segments: bool) -> None:
    assert path_escape(value, spans_segments=spans_segments) is not None
    assert path_escape(value, spans_segments=spans_segments, may_be_absolute=True) is not None


@cases("value", [*WITH_SLASHES, *ABSOLUTE])
def test_slashes_are_refused_in_a_variable_of_one_segment(value: str) -> None:
    assert path_escape(value, spans_segments=False) == "holds a slash or backslash"


@cases("value", [*WITH_SLASHES, *HARMLESS])
def test_a_variable_of_several_segments_may_hold_slashes(value: str) -> None:
    assert path_escape(value, spans_segments=True) is None


@cases("value", ABSOLUTE)
def test_a_variable_of_several_segments_is_not_absolute(value: str) -> None:
    assert path_escape(value, spans_segments=True) == "is an absolute path"
    assert path_escape(value, spans_segments=True, may_be_absolute=True) is None


@cases("value", HARMLESS)
def test_other_values_are_served(value: str) -> None:
    assert path_escape(value, spans_segments=False) is None
