from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.protocol.json_text import FRAGMENT
from accord.protocol.jsonrpc import RESULT
from accord.stdio.lines import LineReader, LineTooLong
from support.tables import cases


def read(*chunks: bytes, limit: int = 100) -> list[bytes | str]:
    reader = LineReader(limit)
    found = chain.from_iterable(list(reader.feed(chunk)) for chunk in chunks)
    lines: list[bytes | str] = [each if isinstance(each, bytes) else "too long" for each in found]
    last = reader.end()
    return lines if last is None else [*lines, last]


def test_a_chunk_with_several_lines_gives_each_of_them() -> None:
    assert read(b"one\ntwo\nthree\n") == [b"one", b"two", b"three"]


def test_a_line_in_pieces_is_put_together() -> None:
    assert read(b"o", b"n", b"e\nt", b"wo\n") == [b"one", b"two"]


@cases("blank", [b"\n", b"\n\n\n", b"  \n", b"\r\n", b"\t\n"])
def test_blank_lines_are_skipped(blank: bytes) -> None:
    assert read(blank, b"one\n", blank) == [b"one"]


@pytest.mark.parametrize("last", [[b"two"], [b"t", b"wo"], [b" two\r"]])
def test_a_last_line_needs_no_end(last: list[bytes]) -> None:
    assert read(b"one\n", *last) == [b"one", b"two"]


def test_blanks_are_not_a_last_line() -> None:
    assert read(b"one\n \t") == [b"one"]


def test_a_reader_that_came_to_its_end_begins_anew() -> None:
    reader = LineReader(10)
    assert list(reader.feed(b"1234567890")) == []
    assert reader.end() == b"1234567890"
    assert reader.end() is None
    assert list(reader.feed(b"0987654321")) == []
    assert list(reader.feed(b"\n")) == [b"0987654321"]


def test_an_input_without_anything_has_no_last_line() -> None:
    assert read(b"") == []


@pytest.mark.parametrize("size", [99, 100])
def test_a_line_up_to_the_limit_is_accepted(size: int) -> None:
    assert read(b"x" * size + b"\n") == [b"x" * size]


@pytest.mark.parametrize(
    ("before", "found"),
    [([], []), ([b"o", b"ne\n"], [b"one"]), ([b"x" * 101, b"\n"], ["too long"])],
    ids=["first", "after one in pieces", "after one too long"],
)
def test_a_line_in_pieces_may_reach_the_limit(
    before: list[bytes], found: list[bytes | str]
) -> None:
    assert read(*before, b"x" * 60, b"x" * 40, b"\n") == [*found, b"x" * 100]


def test_a_line_above_the_limit_costs_no_other_line() -> None:
    assert read(b"one\n" + b"x" * 101 + b"\ntwo\n") == [b"one", "too long", b"two"]


def test_a_line_without_end_is_reported_once_and_skipped_to_its_end() -> None:
    assert read(*[b"x" * 60] * 20, b"\nnext\n") == ["too long", b"next"]


def test_the_kept_part_of_an_endless_line_never_exceeds_the_limit() -> None:
    reader = LineReader(100)
    for _ in range(1000):
        list(reader.feed(b"x" * 50))
        assert sum(map(len, reader._pending)) <= 100


def test_the_error_names_the_limit() -> None:
    (error,) = LineReader(10).feed(b"x" * 11)
    assert isinstance(error, LineTooLong)
    assert "10 bytes" in str(error)


@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"?"))), st.data())
def test_chunking_changes_nothing(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert read(*chunks, limit=20) == read(whole, limit=20)


# -- lines above the limit name their request


def errors(*chunks: bytes, limit: int = 10_000) -> list[tuple[object, object]]:
    reader = LineReader(limit)
    found = chain.from_iterable(list(reader.feed(chunk)) for chunk in chunks)
    return [(each.id, each.kind) for each in found if isinstance(each, LineTooLong)]


def cut(line: bytes, size: int) -> list[bytes]:
    return [line[at : at + size] for at in range(0, len(line), size)]


EARLY = b'{"jsonrpc":"2.0","id":7,"result":{"text":"%b"}}\n' % (b"x" * 12_000)
LATE = b'{"result":{"text":"%b"},"jsonrpc":"2.0","id":7}\n' % (b"x" * 12_000)


@cases("size", [1, 100, 5_000, 9_999, 20_000])
@cases("line", [EARLY, LATE], ids=["early", "late"])
def test_the_id_of_a_line_above_the_limit_is_read(line: bytes, size: int) -> None:
    assert errors(*cut(line, size)) == [(7, RESULT)]


def test_a_line_that_names_its_id_early_is_reported_before_its_end() -> None:
    assert errors(EARLY[:11_000]) == [(7, RESULT)]
    assert errors(EARLY[:11_000], EARLY[11_000:]) == [(7, RESULT)]
    assert errors(LATE[:11_000]) == []


def test_a_message_that_does_not_end_is_reported_without_an_id_and_again_by_its_end() -> None:
    endless = b'{"result":"' + b"x" * 200_000
    assert errors(*cut(endless, 1_000)) == [(None, RESULT)]
    assert errors(*cut(endless, 1_000), b'","id":3}\n') == [(None, RESULT), (3, RESULT)]
    assert errors(*cut(endless, 1_000), b'"}\n') == [(None, RESULT)]


def test_little_is_kept_of_a_skipped_line() -> None:
    reader = LineReader(10_000)
    for part in cut(b'{"result":"' + b"x" * 1_000_000, 100):
        list(reader.feed(part))
    skipped = reader._skipped
    assert skipped is not None
    assert len(skipped._head) + len(skipped._tail) <= 2 * FRAGMENT
