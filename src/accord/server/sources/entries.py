"""Entries of a source under the names that a view or a mounting server gives them.

Each one holds the entry that it stands for. Where that is an entry of a server, the request goes on
in a session of that server: through its access rules and its middleware, with its own state.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, UnsetType

from accord.errors import InvalidParams
from accord.protocol.exchange import Exchange
from accord.server.contents import not_found
from accord.server.context import Context, current
from accord.server.entries.prompts import PromptEntry, unknown_prompt
from accord.server.entries.resources import ResourceEntry, TemplateEntry
from accord.server.entries.tools import ToolEntry, ToolResult, find_mirrored
from accord.server.middleware import LayeredRequest
from accord.server.params import read_params
from accord.server.sources.sessions import MountedContext, enter, enter_when_ready
from accord.server.sources.uris import Uris, map_contents, map_messages, map_tool_result
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
    from accord.server.core import ServerCore
    from accord.server.entries.registry import RegistryEntry
    from accord.server.session import Session
    from accord.server.sources.arguments import ArgumentChanges


class _Derived:
    """What entries of every kind have that stand for another one."""

    __slots__ = ()

    is_mounted = True

    if TYPE_CHECKING:
        inner: RegistryEntry
        owner: "ServerCore | None"
        uris: Uris | None

    @property
    def place(self) -> str:
        owner = self.owner
        return self.inner.place if owner is None else f"part of server {owner.info.name!r}"

    @property
    def is_guarded(self) -> bool:
        owner = self.owner
        if owner is not None and not owner.access.is_open:
            return True
        return self.inner.is_guarded

    def is_visible(self, session: "Session", exchange: Exchange) -> bool:
        if self.owner is None:
            return self.inner.is_visible(session, exchange)
        entered = enter(session, self.owner)
        if entered is None:  # its lifespan begins; nothing is shown or hidden by a session
            principal = session.principal_of(exchange)
            return self.owner.access.allows(principal, self.inner) and not self.inner.is_guarded
        return self.owner.access.shows(entered, exchange, self.inner) and self.inner.is_visible(
            entered, exchange
        )

    def unknown_members(self) -> Any:
        return self.inner.unknown_members()

    @property
    def reports_changes(self) -> bool:
        return self.inner.reports_changes

    def subscribe(self, session: "Session", uri: str) -> None:
        self.inner.subscribe(session, uri if self.uris is None else self.uris.inward(uri))

    def unsubscribe(self, session: "Session", uri: str) -> None:
        self.inner.unsubscribe(session, uri if self.uris is None else self.uris.inward(uri))


async def _enter(
    owner: "ServerCore | None", session: "Session", exchange: Exchange, inner: "RegistryEntry"
) -> "Session | None":
    """Return the session in which an entry is used; None where its server does not admit it."""
    if owner is None:
        return session
    entered = enter(session, owner) or await enter_when_ready(session, owner)
    return entered if owner.access.admits(entered, exchange, inner) else None


async def _use(
    owner: "ServerCore | None",
    session: "Session",
    exchange: Exchange,
    params: Any,
    handler: Callable[["Session", Exchange, Any], Any],
) -> Any:
    """Call a handler, through the middleware of the server that it belongs to."""
    layers = () if owner is None else owner.layers.around(exchange.name)
    if not layers:
        outcome = handler(session, exchange, params)
        return await outcome if iscoroutine(outcome) else outcome
    context = session.context(exchange)
    assert isinstance(context, MountedContext)
    context.receive(params)
    return await LayeredRequest(session, exchange, params, handler, layers, context).serve()


def _asked_name(exchange: Exchange, member: str, key: str) -> str:
    """Return the name or URI that the client asked for, for messages that it gets."""
    found = getattr(exchange.params, member, None)
    return found if isinstance(found, str) else key


class DerivedTool(_Derived, ToolEntry, frozen=True, kw_only=True):
    """A tool under another name, with other arguments, or of a mounted server."""

    inner: ToolEntry
    owner: "ServerCore | None" = None
    uris: Uris | None = None
    changes: "ArgumentChanges | None" = None

    def call(
        self,
        session: "Session",
        exchange: Exchange,
        arguments: msgspec.Raw | bytes | UnsetType,
        context: Context[object] | None = None,
    ) -> ToolResult | Awaitable[ToolResult]:
        if self.changes is not None:
            return self._call_changed(session, exchange, arguments, context)
        if self.uris is not None:
            return self._call_and_map(session, exchange, arguments, context, self.uris)
        return self._call(session, exchange, arguments, context)

    def _call(
        self,
        session: "Session",
        exchange: Exchange,
        arguments: msgspec.Raw | bytes | UnsetType,
        context: Context[object] | None,
    ) -> ToolResult | Awaitable[ToolResult]:
        owner, inner = self.owner, self.inner
        if owner is None:
            return inner.call(session, exchange, arguments, context)
        entered = enter(session, owner)
        if entered is None:
            return self._call_when_ready(session, exchange, arguments, context)
        if not owner.access.admits(entered, exchange, inner):
            raise _unknown_tool(_asked_name(exchange, "name", self.key))
        if context is not None:
            _move(context, entered, exchange, inner.key, arguments)
        layers = owner.layers.around(exchange.name) if owner.layers.are_used else ()
        if not layers:
            return inner.call(entered, exchange, arguments, context)
        params = CallToolParams(inner.key, arguments)  # type: ignore[arg-type]  # as received
        if context is None:
            made = entered.context(exchange, inner.key)
            assert isinstance(made, MountedContext)
            made.receive(params)
            context = made
        return LayeredRequest(entered, exchange, params, self._handle, layers, context).serve()

    def _handle(self, session: "Session", exchange: Exchange, params: CallToolParams) -> Any:
        """Call the tool that the middleware of its server leaves in the params."""
        entry: ToolEntry | None = self.inner
        if params.name != self.inner.key:
            server = session.server
            entry = server.tool_entries.get(params.name)
            if entry is None or not server.access.admits(session, exchange, entry):
                raise _unknown_tool(params.name)
        assert entry is not None
        context = current.get(None)
        if isinstance(context, MountedContext):  # not that of a task
            context = None
        return entry.call(session, exchange, params.arguments, context)

    async def _call_when_ready(
        self, session: "Session", exchange: Exchange, arguments: Any, context: Any
    ) -> ToolResult:
        assert self.owner is not None
        await enter_when_ready(session, self.owner)
        outcome = self._call(session, exchange, arguments, context)
        return outcome if isinstance(outcome, Struct) else await outcome

    async def _call_and_map(
        self, session: "Session", exchange: Exchange, arguments: Any, context: Any, uris: Uris
    ) -> ToolResult:
        outcome = self._call(session, exchange, arguments, context)
        result = outcome if isinstance(outcome, Struct) else await outcome
        mapped: ToolResult = map_tool_result(result, uris)
        return mapped

    async def _call_changed(
        self, session: "Session", exchange: Exchange, arguments: Any, context: Any
    ) -> ToolResult:
        assert self.changes is not None
        if context is None:
            # One of its own: the handler sees the changed arguments, and middleware those as sent.
            context = MountedContext(
                session, exchange, self.key, session.context(exchange, self.key)
            )
        token = current.set(context)
        try:
            changed = await self.changes.apply(arguments, context)
        except BaseException as error:
            return self._failure_of(error, context)
        finally:
            current.reset(token)
        _move(context, session, exchange, self.inner.key, changed)
        outcome = self._call(session, exchange, changed, context)
        result = outcome if isinstance(outcome, Struct) else await outcome
        return result if self.uris is None else map_tool_result(result, self.uris)


def _move(
    context: Context[Any], session: "Session", exchange: Exchange, key: str, arguments: Any
) -> None:
    """Let a context that exists already show the request as an inner server sees it."""
    context._session = session
    params = CallToolParams(key, arguments)
    if isinstance(context, MountedContext):
        context.receive(params)
    else:  # that of a task
        context._params = read_params(exchange, params)


def _unknown_tool(name: str) -> InvalidParams:
    return InvalidParams(f"unknown tool {name!r}", data={"name": name})


class DerivedPrompt(_Derived, PromptEntry, frozen=True, kw_only=True):
    """A prompt under another name, or of a mounted server."""

    inner: PromptEntry
    owner: "ServerCore | None" = None
    uris: Uris | None = None

    async def get(
        self, session: "Session", exchange: Exchange, given: Mapping[str, str]
    ) -> GetPromptResult:
        inner = self.inner
        entered = await _enter(self.owner, session, exchange, inner)
        if entered is None:
            raise unknown_prompt(_asked_name(exchange, "name", self.key))

        def handler(session: "Session", exchange: Exchange, params: GetPromptParams) -> Any:
            entry: PromptEntry | None = inner
            if params.name != inner.key:  # as the middleware of its server wants it
                entry = session.server.prompt_entries.get(params.name)
                if entry is None or not session.server.access.admits(session, exchange, entry):
                    raise unknown_prompt(params.name)
            assert entry is not None
            return entry.get(session, exchange, params.arguments or {})

        params = GetPromptParams(inner.key, dict(given))
        result: GetPromptResult = await _use(self.owner, entered, exchange, params, handler)
        return result if self.uris is None else map_messages(result, self.uris)

    async def complete(
        self, session: "Session", exchange: Exchange, params: CompleteParams
    ) -> CompleteResult:
        changed = msgspec.structs.replace(params, ref=PromptReference(self.inner.key))
        return await _complete(self, session, exchange, changed)


class DerivedResource(_Derived, ResourceEntry, frozen=True, kw_only=True):
    """A resource under another URI, or of a mounted server."""

    inner: ResourceEntry
    owner: "ServerCore | None" = None
    uris: Uris | None = None

    async def read(
        self, session: "Session", exchange: Exchange, uri: str, variables: Mapping[str, str]
    ) -> ReadResourceResult:
        return await _read(self, session, exchange, uri, variables)


class DerivedTemplate(_Derived, TemplateEntry, frozen=True, kw_only=True):
    """A resource template under another URI, or of a mounted server."""

    inner: TemplateEntry
    owner: "ServerCore | None" = None
    uris: Uris | None = None

    async def read(
        self, session: "Session", exchange: Exchange, uri: str, variables: Mapping[str, str]
    ) -> ReadResourceResult:
        return await _read(self, session, exchange, uri, variables)

    async def complete(
        self, session: "Session", exchange: Exchange, params: CompleteParams
    ) -> CompleteResult:
        changed = msgspec.structs.replace(params, ref=ResourceTemplateReference(self.inner.key))
        return await _complete(self, session, exchange, changed)


async def _read(
    entry: DerivedResource | DerivedTemplate,
    session: "Session",
    exchange: Exchange,
    uri: str,
    variables: Mapping[str, str],
) -> ReadResourceResult:
    inner, uris = entry.inner, entry.uris
    own_uri = uri if uris is None else uris.inward(uri)
    entered = await _enter(entry.owner, session, exchange, inner)
    if entered is None:
        raise not_found(_asked_name(exchange, "uri", uri))

    def handler(session: "Session", exchange: Exchange, params: ReadResourceParams) -> Any:
        if params.uri == own_uri:
            return inner.read(session, exchange, own_uri, variables)
        found = session.server.find_resource(params.uri)  # as the middleware of its server wants it
        if found is None or not session.server.access.admits(session, exchange, found[0]):
            raise not_found(params.uri)
        return found[0].read(session, exchange, params.uri, found[1])

    params = ReadResourceParams(own_uri)
    result: ReadResourceResult = await _use(entry.owner, entered, exchange, params, handler)
    return result if uris is None else map_contents(result, uris)


async def _complete(
    entry: DerivedPrompt | DerivedTemplate,
    session: "Session",
    exchange: Exchange,
    params: CompleteParams,
) -> CompleteResult:
    inner = entry.inner
    entered = await _enter(entry.owner, session, exchange, inner)
    if entered is None:
        raise InvalidParams(f"unknown reference {entry.key!r}")

    def handler(session: "Session", exchange: Exchange, params: CompleteParams) -> Any:
        return inner.complete(session, exchange, params)

    result: CompleteResult = await _use(entry.owner, entered, exchange, params, handler)
    return result


# -- making them


def own(entry: Any, owner: "ServerCore") -> Any:
    """Return an entry of a server as a source offers it."""
    return _derive(entry, owner=owner)


def rename(entry: Any, key: str) -> Any:
    """Return a tool or prompt under another name."""
    item = msgspec.structs.replace(entry.item, name=key)
    if isinstance(entry, ToolEntry):
        return _replace(entry, key=key, listed=item, label=f"tool {key}")
    return _replace(entry, key=key, item=item)


def _replace(entry: Any, **changes: Any) -> Any:
    if isinstance(entry, _Derived):  # which knows its inner entry by its own name
        return msgspec.structs.replace(entry, **changes)  # type: ignore[type-var]
    return _derive(entry, **changes)


def redescribe(entry: Any, **members: Any) -> Any:
    """Return an entry whose item has other members, such as its description."""
    item = msgspec.structs.replace(entry.item, **members)
    if isinstance(entry, ToolEntry):
        return _replace(entry, listed=item)
    return _replace(entry, item=item)


def relocate(entry: Any, uris: Uris) -> Any:
    """Return a resource or template under another URI, or what links to such resources."""
    if isinstance(entry, ResourceEntry):
        uri = uris.outward(entry.key)
        item = msgspec.structs.replace(entry.item, uri=uri)
        return _derive(entry, key=uri, item=item, uris=uris)
    if isinstance(entry, TemplateEntry):
        from accord.protocol.uri_template import parse

        text = uris.outward(entry.key)
        template_item = msgspec.structs.replace(entry.item, uri_template=text)
        return _derive(
            entry,
            key=text,
            item=template_item,
            template=parse(text),
            prefix=re.split("[{%]", text, maxsplit=1)[0],
            uris=uris,
        )
    if getattr(entry, "uris", uris) is None:
        return _replace(entry, uris=uris)
    return _derive(entry, uris=uris)


_KINDS: dict[Any, Any] = {
    ToolEntry: DerivedTool,
    PromptEntry: DerivedPrompt,
    ResourceEntry: DerivedResource,
    TemplateEntry: DerivedTemplate,
}


def _derive(entry: Any, **changes: Any) -> Any:
    """Return an entry that stands for another one, with all its members but those that change."""
    base = next(kind for kind in _KINDS if isinstance(entry, kind))
    members = {name: getattr(entry, name) for name in base.__struct_fields__}
    return _KINDS[base](**{**members, "inner": entry, **changes})


def change_arguments(entry: Any, changes: "ArgumentChanges") -> Any:
    """Return a tool with other arguments."""
    item = msgspec.structs.replace(entry.item, input_schema=changes.schema)
    mirrored = find_mirrored(entry.key, changes.schema)
    return _derive(entry, listed=item, changes=changes, mirrored=mirrored)
