"""How a recording is delivered changes nothing: chunks of any size give the same records."""

import io

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as some

from accord.trace import HttpFacts, Record, read, write
from support.messages import JSON, written

RECORDS = some.lists(
    some.builds(
        Record,
        sender=some.sampled_from(["client", "server"]),
        t=some.none() | some.floats(0, 1e6),
        transport=some.sampled_from(["stdio", "http", "sse"]),
        message=some.none(),
        raw=some.text(),
        http=some.none() | some.builds(HttpFacts, status=some.integers(100, 599)),
    )
    | JSON.filter(lambda value: value is not None).map(
        lambda value: Record(sender="client", message=msgspec.Raw(written(value)))
    ),
    min_size=1,
    max_size=6,
)


class Trickle(io.RawIOBase):
    """A file that gives away no more bytes at once than it was given."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data = data
        self._sizes = sizes
        self._turn = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        size = min(len(buffer), self._sizes[self._turn % len(self._sizes)])
        self._turn += 1
        chunk, self._data = self._data[:size], self._data[size:]
        buffer[: len(chunk)] = chunk
        return len(chunk)


def facts(record: Record) -> tuple:
    message = None if record.message is None else bytes(record.message)
    said = (record.sender, record.t, record.transport, message, record.raw, record.http)
    return (*said, record.number)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    records=RECORDS,
    sizes=some.lists(some.integers(1, 200), min_size=1, max_size=5),
    ends_with_newline=some.booleans(),
)
def test_chunks_of_any_size_give_the_same_records(records, sizes, ends_with_newline):
    file = io.BytesIO()
    for record in records:
        write(file, record)
    data = file.getvalue() if ends_with_newline else file.getvalue()[:-1]
    whole = [facts(record) for record in read(io.BytesIO(data))]
    assert [facts(record) for record in read(io.BufferedReader(Trickle(data, sizes), 16))] == whole
    assert [facts(record) for record in read(Trickle(data, sizes))] == whole
    assert [each[:6] for each in whole] == [facts(record)[:6] for record in records]
