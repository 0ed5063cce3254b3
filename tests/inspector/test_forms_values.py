import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord_tools.inspector.forms.errors import (
    MOST_DUPLICATES,
    MOST_LEVELS,
    TextFault,
    as_plain,
    parse_text,
    pointer,
    read_text,
    write_text,
)
from support.tables import cases


@cases(
    "text",
    [
        "1.10",
        "1e400",
        "-0",
        "-0.0",
        "1E5",
        "123456789012345678901234567890",
        "9007199254740993",
        "1" * 5_000,
        "-" + "1" * 5_000,
        "0.1",
        "-1e-400",
    ],
)
def test_a_number_is_sent_as_typed(text):
    value = parse_text(f'{{"a": [{text}]}}')
    assert msgspec.json.encode(value) == b'{"a":[' + text.encode() + b"]}"
    assert isinstance(as_plain(value)["a"][0], int | float)


@cases(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "expected a value"),
        ('{"a": 1,\n "b" 2}', 2, 6, "expected a colon after the name"),
        ('{"a": 1,\n }', 2, 2, "expected a name in double quotes"),
        ("[1\n2]", 2, 1, "expected a comma or a closing bracket"),
        ('{"NaN": \n NaN}', 2, 2, "NaN and Infinity are not JSON"),
        ("[-Infinity]", 1, 2, "NaN and Infinity are not JSON"),
        ("{} {}", 1, 4, "there is more text after the value"),
        ('"a\nb"', 1, 3, "write a line break as \\n and a tab as \\t within quotes"),
        ('{"\\ud800": 1}', 1, 1, "a name of a member holds half a character (a lone \\ud800)"),
    ],
)
def test_a_fault_names_its_line_and_column(text, line, column, message):
    with pytest.raises(TextFault) as caught:
        parse_text(text)
    assert (caught.value.line, caught.value.column, caught.value.message) == (line, column, message)


@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 100_000])
def test_deep_nesting_is_refused(levels):
    with pytest.raises(TextFault, match="nests deeper than"):
        parse_text("[" * levels + "]" * levels)


def test_brackets_in_texts_do_not_nest():
    assert parse_text('["' + "[" * 500 + '"]') == ["[" * 500]


def test_names_that_come_twice_are_reported_and_bounded():
    assert read_text('{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}').duplicates == ["c", "a"]
    many = ",".join(f'"{n}": 1, "{n}": 2' for n in range(100))
    assert len(read_text(f"{{{many}}}").duplicates) == MOST_DUPLICATES


def test_half_a_character_is_sent_as_its_escape():
    value = parse_text('{"a": ["\\ud800", "\\ud83d\\ude00"], "b": true}')
    assert write_text(value) == '{"a":["\\ud800","\N{GRINNING FACE}"],"b":true}'
    assert as_plain(value)["a"][0] == "\N{REPLACEMENT CHARACTER}"
    assert as_plain(msgspec.Raw(b"{")) is None


def test_a_text_is_written_with_indents():
    assert write_text({"a": msgspec.Raw(b"1.10")}, indent=2) == '{\n  "a": 1.10\n}'


def test_a_pointer_escapes_its_signs():
    assert pointer(["a/b", "~", "", 0]) == "/a~1b/~0//0"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(values)
def test_plain_values_come_back(value):
    encoded = msgspec.json.encode(value)
    parsed = read_text(encoded.decode())
    assert msgspec.json.encode(parsed.value) == encoded
    assert parsed.plain == value
