"""What mutants of 2026-07-28 are made with: two servers, and hooks into both directions."""

from collections.abc import Callable
from typing import Any, TypeAlias

from accord.protocol.catalogue import catalogue
from check.faults import hook_at, named
from check.mutants.everything import server as everything
from check.mutants.foundation import (
    MUTANTS,
    Between,
    Change,
    Message,
    Sent,
    elsewhere,
    in_memory,
    params_of,
)
from check.mutants.rounds_server import server as stateless

REVISION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
VERSION, CAPABILITIES = f"{PREFIX}protocolVersion", f"{PREFIX}clientCapabilities"
CLIENT, LEVEL = f"{PREFIX}clientInfo", f"{PREFIX}logLevel"
DISCOVER, CALL, READ = "server/discover", "tools/call", "resources/read"
EVERYTHING = {"roots": {}, "sampling": {}, "elicitation": {}}

Hook: TypeAlias = Callable[[Between], None]
Reaction: TypeAlias = Callable[[Message], Sent]


def hooked(
    id: str,
    server: Any = stateless,
    *,
    of: str = "",
    revision: str = REVISION,
    **settings: Any,
) -> Callable[[Any], Any]:
    """Register a server with a hook into both directions."""

    def register(fault: Any) -> Any:
        making = in_memory(hook_at(of, fault), server)
        making.__name__ = fault.__name__
        # A monitor finds a further fault of the same messages as it finds the first one.
        is_known = any(each.id == id for each in MUTANTS.values())
        is_thorough = is_known and catalogue()[id].check == "wire"
        elsewhere(id, revision=revision, is_thorough=is_thorough, **settings)(making)
        return fault

    return register


def saying(id: str, server: Any = stateless, **settings: Any) -> Callable[[Change], Change]:
    """Register a server whose messages a function changes."""
    return hooked(id, server, of="from_server", **settings)


def reading(id: str, server: Any = stateless, **settings: Any) -> Callable[[Reaction], Reaction]:
    """Register a server that gets other messages than the client sends."""
    return hooked(id, server, of="from_client", **settings)


def answering(
    id: str, is_meant: Callable[[Message], Any], server: Any = stateless, **settings: Any
) -> Callable[[Callable[[Message], Message]], Any]:
    """Register a server that answers some requests by itself."""

    def register(make: Callable[[Message], Message]) -> Any:
        def hook(wire: Between) -> None:
            def from_client(message: Message) -> Sent:
                if "id" in message and is_meant(message):
                    wire.later(0, lambda: wire.to_client(make(message)))
                    return None
                return message

            wire.from_client = from_client

        hooked(id, server, **settings)(named(make.__name__, hook))
        return make

    return register


def meta_of(message: Message) -> dict[str, Any]:
    meta = params_of(message).get("_meta")
    return meta if isinstance(meta, dict) else {}


def with_meta(message: Message, **changed: Any) -> Message:
    """Return a request with other members of `_meta`; None leaves one out."""
    meta = meta_of(message) | {f"{PREFIX}{name}": value for name, value in changed.items()}
    meta = {name: value for name, value in meta.items() if value is not None}
    return message | {"params": params_of(message) | {"_meta": meta}}


def error(message: Message, code: int, text: str = "no", **data: Any) -> Message:
    """Return an error that answers a request, or replaces an answer."""
    body = {"code": code, "message": text} | ({"data": data} if data else {})
    return {"jsonrpc": "2.0", "id": message["id"], "error": body}


def result(message: Message, **members: Any) -> Message:
    """Return a complete result."""
    info = {f"{PREFIX}serverInfo": {"name": "mutant", "version": "1"}}
    made = {"resultType": "complete", "_meta": info} | members
    return {"jsonrpc": "2.0", "id": message["id"], "result": made}


def text(message: Message, words: str = "done", **members: Any) -> Message:
    """Return the result of a tool."""
    return result(message, content=[{"type": "text", "text": words}], isError=False, **members)


def recode(message: Message, old: int, new: int) -> Message:
    """Return an answer with another code, if it is this error."""
    body = message.get("error")
    if body is not None and body.get("code") == old:
        return message | {"error": body | {"code": new}}
    return message


__all__ = ["everything", "stateless"]
