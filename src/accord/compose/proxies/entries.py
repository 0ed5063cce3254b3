"""The entries of the other server, as a proxy offers them."""

import logging
import re
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from msgspec import UNSET

from accord.protocol import shape, uri_template
from accord.protocol.exchange import Exchange
from accord.protocol.revisions import REVISIONS
from accord.protocol.syntax import is_uri
from accord.protocol.unknown import UnknownMembers
from accord.protocol.uri_template import UriTemplate
from accord.server.context import Context
from accord.server.entries.entry import Entry, EntryKind, ToolFacts
from accord.server.entries.resources import literal_prefix, may_match
from accord.server.entries.tools import find_mirrored
from accord.types import (
    CallToolParams,
    CompleteParams,
    CompleteResult,
    GetPromptParams,
    PromptReference,
    ReadResourceParams,
    ResourceTemplateReference,
)

if TYPE_CHECKING:
    from accord.compose.proxies.source import ProxySource
    from accord.server.session import Session

log = logging.getLogger("accord.compose")

# Control characters in a name could write to the terminals and logs that show it.
_PRINTABLE: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,1000}")


class ProxiedEntry(Entry, frozen=True, kw_only=True):
    """An entry of the other server, which answers its requests.

    Attributes:
        item: as the other server describes it.
        source: the proxy.
        unknown: members of the item that no revision defines.
        template: of a resource template.
        prefix: the text with which all URIs of it begin.
    """

    item: Any
    source: "ProxySource"
    unknown: UnknownMembers | None = None
    template: UriTemplate | None = None
    prefix: str = ""

    is_mounted: ClassVar[bool] = True

    @property
    def place(self) -> str:
        return f"offered by {self.source!r}"

    def unknown_members(self) -> UnknownMembers | None:
        return self.unknown

    # -- requests

    def answer(
        self,
        session: "Session",
        exchange: Exchange,
        params: Any,
        context: Context[Any] | None = None,
    ) -> Awaitable[Any]:
        exchange.state = self.label
        key, source = self.key, self.source
        if self.kind == "tools":
            arguments = msgspec.Raw(b"{}") if params.arguments is UNSET else params.arguments
            call = CallToolParams(key, arguments)
            execution = self.item.execution
            is_task = execution is not None and execution.task_support == "required"
            return source.call_tool(session, exchange, call, context, is_task=is_task)
        if self.kind == "prompts":
            return source.ask(session, exchange, GetPromptParams(key, params.arguments or None))
        return source.ask(session, exchange, ReadResourceParams(params.uri))

    def match(self, uri: str) -> dict[str, str] | None:
        if self.template is None or not may_match(uri, self.prefix):
            return None
        return self.template.match(uri)

    @property
    def arguments(self) -> Iterable[str]:
        if self.template is not None:
            return self.template.variables
        return [each.name for each in self.item.arguments or ()] if self.kind == "prompts" else ()

    async def complete(
        self, session: "Session", exchange: Exchange, params: CompleteParams
    ) -> CompleteResult:
        is_prompt = self.kind == "prompts"
        ref = PromptReference(self.key) if is_prompt else ResourceTemplateReference(self.key)
        params = msgspec.structs.replace(params, ref=ref)
        result: CompleteResult = await self.source.ask(session, exchange, params)
        return result

    # -- changes of its contents

    @property
    def reports_changes(self) -> bool:
        return self.source.upstream.catalog.can_subscribe

    def subscribe(self, session: "Session", uri: str) -> None:
        self.source.upstream.catalog.subscribe(session, uri)

    def unsubscribe(self, session: "Session", uri: str) -> None:
        self.source.upstream.catalog.unsubscribe(session, uri)


# -- making them


def build_entry(
    source: "ProxySource", kind: EntryKind, item: Any, unknown: UnknownMembers | None
) -> ProxiedEntry | None:
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
) -> ProxiedEntry:
    members: dict[str, Any] = {"kind": kind, "source": source, "unknown": unknown}
    if kind == "tools":
        return _build_tool(_check_name(item.name), item, members)
    if kind == "prompts":
        return ProxiedEntry(key=_check_name(item.name), item=item, **members)
    if kind == "resources":
        if not is_uri(item.uri) or not _PRINTABLE.fullmatch(item.uri):
            raise ValueError(f"{item.uri!r:.200} is not a URI")
        return ProxiedEntry(key=item.uri, item=item, **members)
    text = item.uri_template
    if not _PRINTABLE.fullmatch(text):
        raise ValueError(f"{text!r:.200} is not a URI template")
    return ProxiedEntry(
        key=text,
        item=item,
        template=uri_template.parse(text),
        prefix=literal_prefix(text),
        **members,
    )


def _build_tool(name: str, item: Any, members: dict[str, Any]) -> ProxiedEntry:
    if "type" not in item.input_schema:
        # Some servers write {} for a tool without arguments.
        item = msgspec.structs.replace(item, input_schema={"type": "object", **item.input_schema})
    support = item.execution.task_support if item.execution is not None else None
    facts = ToolFacts(
        mirrored=find_mirrored(name, item.input_schema),
        # The proxy can wait for a task by itself, so that a plain call is answered as well.
        task="optional" if support in ("optional", "required") else None,
    )
    return ProxiedEntry(key=name, item=item, facts=facts, **members)


def _check_name(name: str) -> str:
    if not _PRINTABLE.fullmatch(name):
        raise ValueError(f"the name {name!r:.200} is empty, too long or has control characters")
    return name


def build_unlisted(source: "ProxySource", uri: str) -> ProxiedEntry | None:
    """Return the entry of a resource that the other server does not list."""
    from accord.types import Resource

    if not is_uri(uri) or not _PRINTABLE.fullmatch(uri):
        return None
    return ProxiedEntry(kind="resources", key=uri, item=Resource(uri=uri, name=uri), source=source)
