"""How deep JSON text nests, how many values it holds, which members occur twice."""

from accord.protocol.json_text import (
    balance,
    count_levels,
    holds_more_values,
    nests_deeper,
    repeated_member,
)
from support.tables import cases

DEPTHS = {
    "no brackets": (b"1", 0),
    "brackets in a string": (b'["[[{{[["]', 1),
    "brackets after an escaped quote": (b'["\\"[[[["]', 1),
    "brackets after an escaped backslash": (b'["\\\\",[["[[["]]]', 3),
    "a string across lines": (b'["[\n[[["]', 1),
    "side by side": (b"[[],[],[{}]]", 3),
    "closing brackets in strings": (b'[[[["]]]]"]]]]', 4),
    "a string without an end": (b'[["[[[[', 2),
    "a string that ends in a backslash": (b'[["[[[[\\', 2),
    "longer than one look": (b"[%b[[[]]]]" % (b"[]," * 50_000), 4),
}


@cases(("text", "depth"), DEPTHS.values(), ids=DEPTHS)
def test_depth_is_counted_in_brackets_outside_of_strings(text, depth):
    assert not nests_deeper(text, depth)
    assert depth == 0 or nests_deeper(text, depth - 1)


@cases(
    ("text", "left_open"),
    [(b"[]", 0), (b'["]"', 1), (b'{"a":[', 2), (b"]]", -2), (b'["\\"]"]', 0), (b'["\\\\"]]', -1)],
)
def test_the_balance_is_of_brackets_outside_of_strings(text, left_open):
    assert balance(text) == left_open


VALUES = {
    "nothing": (b"", 0),
    "one": (b"1", 0),
    "an empty array": (b"[]", 1),
    "numbers": (b"[1,2,3]", 3),
    "objects": (b'{"a":1,"b":{}}', 3),
    "commas in strings": (b'["a,b,[{",",,,,"]', 2),
    "escapes": (b'["\\",[",1,"\\\\",2]', 4),
    "a string across two looks": (b'["%b",1]' % (b",[" * 100_000), 2),
    "strings on the seam": (b'["%b","[",1]' % (b"a" * 65_533), 3),
}


@cases(("text", "count"), VALUES.values(), ids=VALUES)
def test_values_are_counted_by_commas_and_opening_brackets_outside_of_strings(text, count):
    assert not holds_more_values(text, count)
    assert count == 0 or holds_more_values(text, count - 1)


def test_an_empty_object_repeats_nothing():
    assert repeated_member(b" {} ") is None
    assert repeated_member(b'{"id":[1,"id"],"x":{"id":1}}') is None
    assert repeated_member(b'{"id":1,"x":{},"id":1}') == "id"


@cases("width", [1, 3, 40])
@cases("depth", [1, 2, 16, 17, 40, 3_000])
def test_the_nesting_is_exact_however_many_levels_hold_how_much(depth, width):
    text = b'["a",]'
    for _ in range(depth - 1):
        text = b'{"[":%b}' % text
    wide = b"[%b[]]" % (text * width)
    assert count_levels(text) == depth
    assert count_levels(wide) == max(depth, 1) + 1
    assert count_levels(b"") == 0
