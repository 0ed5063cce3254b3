"""Short ways to write a recorded conversation, and the pairs of traces that prove a rule."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from accord.protocol.monitor import Monitor
from accord.protocol.revisions import REVISIONS
from accord.protocol.violation import Violation
from accord.trace import HttpFacts, Record

META = "io.modelcontextprotocol/"
INFO = {"name": "someone", "version": "1"}


class Said(msgspec.Struct, frozen=True):
    """One message of a party; a `bare` one is sent exactly as it stands."""

    sender: Literal["client", "server"]
    message: Any = None
    text: str | None = None
    t: float | None = None
    http: HttpFacts | None = None
    bare: bool = False

    def at(self, t: float) -> "Said":
        return msgspec.structs.replace(self, t=t)

    def over(self, **facts: Any) -> "Said":
        return msgspec.structs.replace(self, http=HttpFacts(**facts))

    def exactly(self) -> "Said":
        return msgspec.structs.replace(self, bare=True)


class Speaker:
    """Makes the messages of one party."""

    def __init__(self, party: Literal["client", "server"]) -> None:
        self.party = party

    def request(self, id: Any, method: str, params: Any = None) -> Said:
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        return Said(self.party, message if params is None else {**message, "params": params})

    def notify(self, method: str, params: Any = None) -> Said:
        message = {"jsonrpc": "2.0", "method": f"notifications/{method}"}
        return Said(self.party, message if params is None else {**message, "params": params})

    def result(self, id: Any, result: Any) -> Said:
        return Said(self.party, {"jsonrpc": "2.0", "id": id, "result": result})

    def error(self, id: Any, code: Any = -32603, message: Any = "failed", **more: Any) -> Said:
        error = {"code": code, "message": message, **more}
        return Said(self.party, {"jsonrpc": "2.0", "id": id, "error": error})

    def batch(self, *said: Said) -> Said:
        return Said(self.party, [each.message for each in said])

    def json(self, message: Any) -> Said:
        """Any JSON, exactly as it stands."""
        return Said(self.party, message, bare=True)

    def text(self, text: str) -> Said:
        """A message by its very text, for duplicate keys, escapes and the like."""
        return Said(self.party, text=text, bare=True)


C = Speaker("client")
S = Speaker("server")


def opening(revision: str, *, client: Any = None, server: Any = None) -> list[Said]:
    """The handshake of a revision with these capabilities; nothing without a handshake."""
    if not REVISIONS[revision].handshake:
        return []
    return [
        C.request(
            "open",
            "initialize",
            {"protocolVersion": revision, "capabilities": client or {}, "clientInfo": INFO},
        ),
        S.result(
            "open", {"protocolVersion": revision, "capabilities": server or {}, "serverInfo": INFO}
        ),
        C.notify("initialized"),
    ]


def records(
    said: Iterable[Said], revision: str, *, client: Any = None, transport: Any = "stdio"
) -> list[Record]:
    """Number the messages and, where the revision wants it, add what every message must carry."""
    modern = not REVISIONS[revision].handshake
    found = []
    for number, each in enumerate(said, 1):
        message = each.message
        if modern and not each.bare and isinstance(message, dict):
            message = _modern(message, revision, client or {})
        raw = (
            each.text.encode(errors="surrogateescape")
            if each.text is not None
            else msgspec.json.encode(message)
        )
        is_json = True
        try:
            msgspec.json.decode(raw, type=msgspec.Raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            is_json = False
        found.append(
            Record(
                sender=each.sender,
                t=each.t,
                transport="http" if each.http else transport,
                message=msgspec.Raw(raw) if is_json else None,
                raw=None if is_json else (each.text or ""),
                http=each.http,
                number=number,
            )
        )
    return found


def _modern(message: dict[str, Any], revision: str, client: Any) -> dict[str, Any]:
    if "id" in message and "method" in message:
        params = dict(message.get("params") or {})
        meta = {
            f"{META}protocolVersion": revision,
            f"{META}clientCapabilities": client,
            f"{META}clientInfo": INFO,
        }
        return {**message, "params": {**params, "_meta": meta | params.get("_meta", {})}}
    if isinstance(message.get("result"), dict):
        result = message["result"]
        meta = {f"{META}serverInfo": INFO} | result.get("_meta", {})
        return {**message, "result": {"resultType": "complete", **result, "_meta": meta}}
    return message


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """The shortest legal and the shortest illegal trace of one requirement.

    The opening with the given capabilities comes first by itself, unless `opened` is false. In the
    legal trace nothing at all may be reported; in the illegal one this requirement, by this party,
    and no other than those in `also`. `provoked` are breaches of the other party that both traces
    need, because the requirement says how to answer them.
    """

    requirement: str
    legal: Sequence[Said]
    illegal: Sequence[Said]
    client: Any = None
    server: Any = None
    opened: bool = True
    revisions: tuple[str, ...] | None = None
    party: Literal["client", "server"] | None = None
    severity: Literal["fail", "warn"] | None = None
    also: frozenset[str] = frozenset()
    provoked: frozenset[str] = frozenset()
    variant: str = ""
    observed: bool = False
    """For what may be seen but not broken: the second trace is reported as not followed, never as a
    breach.
    """


def judge(
    said: Sequence[Said],
    revision: str,
    *,
    client: Any = None,
    server: Any = None,
    opened: bool = True,
) -> tuple[Monitor, list[Violation]]:
    """Let a monitor without settings watch a conversation."""
    before = opening(revision, client=client, server=server) if opened else []
    monitor = Monitor()
    found: list[Violation] = []
    for record in records([*before, *said], revision, client=client):
        found += monitor.observe(record)
    return monitor, found + monitor.close()
