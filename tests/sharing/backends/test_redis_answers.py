"""Answers of Redis and Valkey: how they are read, and those that come at rare moments only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.errors import StoreError, StoreFull, StoreUnavailable
from accord.sharing.backends.redis_backend import RedisBackend
from accord.sharing.backends.redis_connection import Broken, EngineError, ReplyParser
from support.redis_stores import encode_reply, opened, scripted_engine
from support.tables import cases
from support.waiting import in_loop

REPLIES = st.recursive(
    st.none()
    | st.integers(-(2**53), 2**53)
    | st.binary(max_size=300)
    | st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=20).map(EngineError),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=20,
)


@given(replies=st.lists(REPLIES, max_size=8), size=st.integers(1, 60))
def test_replies_are_read_from_pieces_of_any_size(replies, size):
    data = b"".join(map(encode_reply, replies))
    parser = ReplyParser()
    found = [each for at in range(0, len(data), size) for each in parser.feed(data[at : at + size])]
    assert repr(found) == repr(replies)


@cases("data", [b"HTTP/1.1 200 OK\r\n", b"$x\r\n", b"*1\r\n:\r\n", b"%1\r\n", b"x" * 70_000])
def test_bytes_of_another_protocol_are_refused(data):
    with pytest.raises(Broken, match="it does not speak the protocol of Redis"):
        ReplyParser().feed(data)


# -- a server that gives any answer


NOT_NOW = [
    "LOADING Valkey is loading the dataset in memory",
    "READONLY You can't write against a read only replica.",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "CLUSTERDOWN The cluster is down",
    "BUSY Valkey is busy running a script.",
    "NOREPLICAS Not enough good replicas to write.",
    "TRYAGAIN Multiple keys request during rehashing of slot",
]


@pytest.mark.parametrize("text", NOT_NOW)
@in_loop
async def test_an_operation_is_tried_again_when_the_server_says_not_now(text):
    answers: list[bytes | EngineError] = [EngineError(text)] * 3 + [b"0000000000000007value"]

    def answer(words: list[bytes]) -> bytes | EngineError | None:
        return answers.pop(0) if words[0] == b"GET" else None

    async with scripted_engine(answer) as url, opened(url, timeout=20) as backend:
        found = await backend.get("r")
        assert (found.value, found.version) == (b"value", 7)
        assert answers == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *[(text, StoreUnavailable) for text in NOT_NOW],
        ("NOPERM User app has no permissions", StoreUnavailable),
        ("NOAUTH Authentication required.", StoreUnavailable),
        ("MISCONF Errors writing to the AOF file", StoreUnavailable),
        ("MISCONF Errors writing to the AOF file: No space left on device", StoreFull),
        ("OOM command not allowed when used memory > 'maxmemory'.", StoreFull),
        ("ERR Error running script: @user_script: -OOM command not allowed", StoreFull),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", StoreError),
        ("MOVED 5 127.0.0.1:7000", StoreUnavailable),
    ],
)
@in_loop
async def test_an_error_of_the_server_is_reported_with_its_kind(text, kind):
    def answer(words: list[bytes]) -> EngineError | None:
        return EngineError(text) if words[0] == b"GET" else None

    async with scripted_engine(answer) as url, opened(url) as backend:
        backend._timeout = 0.2  # for this operation, not for the opening
        with pytest.raises(StoreError) as caught:
            await backend.get("r")
    assert type(caught.value) is kind
    assert url in str(caught.value)


@pytest.mark.parametrize(
    ("info", "cause"),
    [
        ("redis_version:6.2.14", "it has version 6.2.14, and 7.0 or newer is needed"),
        ("redis_version:7.4.1\r\ncluster_enabled:1", "which needs a redis+cluster:// URL"),
    ],
)
@in_loop
async def test_an_unfit_server_is_refused_with_the_reason(info, cause):
    async with scripted_engine(lambda words: info.encode() if words[0] == b"INFO" else None) as url:
        with pytest.raises(StoreUnavailable) as caught:
            await RedisBackend(url).open()
    assert cause in str(caught.value)


# -- what a neighbour in the same server may have written, and a server that goes mad


WRONG = [
    None,
    7,
    b"",
    b"x",
    b"0000000000000007",
    [],
    [b"x"],
    [1, 2],
    [[]],
    [b"a", b"b", b"c"],
    [None],
]
PAGES = [[b"1", 1, 0, 1, []], [1, 1, 0, 1, [7]], [1, 1, 0, 1, None], [1, 1, 0, 1, b"items"]]
OPERATIONS = {
    "now": lambda backend: backend.now(),
    "get": lambda backend: backend.get("r"),
    "put": lambda backend: backend.put("r", b"v", ttl=9),
    "put a version": lambda backend: backend.put("r", b"v", ttl=9, expect=5),
    "delete": lambda backend: backend.delete("r", expect=5),
    "remove": lambda backend: backend.remove("i", ["a"]),
    "members": lambda backend: backend.members("i"),
    "count": lambda backend: backend.count("i"),
    "append": lambda backend: backend.append("l", [b"v"], ttl=9),
    "read": lambda backend: backend.read("l"),
    "take": lambda backend: backend.take("b", cost=1, rate=1, burst=1),
    "describe": lambda backend: backend.describe(),
}


@pytest.mark.parametrize("name", OPERATIONS)
@in_loop
async def test_a_reply_of_another_form_is_an_error_of_the_store(name):
    said, failed = [], 0

    def answer(words):
        return said[-1] if said else None

    async with scripted_engine(answer) as url, opened(url) as backend:
        for each in WRONG + PAGES:
            said.append(each)
            try:
                await OPERATIONS[name](backend)
            except StoreError:
                failed += 1
    assert failed


@cases(
    ("start", "piece", "limit"),
    [
        (b"$%d\r\n" % (65 * 2**20), b"", "sends a value of 68157440 bytes, more than 67108864"),
        (b"$%d\r\n" % 10**18, b"x" * 2**20, "sends a value of 10{18} bytes"),
        (
            b"*%d\r\n" % 10**9,
            b"$1048576\r\n%b\r\n" % (b"x" * 2**20),
            "a reply of more than 134217728",
        ),
        (b"", b"*1\r\n" * 100, "nests too deep"),
    ],
    ids=["large", "endless", "many values", "deep"],
)
def test_a_reply_without_end_is_given_up_before_it_takes_the_memory(start, piece, limit):
    parser = ReplyParser()

    def feed():
        found = parser.feed(start)
        for _ in range(300):
            found += parser.feed(piece)
        return found

    with pytest.raises(Broken, match=limit):
        feed()


def test_a_reply_as_large_as_a_page_of_a_log_may_be_is_read():
    parser, item = ReplyParser(), b"x" * (32 * 2**20)
    one = b"$%d\r\n%b\r\n" % (len(item), item)
    for _ in range(2):
        replies = [each for data in (b"*3\r\n", one, one, one) for each in parser.feed(data)]
        assert replies == [[item] * 3]
