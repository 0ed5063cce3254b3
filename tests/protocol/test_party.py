import re
import sys
import tracemalloc

import msgspec
import pytest

from accord import types as t
from accord.protocol.exchange import Exchange
from accord.protocol.party import (
    Bounded,
    Memory,
    PartyState,
    Peer,
    RawMeta,
    UsedIds,
    capability_paths,
    elicitation_modes,
    peer_from_initialize,
    read_introduction,
    undeclared_mode,
    undeclared_tools,
)
from accord.protocol.revisions import REVISIONS, Revision
from accord.types import Implementation
from support.endpoints import HANDSHAKE, opened
from support.tables import cases


@cases(
    ("capabilities", "modes"),
    [
        ({}, set()),
        ({"elicitation": {}}, {"form"}),
        ({"elicitation": {"form": {}}}, {"form"}),
        ({"elicitation": {"url": {}}}, {"url"}),
        ({"elicitation": {"url": {}, "form": {}}}, {"form", "url"}),
        ({"elicitation": {"voice": {}}}, {"form"}),
    ],
)
def test_an_elicitation_capability_without_a_known_mode_means_form(capabilities, modes):
    assert elicitation_modes(capability_paths(capabilities)) == modes


URL = capability_paths({"elicitation": {"url": {}}})
FORM = capability_paths({"elicitation": {}})


@cases(
    ("params", "declared", "mode"),
    [
        ({}, URL, "form"),
        (None, URL, "form"),
        ({"mode": "form"}, URL, "form"),
        ({"mode": "url"}, FORM, "url"),
        ({"mode": "url"}, URL, None),
        ({}, FORM, None),
        ({}, None, None),
        ({}, frozenset(), None),
        ({"mode": "voice"}, FORM, None),
        ({"mode": ["url"]}, FORM, None),
    ],
)
def test_a_known_mode_that_was_not_declared_is_named(params, declared, mode):
    assert undeclared_mode(params, declared) == mode


PLAIN = capability_paths({"sampling": {}})


@cases(
    ("params", "declared", "member"),
    [
        ({"tools": []}, PLAIN, "tools"),
        ({"toolChoice": {}}, PLAIN, "toolChoice"),
        ({}, PLAIN, None),
        ({"tools": []}, capability_paths({"sampling": {"tools": {}}}), None),
        ({"tools": []}, None, None),
        ({"tools": []}, frozenset(), None),
    ],
)
def test_the_member_that_offers_undeclared_tools_is_named(params, declared, member):
    assert undeclared_tools(params, declared) == member


LATEST = REVISIONS[HANDSHAKE[-1]]


def test_an_initialize_request_makes_the_peer():
    info = t.Implementation("desk", "1")
    params = t.InitializeParams(
        LATEST.id, t.ClientCapabilities(roots=t.RootsCapability(list_changed=True)), info
    )
    peer = peer_from_initialize(params, LATEST, "warning")
    assert peer == Peer(LATEST, info, frozenset({"roots", "roots.listChanged"}), "warning")


def opening(name: str, **capabilities) -> t.InitializeParams:
    info = t.Implementation(name, "1")
    return t.InitializeParams(LATEST.id, t.ClientCapabilities(**capabilities), info)


def test_clients_that_introduce_themselves_alike_share_one_peer():
    first = peer_from_initialize(opening("twin"), LATEST, "info")
    assert peer_from_initialize(opening("twin"), LATEST, "info") is first
    others = [
        peer_from_initialize(opening("twin"), LATEST, "error"),
        peer_from_initialize(opening("twin"), REVISIONS[HANDSHAKE[0]], "info"),
        peer_from_initialize(opening("twin", sampling={}), LATEST, "info"),
        peer_from_initialize(opening("other"), LATEST, "info"),
    ]
    assert all(other != first for other in others)


def test_long_introductions_are_not_kept():
    long = opening("x" * 5_000), opening("any", experimental={"x" * 5_000: {}})
    for params in long:
        first, second = (peer_from_initialize(params, LATEST, "info") for _ in range(2))
        assert first == second
        assert first is not second


def test_a_limited_number_of_introductions_is_kept(monkeypatch):
    monkeypatch.setattr("accord.protocol.party._PEERS_MOST", 3)
    first = peer_from_initialize(opening("client"), LATEST, "info")
    for number in range(4):
        peer_from_initialize(opening(f"client {number}"), LATEST, "info")
    again = peer_from_initialize(opening("client"), LATEST, "info")
    assert again == first
    assert again is not first


def test_an_idle_party_owns_no_tables():
    party, other = PartyState(), PartyState()
    exchange = Exchange(1, "ping", "client", LATEST, None, "t")
    assert party.keep_open(exchange) is exchange
    assert party.keep_open(Exchange(1, "ping", "client", LATEST, None)) is exchange
    party.keep_token(exchange, "t")
    party.release_tables()
    assert (party.open, party.tokens) == ({1: exchange}, {"t": exchange})
    assert (other.open, other.tokens) == ({}, {})
    party.forget_token(exchange)
    del party.open[1]
    party.release_tables()
    assert party.open is other.open
    assert party.tokens is other.tokens
    with pytest.raises(TypeError):
        other.open[2] = exchange


def test_another_log_level_makes_another_peer():
    peer = Peer(LATEST)
    assert peer.with_log_level("error") == Peer(LATEST, log_level="error")
    assert peer.log_level == "info"


def test_every_request_received_has_the_peer_of_its_time():
    pair = opened(LATEST.id)
    server = pair.server
    first, second = Peer(LATEST), Peer(LATEST, log_level="error")
    exchanges = []
    for peer in (first, second):
        server.peer = peer
        (event,) = server.receive(pair.client.request("ping")[1])
        exchanges.append(event.exchange)
    assert exchanges[0].peer is first
    assert exchanges[1].peer is second


def test_a_bounded_dictionary_forgets_its_oldest_entry():
    kept: Bounded[int, str] = Bounded(2)
    kept[1], kept[2], kept[1] = "a", "b", "c"
    assert dict(kept) == {1: "c", 2: "b"}
    kept[3] = "d"
    assert dict(kept) == {2: "b", 3: "d"}


def test_setdefault_keeps_the_bound_as_well():
    kept: Bounded[int, str] = Bounded(2)
    for key in range(5):
        kept.setdefault(key, "x")
    assert list(kept) == [3, 4]


@cases(
    ("added", "asked", "known"),
    [
        ([], 1, False),
        ([1], 1, True),
        ([1], "1", False),
        (["1"], 1, False),
        (["a"], "a", True),
        ([5, 6, 7], 6, True),
        ([5, 6, 7], 8, False),
        ([5, 4, 3], 3, True),
        ([5, 4, 3], 2, False),
        ([0, 1000, 1001], 1000, True),
        ([0, 1000, 1001], 500, False),
        ([1, 3, 2], 3, True),
        ([1, 3, 3], 3, True),
        ([2, 2], 2, True),
    ],
    ids=str,
)
def test_used_ids_are_remembered_by_type_and_value(added, asked, known):
    used = UsedIds()
    for id in added:
        used.add(id)
    assert (asked in used) is known


def test_ids_that_count_take_no_space():
    used = UsedIds()
    used.add(0)
    tracemalloc.start()
    try:
        for id in range(1, 200_000):
            used.add(id)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 10_000
    assert 199_999 in used


def test_cursors_are_remembered_by_list():
    memory = Memory()
    memory.cursors_of("tools/list")["a"] = None
    assert "a" in memory.cursors_of("tools/list")
    assert "a" not in memory.cursors_of("prompts/list")


# -- peers of requests that stand on their own

STATELESS = REVISIONS["2026-07-28"]
P = "io.modelcontextprotocol/"


def peer_from_meta(meta: t.JsonObject, revision: Revision) -> Peer | None:
    words = msgspec.json.decode(msgspec.json.encode(meta), type=RawMeta)
    return read_introduction(words, revision).peer


def test_a_request_introduces_its_client_in_meta():
    meta = {
        f"{P}clientCapabilities": {"elicitation": {"url": {}}},
        f"{P}clientInfo": {"name": "host", "version": "2"},
        f"{P}logLevel": "warning",
    }
    peer = peer_from_meta(meta, STATELESS)
    assert peer.revision is STATELESS
    assert peer.capabilities == {"elicitation", "elicitation.url"}
    assert peer.info == Implementation("host", "2")
    assert peer.log_level == "warning"
    assert peer_from_meta(dict(meta), STATELESS) is peer


def test_a_client_that_asks_for_no_log_level_wants_no_log_messages():
    assert peer_from_meta({f"{P}clientCapabilities": {}}, STATELESS).log_level is None


@pytest.mark.parametrize("info", ["host", {"name": 5}, {}])
def test_a_client_that_names_itself_badly_is_served_without_a_name(info):
    meta = {f"{P}clientCapabilities": {}, f"{P}clientInfo": info}
    assert peer_from_meta(meta, STATELESS).info is None


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        ({}, "_meta has no object io.modelcontextprotocol/clientCapabilities"),
        ({f"{P}clientCapabilities": []}, "_meta has no object"),
        ({f"{P}clientCapabilities": {}, f"{P}logLevel": "loud"}, "'loud', expected debug, info"),
    ],
)
def test_an_introduction_that_lacks_something_is_refused(meta, why):
    with pytest.raises(ValueError, match=re.escape(why)):
        peer_from_meta(meta, STATELESS)


def test_the_peers_that_are_remembered_are_bounded():
    first = {f"{P}clientCapabilities": {"experimental": {"first": {}}}}
    peer = peer_from_meta(first, STATELESS)
    for number in range(1100):
        peer_from_meta({f"{P}clientCapabilities": {"experimental": {str(number): {}}}}, STATELESS)
    assert peer_from_meta(first, STATELESS) is not peer
    long = {f"{P}clientCapabilities": {"experimental": {"x" * 5000: {}}}}
    assert peer_from_meta(long, STATELESS) is not peer_from_meta(long, STATELESS)


def test_the_words_that_are_remembered_do_not_keep_their_message():
    long = b'{"x":"%b","io.modelcontextprotocol/clientCapabilities":{"roots":{}}}' % (b"y" * 5000)
    references = sys.getrefcount(long)
    words = read_introduction(msgspec.json.decode(long, type=RawMeta), STATELESS).words
    assert words is not None
    assert bytes(words.capabilities) == b'{"roots":{}}'
    assert sys.getrefcount(long) == references
