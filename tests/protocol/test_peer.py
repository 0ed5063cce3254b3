"""The facts about a client that one of its requests is served by."""

from accord import types as t
from accord.protocol.party import Peer, peer_from_initialize
from accord.protocol.revisions import REVISIONS
from support.endpoints import HANDSHAKE, opened

LATEST = REVISIONS[HANDSHAKE[-1]]


def test_an_initialize_request_makes_the_peer():
    info = t.Implementation("desk", "1")
    params = t.InitializeParams(
        LATEST.id, t.ClientCapabilities(roots=t.RootsCapability(list_changed=True)), info
    )
    peer = peer_from_initialize(params, LATEST, "warning")
    assert peer == Peer(LATEST, info, frozenset({"roots", "roots.listChanged"}), "warning")


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
