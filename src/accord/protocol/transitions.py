"""The phases of a conversation after a handshake message, by the phase before it."""

from typing import Final

from accord.protocol.jsonrpc import FAULT, NOTIFICATION, REQUEST, RESULT, Kind
from accord.protocol.revisions import Phase
from accord.protocol.violation import CLIENT, SERVER, Party

TRANSITIONS: Final[dict[tuple[Phase, Party, str, Kind], Phase]] = {
    (Phase.OPENING, CLIENT, "initialize", REQUEST): Phase.NEGOTIATING,
    (Phase.NEGOTIATING, SERVER, "initialize", RESULT): Phase.NEGOTIATED,
    (Phase.NEGOTIATING, SERVER, "initialize", FAULT): Phase.OPENING,
    (Phase.NEGOTIATED, CLIENT, "notifications/initialized", NOTIFICATION): Phase.READY,
    (Phase.NEGOTIATING, CLIENT, "initialize", REQUEST): Phase.NEGOTIATING,
    (Phase.NEGOTIATED, CLIENT, "initialize", REQUEST): Phase.NEGOTIATING,
    (Phase.NEGOTIATED, SERVER, "initialize", RESULT): Phase.NEGOTIATED,
    (Phase.READY, CLIENT, "initialize", REQUEST): Phase.READY,
    (Phase.READY, SERVER, "initialize", RESULT): Phase.READY,
    (Phase.READY, SERVER, "initialize", FAULT): Phase.READY,
}
