"""The entries of the other server, as a proxy offers them."""

import logging
import re
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from accord.protocol import shape, uri_template
from accord.protocol.exchange import Exchange
from accord.protocol.revisions import REVISIONS
from accord.protocol.syntax import is_uri
from accord.protocol.unknown import UnknownMembers
from accord.server.context import Context
from accord.server.entries.prompts import PromptEntry
from accord.server.entries.resources import ResourceEntry, TemplateEntry
from accord.server.entries.tools import ToolEntry, ToolResult, find_mirrored
from accord.server.schema import results, signature
from accord.server.sources.views import EntryKind
from accord.types import (
    CallToolParams,
    CompleteParams,
    CompleteResult,
    GetPromptParams,
    GetPromptResult,
    PromptReference,
    ReadResourceParams,
    ReadResourceResult,
    ResourceTemplateReference,
)

if TYPE_CHECKING:
    from accord.compose.proxies.source import ProxySource
    from accord.server.entries.registry import RegistryEntry
    from accord.server.session import Session

log = logging.getLogger("accord.compose")

# Control characters in a name could write to the terminals and logs that show it.
_PRINTABLE: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,1000}")


def _answered_elsewhere() -> None:
    """Stand for the function of an entry, which is called in the other server."""


_SIGNATURE: Final = signature.inspect(_answered_elsewhere, context_type=Context)
_RETURNS: Final = results.inspect(_answered_elsewhere)


class _Proxied:
    """What entries of every kind have that are answered by another server."""

    __slots__ = ()

    is_mounted = True

    if TYPE_CHECKING:
        item: Any
        source: ProxySource
        unknown: UnknownMembers | None

    @property
    def place(self) -> str:
        return f"offered by {self.source!r}"

    def unknown_members(self) -> UnknownMembers | None:
        return self.unknown

    @property
    def reports_changes(self) -> bool:
        return self.source.upstream.catalog.can_subscribe

    def subscribe(self, session: "Session", uri: str) -> None:
        self.source.upstream.catalog.subscribe(session, uri)

    def unsubscribe(self, session: "Session", uri: str) -> None:
        self.source.upstream.catalog.unsubscribe(session, uri)


class ProxiedTool(_Proxied, ToolEntry, frozen=True, kw_only=True):
    """A tool of the other server."""

    source: "ProxySource"
    unknown: UnknownMembers | None = None

    def call(
        self,
        session: "Session",
        exchange: Exchange,
        arguments: msgspec.Raw | bytes | UnsetType,
        context: Context[object] | None = None,
    ) -> ToolResult | Awaitable[ToolResult]:
        if isinstance(arguments, bytes):
            arguments = msgspec.Raw(arguments)
        exchange.state = self.label
        params = CallToolParams(self.key, msgspec.Raw(b"{}") if arguments is UNSET else arguments)
        execution = self.item.execution
        is_task = execution is not None and execution.task_support == "required"
        return self.source.call_tool(session, exchange, params, context, is_task=is_task)


class ProxiedPrompt(_Proxied, PromptEntry, frozen=True, kw_only=True):
    """A prompt of the other server."""

    source: "ProxySource"
    unknown: UnknownMembers | None = None

    async def get(
        self, session: "Session", exchange: Exchange, given: Mapping[str, str]
    ) -> GetPromptResult:
        exchange.state = f"prompt {self.key}"
        params = GetPromptParams(self.key, dict(given) or None)
        result: GetPromptResult = await self.source.ask(session, exchange, params)
        return result

    async def complete(
        self, session: "Session", exchange: Exchange, params: CompleteParams
    ) -> CompleteResult:
        changed = msgspec.structs.replace(params, ref=PromptReference(self.key))
        result: CompleteResult = await self.source.ask(session, exchange, changed)
        return result


class ProxiedResource(_Proxied, ResourceEntry, frozen=True, kw_only=True):
    """A resource of the other server."""

    source: "ProxySource"
    unknown: UnknownMembers | None = None

    async def read(
        self, session: "Session", exchange: Exchange, uri: str, variables: Mapping[str, str]
    ) -> ReadResourceResult:
        exchange.state = f"resource {self.key}"
        result: ReadResourceResult = await self.source.ask(
            session, exchange, ReadResourceParams(uri)
        )
        return result


class ProxiedTemplate(_Proxied, TemplateEntry, frozen=True, kw_only=True):
    """A resource template of the other server."""

    source: "ProxySource"
    unknown: UnknownMembers | None = None

    async def read(
        self, session: "Session", exchange: Exchange, uri: str, variables: Mapping[str, str]
    ) -> ReadResourceResult:
        exchange.state = f"resource {self.key}"
        result: ReadResourceResult = await self.source.ask(
            session, exchange, ReadResourceParams(uri)
        )
        return result

    async def complete(
        self, session: "Session", exchange: Exchange, params: CompleteParams
    ) -> CompleteResult:
        changed = msgspec.structs.replace(params, ref=ResourceTemplateReference(self.key))
        result: CompleteResult = await self.source.ask(session, exchange, changed)
        return result


# -- making them


def build_entry(
    source: "ProxySource", kind: EntryKind, item: Any, unknown: UnknownMembers | None
) -> "RegistryEntry | None":
    """Return the entry for an item of a list; None where clients could not use it, with a log."""
    try:
        entry = _build(source, kind, item, unknown)
        for revision in REVISIONS.values():
            shape.narrow(entry.item, revision.id)
    except Exception as error:  # whatever it is, the entries of others have to be listed
        log.warning("%r: an entry of %s is left out: %s", source, kind, str(error)[:500])
        return None
    return entry


def _build(
    source: "ProxySource", kind: EntryKind, item: Any, unknown: UnknownMembers | None
) -> "RegistryEntry":
    members: dict[str, Any] = {
        "function": _answered_elsewhere,
        "signature": _SIGNATURE,
        "source": source,
        "unknown": unknown,
    }
    if kind == "tools":
        return _build_tool(_check_name(item.name), item, members)
    if kind == "prompts":
        return ProxiedPrompt(key=_check_name(item.name), item=item, **members)
    if kind == "resources":
        if not is_uri(item.uri) or not _PRINTABLE.fullmatch(item.uri):
            raise ValueError(f"{item.uri!r:.200} is not a URI")
        return ProxiedResource(key=item.uri, item=item, **members)
    text = item.uri_template
    if not _PRINTABLE.fullmatch(text):
        raise ValueError(f"{text!r:.200} is not a URI template")
    return ProxiedTemplate(
        key=text,
        item=item,
        template=uri_template.parse(text),
        prefix=re.split("[{%]", text, maxsplit=1)[0],
        **members,
    )


def _build_tool(name: str, item: Any, members: dict[str, Any]) -> ProxiedTool:
    if "type" not in item.input_schema:
        # Some servers write {} for a tool without arguments.
        item = msgspec.structs.replace(item, input_schema={"type": "object", **item.input_schema})
    support = item.execution.task_support if item.execution is not None else None
    return ProxiedTool(
        key=name,
        listed=item,
        returns=_RETURNS,
        label=f"tool {name}",
        # The proxy can wait for a task by itself, so that a plain call is answered as well.
        task="optional" if support in ("optional", "required") else None,
        mirrored=find_mirrored(name, item.input_schema),
        **members,
    )


def _check_name(name: str) -> str:
    if not _PRINTABLE.fullmatch(name):
        raise ValueError(f"the name {name!r:.200} is empty, too long or has control characters")
    return name


def build_unlisted(source: "ProxySource", uri: str) -> ProxiedResource | None:
    """Return the entry of a resource that the other server does not list."""
    from accord.types import Resource

    if not is_uri(uri) or not _PRINTABLE.fullmatch(uri):
        return None
    return ProxiedResource(
        key=uri,
        function=_answered_elsewhere,
        signature=_SIGNATURE,
        item=Resource(uri=uri, name=uri),
        source=source,
    )
