"""Resources: reading, templates, subscriptions."""

import re
from itertools import pairwise
from typing import Final

import msgspec

from accord.check.probing.probe import Probe
from accord.check.probing.raw_connection import RawConnection
from accord.check.probing.server_facts import ServerFacts
from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._requests import is_alive, is_listening
from accord.check.scenarios.server.prompts import complete_argument
from accord.protocol import uri_template
from accord.protocol.jsonrpc import INTERNAL_ERROR
from accord.types import JsonObject

_READ: Final = "resources/read"
_UPDATED: Final = "notifications/resources/updated"
_SENT: Final = "resources.updated.sent"
_VALIDATED: Final = "resources.uri.validated"
_INTERNAL: Final = "errors.code.internal-error"
_OF_CONTENTS: Final = (
    "resources.read.contents-array",
    "resources.contents.uri",
    "resources.contents.text-or-blob",
    "resources.contents.mime-type",
    "resources.binary.encoded",
)
_OF_UPDATES: Final = ("resources.updated.uri-param", "resources.updated.subscribers-only")
_READ_AT_MOST: Final = 10
_NO_URIS: Final = ("accord check: no uri", "::", "http://[accord-check", "desk//\\no\\scheme")
# Timestamps change by themselves, which does not count as a change of a resource.
_TIME: Final = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?|\d{10,}(?:\.\d+)?")


@scenario(*_OF_CONTENTS, _INTERNAL, needs="resources")
async def reads_every_resource(probe: Probe) -> None:
    async with probe.borrow() as connection:
        uris = [str(each.get("uri")) for each in probe.facts.resources[:_READ_AT_MOST]]
        for template in probe.facts.templates[:_READ_AT_MOST]:
            uri = await _expand(probe, connection, template)
            if uri is not None:
                uris.append(uri)
        found = [await connection.ask(_READ, {"uri": uri}) for uri in uris]
        if all(reply.is_error for reply in found):
            for id in _OF_CONTENTS:
                probe.skip(id, "no resource could be read" if found else "no resource is listed")
        probe.skip("resources.binary.encoded", "no resource that was read is binary")
        if any(reply.code == INTERNAL_ERROR for reply in found):
            probe.holds(_INTERNAL, condition=True, why="")
        probe.skip(_INTERNAL, "the check cannot make the server fail internally")


async def _expand(probe: Probe, connection: RawConnection, template: JsonObject) -> str | None:
    """Expand a template with suggestions of the server, or plain values."""
    text = template.get("uriTemplate")
    if not isinstance(text, str):
        return None
    try:
        parsed = uri_template.parse(text)
        values: dict[str, str] = {}
        for name in parsed.variables:
            reference = {"type": "ref/resource", "uri": text}
            found = await complete_argument(probe, connection, reference, name, values)
            values[name] = found[0] if found else "1"
        return parsed.expand(values)
    except ValueError:
        return None


@scenario(_VALIDATED, needs="resources")
async def reads_invalid_uris(probe: Probe) -> None:
    async with probe.borrow(is_judged=False) as connection:
        for text in _NO_URIS:
            reply = await connection.ask(_READ, {"uri": text})
            probe.holds(
                _VALIDATED,
                reply.is_error,
                f"reads {text!r}, which is not a URI, and answers {reply}",
            )
        await is_alive(probe, connection, "invalid URIs")


def _has_no_resources(facts: ServerFacts) -> str | None:
    return None if facts.resources else "no resource is listed to subscribe to"


@scenario(_SENT, *_OF_UPDATES, needs="resources.subscribe", when=_has_no_resources)
async def subscribes_to_resources(probe: Probe) -> None:
    async with probe.borrow() as connection:
        watched: dict[str, list[str]] = {}
        for resource in probe.facts.resources[:_READ_AT_MOST]:
            uri = str(resource.get("uri"))
            reply = await connection.ask("resources/subscribe", {"uri": uri})
            if not reply.is_error:
                watched[uri] = [await _contents(connection, uri) for _ in range(3)]
        await connection.collect(probe.target.settling)
        changed = [uri for uri in watched if await _has_changed(connection, uri, watched[uri])]
        if changed and not _updates(connection):
            await connection.collect(probe.target.settling)
        for uri in _updates(connection):
            probe.holds(_SENT, condition=True, why=f"{uri} was announced")
        # The monitor reports updates without a uri, or with another one.
        is_silent = all(each.get("method") != _UPDATED for each in connection.received)
        if changed and is_silent and is_listening(connection):
            probe.fail(_SENT, f"sends no update although {changed[0]!r} changed")
        for id in (_SENT, *_OF_UPDATES):
            probe.skip(id, "no resource with a subscription changed during the check")
        for uri in watched:
            await connection.ask("resources/unsubscribe", {"uri": uri})
        # The monitor reports updates that arrive now.
        await connection.collect(probe.target.settling)


async def _contents(connection: RawConnection, uri: str) -> str:
    reply = await connection.ask(_READ, {"uri": uri})
    return _TIME.sub("", msgspec.json.encode(reply.result.get("contents")).decode())


async def _has_changed(connection: RawConnection, uri: str, before: list[str]) -> bool:
    """Return whether a resource changed, and not only because it was read."""
    is_made_by_reading = all(one != other for one, other in pairwise(before))
    return not is_made_by_reading and await _contents(connection, uri) != before[-1]


def _updates(connection: RawConnection) -> list[str]:
    found = [each.get("params") for each in connection.received if each.get("method") == _UPDATED]
    return [str(params.get("uri")) for params in found if isinstance(params, dict)]
