"""Entries of a source under the names that a view or a mounting server gives them.

Each one holds the entry that it stands for, of any kind. Where that is an entry of a server, the
request goes on in a session of that server: through its access rules and its middleware, with its
own state.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from accord.errors import InvalidParams, RequestError
from accord.protocol.exchange import Exchange
from accord.server.context import Context, current
from accord.server.entries.entry import Entry, EntryKind
from accord.server.entries.prompts import unknown_prompt
from accord.server.entries.resources import literal_prefix, may_match
from accord.server.entries.tools import failure_of, find_mirrored
from accord.server.media import not_found
from accord.server.middleware import LayeredRequest
from accord.server.sources.sessions import enter, enter_when_ready, inner_context
from accord.types import (
    CallToolParams,
    CallToolResult,
    CompleteParams,
    CompleteResult,
    EmbeddedResource,
    GetPromptParams,
    GetPromptResult,
    PromptReference,
    ReadResourceParams,
    ReadResourceResult,
    ResourceContents,
    ResourceLink,
    ResourceTemplateReference,
)

if TYPE_CHECKING:
    from accord.protocol.unknown import UnknownMembers
    from accord.server.core import ServerCore
    from accord.server.session import Session
    from accord.server.sources.views import ArgumentChanges

Serve: TypeAlias = Callable[["Session", Exchange, Any, Context[Any] | None], Any]
"""Answers a request in a session, by the names of an entry: `Entry.answer`."""


class WrappedEntry(Entry, frozen=True, kw_only=True):
    """An entry that stands for another one, and is what that one is.

    Subclasses change what they are there for.
    """

    inner: Entry

    is_mounted: ClassVar[bool] = True

    @property
    def item(self) -> Any:
        return self.inner.item

    @property
    def place(self) -> str:
        return self.inner.place

    def unknown_members(self) -> "UnknownMembers | None":
        return self.inner.unknown_members()

    @property
    def is_guarded(self) -> bool:
        return self.inner.is_guarded

    def is_visible(self, session: "Session", exchange: Exchange) -> bool:
        return self.inner.is_visible(session, exchange)

    def answer(
        self,
        session: "Session",
        exchange: Exchange,
        params: Any,
        context: Context[Any] | None = None,
    ) -> Any:
        return self.inner.answer(session, exchange, params, context)

    def match(self, uri: str) -> dict[str, str] | None:
        return self.inner.match(uri)

    @property
    def arguments(self) -> Iterable[str]:
        return self.inner.arguments

    async def complete(
        self, session: "Session", exchange: Exchange, params: CompleteParams
    ) -> CompleteResult:
        return await self.inner.complete(session, exchange, params)

    @property
    def dependencies(self) -> Iterable[Callable[..., object]]:
        return self.inner.dependencies

    @property
    def reports_changes(self) -> bool:
        return self.inner.reports_changes

    def subscribe(self, session: "Session", uri: str) -> None:
        self.inner.subscribe(session, uri)

    def unsubscribe(self, session: "Session", uri: str) -> None:
        self.inner.unsubscribe(session, uri)


Wrapped = TypeVar("Wrapped", bound=WrappedEntry)


def wrap(form: type[Wrapped], entry: Entry, **members: Any) -> Wrapped:
    """Return an entry of this class that stands for another one."""
    own = {name: getattr(entry, name) for name in Entry.__struct_fields__}
    return form(**{**own, "inner": entry, **members})


class DerivedEntry(WrappedEntry, frozen=True, kw_only=True):
    """An entry under another name, in another form, or of a mounted server.

    Attributes:
        listed: the description that clients see, where it is another one.
        owner: the server that it belongs to, where the request goes on in a session of that one.
        uris: how the URIs of its source become those that clients know.
        prefix: the text with which all URIs of a template with such `uris` begin.
        changes: what the arguments of a tool become.
    """

    listed: Any = None
    owner: "ServerCore | None" = None
    uris: "Uris | None" = None
    prefix: str = ""
    changes: "ArgumentChanges | None" = None

    @property
    def item(self) -> Any:
        return self.inner.item if self.listed is None else self.listed

    @property
    def place(self) -> str:
        owner = self.owner
        return self.inner.place if owner is None else f"part of server {owner.info.name!r}"

    # -- access

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

    # -- URIs

    def _inward(self, uri: str) -> str:
        return uri if self.uris is None else self.uris.inward(uri)

    def match(self, uri: str) -> dict[str, str] | None:
        if self.uris is None:
            return self.inner.match(uri)
        if not may_match(uri, self.prefix):
            return None
        inner_uri = self.uris.inward(uri)
        return None if inner_uri == uri else self.inner.match(inner_uri)

    def subscribe(self, session: "Session", uri: str) -> None:
        self.inner.subscribe(session, self._inward(uri))

    def unsubscribe(self, session: "Session", uri: str) -> None:
        self.inner.unsubscribe(session, self._inward(uri))

    # -- requests

    def answer(
        self,
        session: "Session",
        exchange: Exchange,
        params: Any,
        context: Context[Any] | None = None,
    ) -> Any:
        if self.changes is not None:
            return self._answer_changed(session, exchange, params, context, self.changes)
        if self.uris is not None:
            own = self._translate(params)
            return self._answer_and_map(session, exchange, own, context, self.uris)
        if self.inner.key != self.key:
            params = self._translate(params)
        return self._pass_on(session, exchange, params, context, self.inner.answer)

    async def complete(
        self, session: "Session", exchange: Exchange, params: CompleteParams
    ) -> CompleteResult:
        inner = self.inner
        is_prompt = self.kind == "prompts"
        ref = PromptReference(inner.key) if is_prompt else ResourceTemplateReference(inner.key)
        params = msgspec.structs.replace(params, ref=ref)

        def serve(session: "Session", exchange: Exchange, params: Any, context: object) -> Any:
            return inner.complete(session, exchange, params)

        result: CompleteResult = await self._pass_on(session, exchange, params, None, serve)
        return result

    def _translate(self, params: Any) -> Any:
        """Return the params by the names of the inner entry."""
        kind, key = self.kind, self.inner.key
        if kind == "resource_templates":
            key = self._inward(params.uri)
        elif key == self.key:
            return params
        inner = params.__copy__()  # quicker than to replace a member
        if kind in ("tools", "prompts"):
            inner.name = key
        else:
            inner.uri = key
        return inner

    def _pass_on(
        self,
        session: "Session",
        exchange: Exchange,
        params: Any,
        context: Context[Any] | None,
        serve: Serve,
    ) -> Any:
        """Answer in the session of the server that the entry belongs to, if it is of a server."""
        owner = self.owner
        if owner is None:
            return serve(session, exchange, params, context)
        entered = enter(session, owner)
        if entered is None:
            return self._pass_on_when_ready(session, exchange, params, context, serve)
        if not owner.access.admits(entered, exchange, self.inner):
            raise _unknown(self.kind, _name_in(exchange.params) or self.key)
        if context is not None:
            _move(context, entered, params)
        layers = owner.layers.around(exchange.name) if owner.layers.are_used else ()
        if not layers:
            return serve(entered, exchange, params, context)
        seen = context
        if seen is None:
            seen = entered.context(exchange, params)
            seen._receive(params)
        handler = partial(self._answer_layered, serve, _name_in(params), context)
        return LayeredRequest(entered, exchange, params, handler, layers, seen).serve()

    async def _pass_on_when_ready(
        self,
        session: "Session",
        exchange: Exchange,
        params: Any,
        context: Context[Any] | None,
        serve: Serve,
    ) -> Any:
        assert self.owner is not None
        await enter_when_ready(session, self.owner)
        outcome = self._pass_on(session, exchange, params, context, serve)
        return outcome if isinstance(outcome, Struct) else await outcome

    def _answer_layered(
        self,
        serve: Serve,
        name: str | None,
        context: Context[Any] | None,
        session: "Session",
        exchange: Exchange,
        params: Any,
    ) -> Any:
        """Answer with the entry that the middleware of its server leaves in the params."""
        wanted = _name_in(params)
        if wanted is not None and wanted != name:
            server = session.server
            entry = _find(server, params)
            if entry is None or not server.access.admits(session, exchange, entry):
                raise _unknown(self.kind, wanted)
            serve = entry.answer
        return serve(session, exchange, params, context)

    async def _answer_and_map(
        self,
        session: "Session",
        exchange: Exchange,
        params: Any,
        context: Context[Any] | None,
        uris: "Uris",
    ) -> Any:
        outcome = self._pass_on(session, exchange, params, context, self.inner.answer)
        result = outcome if isinstance(outcome, Struct) else await outcome
        return map_uris(self.kind, result, uris)

    async def _answer_changed(
        self,
        session: "Session",
        exchange: Exchange,
        params: CallToolParams,
        context: Context[Any] | None,
        changes: "ArgumentChanges",
    ) -> Any:
        if context is None:
            # One of its own: the handler sees the changed arguments, and middleware those as sent.
            context = inner_context(session, exchange, params, session.context(exchange, params))
        token = current.set(context)
        try:
            arguments = await changes.apply(params.arguments, context)
        except BaseException as error:
            return failure_of(error, context, self)
        finally:
            current.reset(token)
        changed = msgspec.structs.replace(params, name=self.inner.key, arguments=arguments)
        _move(context, session, changed)
        outcome = self._pass_on(session, exchange, changed, context, self.inner.answer)
        result = outcome if isinstance(outcome, Struct) else await outcome
        return result if self.uris is None else map_uris(self.kind, result, self.uris)


def _move(context: Context[Any], session: "Session", params: Any) -> None:
    """Let a context that exists already show the request as an inner server sees it."""
    context._session = session
    context._receive(params)


def _name_in(params: Any) -> str | None:
    """Return the name or URI that params ask for; None where they ask for something about one."""
    name = getattr(params, "name", None)
    if name is None:
        name = getattr(params, "uri", None)
    return name if isinstance(name, str) else None


def _find(server: "ServerCore", params: Any) -> Entry | None:
    """Return the entry that params ask for."""
    if isinstance(params, ReadResourceParams):
        return server.find_resource(params.uri)
    registry = server.prompt_entries if isinstance(params, GetPromptParams) else server.tool_entries
    return registry.get(params.name)


def _unknown(kind: EntryKind, name: str) -> RequestError:
    """Return the error for an entry that does not exist for the caller."""
    if kind == "tools":
        return InvalidParams(f"unknown tool {name!r}", data={"name": name})
    return unknown_prompt(name) if kind == "prompts" else not_found(name)


# -- making them


def own(entry: Entry, owner: "ServerCore") -> DerivedEntry:
    """Return an entry of a server as a source offers it."""
    return wrap(DerivedEntry, entry, owner=owner)


def _change(entry: Entry, **members: Any) -> DerivedEntry:
    if isinstance(entry, DerivedEntry):  # which knows its inner entry by its own name
        return msgspec.structs.replace(entry, **members)
    return wrap(DerivedEntry, entry, **members)


def rename(entry: Entry, key: str) -> DerivedEntry:
    """Return a tool or prompt under another name."""
    return _change(entry, key=key, listed=msgspec.structs.replace(entry.item, name=key))


def redescribe(entry: Entry, **members: Any) -> DerivedEntry:
    """Return an entry whose item has other members, such as its description."""
    return _change(entry, listed=msgspec.structs.replace(entry.item, **members))


def retag(entry: Entry, tags: frozenset[str]) -> DerivedEntry:
    """Return an entry with other tags."""
    return _change(entry, tags=tags)


def relocate(entry: Entry, uris: "Uris") -> DerivedEntry:
    """Return a resource or template under another URI, or what links to such resources."""
    if entry.kind in ("tools", "prompts"):
        if getattr(entry, "uris", uris) is None:
            return _change(entry, uris=uris)
        return wrap(DerivedEntry, entry, uris=uris)
    uri = uris.outward(entry.key)
    if entry.kind == "resources":
        listed = msgspec.structs.replace(entry.item, uri=uri)
        return wrap(DerivedEntry, entry, key=uri, listed=listed, uris=uris)
    listed = msgspec.structs.replace(entry.item, uri_template=uri)
    prefix = literal_prefix(uri)
    return wrap(DerivedEntry, entry, key=uri, listed=listed, uris=uris, prefix=prefix)


def change_arguments(entry: Entry, changes: "ArgumentChanges") -> DerivedEntry:
    """Return a tool with other arguments."""
    item = msgspec.structs.replace(entry.item, input_schema=changes.schema)
    mirrored = find_mirrored(entry.key, changes.schema)
    facts = msgspec.structs.replace(entry.facts, mirrored=mirrored)
    return wrap(DerivedEntry, entry, listed=item, changes=changes, facts=facts)


# -- URIs, so that those of two sources cannot collide


class UriPrefix(msgspec.Struct, frozen=True):
    """Puts a prefix into URIs, and takes it out again.

    Args:
        prefix: the prefix.
        offers: whether the source has a resource with this URI: links in results to anything else
            stay as they are.

    >>> uris = UriPrefix("crm", lambda uri: True)
    >>> uris.outward("data://config"), uris.outward("urn:isbn:1")
    ('data://crm/config', 'crm+urn:isbn:1')
    >>> uris.inward("data://crm/config"), uris.inward("crm+urn:isbn:1")
    ('data://config', 'urn:isbn:1')
    """

    prefix: str
    offers: Callable[[str], bool]

    def outward(self, uri: str) -> str:
        """Return the URI by which clients know a resource of the source."""
        scheme, separator, rest = uri.partition("://")
        if separator:
            return f"{scheme}://{self.prefix}/{rest}"
        return f"{self.prefix}+{uri}"

    def inward(self, uri: str) -> str:
        """Return the URI by which the source knows a resource."""
        scheme, separator, rest = uri.partition("://")
        if separator and rest.startswith(f"{self.prefix}/"):
            return f"{scheme}://{rest[len(self.prefix) + 1 :]}"
        if "%" in rest:
            first, slash, others = rest.partition("/")
            if slash and unquote(first) == self.prefix:  # the same URI, written in another way
                return f"{scheme}://{others}"
        return uri.removeprefix(f"{self.prefix}+")


class UriRename(msgspec.Struct, frozen=True):
    """Gives one resource another URI; as `UriPrefix`."""

    inner: str
    outer: str

    def outward(self, uri: str) -> str:
        return self.outer if uri == self.inner else uri

    def inward(self, uri: str) -> str:
        return self.inner if uri == self.outer else uri

    def offers(self, uri: str) -> bool:
        return uri == self.inner


Uris = UriPrefix | UriRename


_RESULTS: Final[dict[EntryKind, Any]] = {
    "tools": CallToolResult,
    "prompts": GetPromptResult,
    "resources": ReadResourceResult,
    "resource_templates": ReadResourceResult,
}


def map_uris(kind: EntryKind, result: Any, uris: Uris) -> Any:
    """Return the result of an entry of this kind with the URIs that clients know."""
    if result.__class__ is bytes and b'"uri"' in result:  # which a proxy passes as it is
        result = msgspec.json.decode(result, type=_RESULTS[kind])
    replace = msgspec.structs.replace
    if isinstance(result, CallToolResult):
        for block in result.content:
            if isinstance(block, ResourceLink | EmbeddedResource):
                return replace(result, content=[_map_block(each, uris) for each in result.content])
    elif isinstance(result, ReadResourceResult):
        contents = [_with_uri(each, uris.outward(each.uri)) for each in result.contents]
        return replace(result, contents=contents)
    elif isinstance(result, GetPromptResult):
        messages = [
            replace(each, content=_map_block(each.content, uris)) for each in result.messages
        ]
        return replace(result, messages=messages)
    return result


def _map_block(block: Any, uris: Uris) -> Any:
    if isinstance(block, ResourceLink) and uris.offers(block.uri):
        return _with_uri(block, uris.outward(block.uri))
    if isinstance(block, EmbeddedResource) and uris.offers(block.resource.uri):
        resource = _with_uri(block.resource, uris.outward(block.resource.uri))
        return msgspec.structs.replace(block, resource=resource)
    return block


def _with_uri(part: Any, uri: str) -> Any:
    assert isinstance(part, ResourceContents | ResourceLink)
    return msgspec.structs.replace(part, uri=uri)
