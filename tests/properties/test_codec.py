"""Bytes are a frame, a batch or malformed, and nothing else; what is written can be read."""

from hypothesis import example, given, settings
from hypothesis import strategies as some
from msgspec import UNSET, Raw

from accord.protocol.codec import Codec, encode
from accord.protocol.json_text import nests_deeper
from accord.protocol.jsonrpc import Batch, ErrorBody, Frame, MalformedMessage
from support.messages import BYTES, JSON, PARAMS, written

CODEC = Codec()
IDS = some.integers(-(2**63), 2**63 - 1) | some.text()
RAW = PARAMS.map(written).map(Raw)
FRAMES = some.one_of(
    some.builds(Frame, some.just("2.0"), id=IDS, method=some.text(), params=some.just(UNSET) | RAW),
    some.builds(Frame, some.just("2.0"), method=some.text(), params=some.just(UNSET) | RAW),
    some.builds(Frame, some.just("2.0"), id=IDS, result=JSON.map(written).map(Raw)),
    some.builds(
        Frame,
        some.just("2.0"),
        id=IDS | some.none() | some.just(UNSET),
        error=some.builds(
            ErrorBody,
            some.integers(-(2**63), 2**63 - 1),
            some.text(),
            some.just(UNSET) | some.none() | some.text() | some.lists(some.integers(-9, 9)),
        ),
    ),
)


def outcome(data: bytes) -> Frame | Batch | MalformedMessage:
    try:
        return CODEC.decode(data)
    except MalformedMessage as malformed:
        return malformed


def parts_of(frame: Frame) -> tuple:
    body = None if frame.body is None else bytes(frame.body)
    return frame.id, frame.method, frame.kind, body, frame.error


@settings(deadline=None, derandomize=True, max_examples=200)
@given(data=BYTES)
@example(data=b"")
@example(data=b'{"jsonrpc":"2.0","id":1.0,"method":"x","params":"\\ud800"}')
def test_any_bytes_are_a_frame_a_batch_or_malformed(data):
    decoded = outcome(data)
    assert isinstance(decoded, Frame | Batch | MalformedMessage)
    if isinstance(decoded, MalformedMessage):
        assert decoded.code in (-32700, -32600)
        assert decoded.code == -32600 or decoded.id is None
        assert str(decoded)
        assert decoded.requirement
    if isinstance(decoded, Batch):
        assert decoded.parts
        for part, raw in decoded.parts:
            assert isinstance(part, Frame | MalformedMessage)
            assert bytes(raw) in data


MEMBERS = {
    "jsonrpc": b'"2.0"',
    "id": b'"0b0e"',
    "method": b'"tools/call"',
    "params": b'{"id":1,"method":"\\"id\\":"}',
    "x": b'[{"id":2}]',
}
NAMES = {
    name: (b'"%b"' % name.encode(), b'"\\u%04x%b"' % (ord(name[0]), name[1:].encode()))
    for name in MEMBERS
}
SPACE = some.sampled_from([b"", b" ", b"\r\n", b"\t  "])


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    order=some.permutations(["jsonrpc", "id", "method", "params", "x"]),
    twice=some.sampled_from(["jsonrpc", "id", "method", "params", "x", None]),
    at=some.integers(0, 5),
    space=SPACE,
    escapes=some.integers(0, 63),
)
def test_a_member_that_occurs_twice_is_refused_wherever_and_however(
    order, twice, at, space, escapes
):
    names = [*order[:at], *([twice] if twice else []), *order[at:]]
    members = [
        NAMES[name][escapes >> number & 1] + space + b":" + space + MEMBERS[name]
        for number, name in enumerate(names)
    ]
    data = space + b"{" + space + (space + b"," + space).join(members) + space + b"}"
    decoded = outcome(data)
    if twice in (None, "x"):
        assert isinstance(decoded, Frame)
        assert bytes(decoded.params) == MEMBERS["params"]
    else:
        assert isinstance(decoded, MalformedMessage)
        assert str(decoded) == f"member {twice} occurs twice"
        assert decoded.id == (None if twice == "id" else "0b0e")


@settings(deadline=None, derandomize=True, max_examples=120)
@given(frame=FRAMES)
def test_a_written_frame_is_read_as_it_was(frame):
    read = CODEC.decode(encode(frame))
    assert isinstance(read, Frame)
    assert parts_of(read) == parts_of(frame)


@settings(deadline=None, derandomize=True, max_examples=120)
@given(frame=FRAMES)
def test_in_a_batch_a_frame_is_read_as_alone(frame):
    data = encode(frame)
    batch = CODEC.decode(b"[%b,%b]" % (data, data))
    assert isinstance(batch, Batch)
    for part, raw in batch.parts:
        assert isinstance(part, Frame)
        assert parts_of(part) == parts_of(frame)
        assert bytes(raw) == data


def depth_of(value) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@settings(deadline=None, derandomize=True, max_examples=120)
@given(value=JSON)
def test_depth_is_that_of_the_value(value):
    data, depth = written(value), depth_of(value)
    assert not nests_deeper(data, depth)
    assert depth == 0 or nests_deeper(data, depth - 1)
