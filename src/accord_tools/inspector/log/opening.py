"""What two parties said of themselves when their conversation began, as it was observed."""

from typing import Any, Final

import msgspec
from msgspec import Raw

from accord.protocol.exchange import META_CAPABILITIES, META_SERVER
from accord.protocol.party import META_CLIENT
from accord.types import JsonObject
from accord_tools.inspector.log.entry import LogEntry

_OPENINGS: Final = frozenset({"initialize", "server/discover"})
# Without a handshake every request introduces its client; so many are looked at.
_LOOKED_AT: Final = 50


class _Request(msgspec.Struct):
    params: dict[str, Raw] = {}


class _Answer(msgspec.Struct):
    result: dict[str, Raw] = {}


class ObservedOpening:
    """The introductions of both parties; texts hold JSON with secrets masked.

    Attributes:
        client: the `clientInfo`.
        client_capabilities: as JSON.
        server: the `serverInfo`.
        server_capabilities: as JSON.
        instructions: of the server.
        began_at: seconds since the epoch, of the first message.
        took: seconds from the opening request to its answer.
    """

    def __init__(self) -> None:
        self.client: JsonObject | None = None
        self.client_capabilities = ""
        self.server: JsonObject | None = None
        self.server_capabilities = ""
        self.instructions = ""
        self.began_at: float | None = None
        self.took: float | None = None
        self._looked_at = 0

    def note(self, entry: LogEntry) -> None:
        """Look at a row."""
        if self.began_at is None:
            self.began_at = entry.at
        if entry.method in _OPENINGS:
            if entry.kind == "request":
                self._note_request(entry.body)
            elif entry.kind == "result":
                self._note_answer(entry)
        elif self.client is None and entry.kind == "request" and self._looked_at < _LOOKED_AT:
            self._looked_at += 1
            self._note_request(entry.body)

    def _note_request(self, body: bytes) -> None:
        try:
            params = msgspec.json.decode(body, type=_Request).params
            meta = msgspec.json.decode(params.get("_meta", b"{}"), type=dict[str, Raw])
        except (ValueError, RecursionError):
            return
        client = params.get("clientInfo") or meta.get(META_CLIENT)
        declared = params.get("capabilities") or meta.get(META_CAPABILITIES)
        if client:
            self.client = _as_object(client)
        if declared:
            self.client_capabilities = bytes(declared).decode(errors="replace")

    def _note_answer(self, entry: LogEntry) -> None:
        try:
            result = msgspec.json.decode(entry.body, type=_Answer).result
            instructions: Any = msgspec.json.decode(result.get("instructions", b'""'))
            meta = msgspec.json.decode(result.get("_meta", b"{}"), type=dict[str, Raw])
        except (ValueError, RecursionError):
            return
        self.took = entry.took
        server = result.get("serverInfo") or meta.get(META_SERVER)
        if server:
            self.server = _as_object(server)
        if "capabilities" in result:
            self.server_capabilities = bytes(result["capabilities"]).decode(errors="replace")
        if isinstance(instructions, str):
            self.instructions = instructions


def _as_object(text: Raw) -> JsonObject | None:
    found = msgspec.json.decode(text)
    return found if isinstance(found, dict) else None
