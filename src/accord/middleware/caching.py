"""Results of requests, kept for a while and given to the same caller again."""

import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from copy import deepcopy
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from accord.middleware.requests import (
    AnyContext,
    check_choice,
    check_count,
    check_methods,
    check_names,
    check_number,
    is_failed,
    params_of,
    received_params,
    server_of,
    session_key,
    tool_of,
    worker_of,
)
from accord.server import Proceed
from accord.server.hub import UPDATED, ServerChange, list_topic
from accord.server.middleware import served_params
from accord.types import (
    CallToolParams,
    CallToolResult,
    CompleteResult,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceResult,
)

if TYPE_CHECKING:
    from accord.server.core import ServerCore
    from accord.sharing.serving.caches import SharedCaches
    from accord.sharing.workers.worker import Worker

CallerKey: TypeAlias = Callable[[AnyContext], Hashable | None]

_READ: Final = frozenset({"resources/read"})
_METHODS: Final = ("tools/call", *_READ)
# The results that a change of a list may change: an entry can be replaced by another one.
_CHANGED_BY: Final = {
    list_topic("tools"): frozenset({"tools/list", "tools/call"}),
    list_topic("prompts"): frozenset({"prompts/list", "prompts/get", "completion/complete"}),
    list_topic("resources"): frozenset(
        {"resources/list", "resources/templates/list", "resources/read", "completion/complete"}
    ),
}
_TOPICS: Final = (*_CHANGED_BY, (UPDATED, None))
_CACHEABLE: Final = frozenset().union(*_CHANGED_BY.values())
# Not tasks, nor questions to the client. Pages of lists are bytes, or were decoded for others.
_KEPT: Final = (
    *(CallToolResult, ReadResourceResult, GetPromptResult, CompleteResult, bytes),
    *(ListToolsResult, ListPromptsResult, ListResourcesResult, ListResourceTemplatesResult),
)

_encode: Final = msgspec.json.Encoder(order="sorted").encode
# Digits that a float would lose make another request.
_decode: Final = msgspec.json.Decoder(float_hook=lambda text: msgspec.Raw(text.encode())).decode


def cache(
    ttl: float,
    *,
    methods: Iterable[str] = _METHODS,
    tools: Iterable[str] | None = None,
    by: Literal["principal", "session", "all"] | CallerKey = "principal",
    entries: int = 1000,
    clock: Callable[[], float] = time.monotonic,
) -> "CacheMiddleware":
    """Return middleware that keeps results, and gives them to the same caller again.

    Calls of a tool are kept only if its annotations say that it is read-only, or if it is named
    here. Errors, questions to the client and tasks are not kept. Access is checked each time. A
    list is forgotten when it changes; the contents of resources, at `server.resource_updated`.
    Workers that serve together keep results each for itself, and forget them together.

    Args:
        ttl: seconds that a result is kept.
        methods: the requests whose results are kept: also "prompts/get", "completion/complete" and
            lists.
        tools: names of tools whose results are kept, in place of the read-only ones.
        by: what shares results. "principal" is the user as the token says; callers without a token
            share by connection or session, and without a session nothing is kept. "session" is
            the connection or session. "all" is one cache for all callers. A function of ctx
            returns a key, or None for requests that are not kept.
        entries: how many results are kept at most; those that were not used longest are dropped.
        clock: returns seconds; for tests.

    Raises:
        ValueError: a number is not above 0, `by` is not known, or a method is not cacheable.
        RegistrationError: the protocol has no such method.
    """
    check_number("cache()", "ttl", ttl)
    check_count("cache()", "entries", entries)
    check_choice("cache()", by, (*_KEYS, "all"))
    names = check_names("cache()", tools)
    chosen = check_methods("cache()", methods)
    for method in sorted(chosen - _CACHEABLE):
        kept = ", ".join(sorted(_CACHEABLE))
        raise ValueError(f"cache(): results of {method} cannot be kept; methods are {kept}")
    key_of: CallerKey = by if callable(by) else _KEYS.get(by, _by_all)
    return CacheMiddleware(ttl, chosen, names, key_of, entries, clock)


class CacheMiddleware:
    """Middleware that keeps results. Made by `cache`."""

    # Pages of lists are kept as they are.
    passes_results = True

    def __init__(
        self,
        ttl: float,
        methods: frozenset[str],
        tools: frozenset[str] | None,
        key_of: CallerKey,
        entries: int,
        clock: Callable[[], float],
    ) -> None:
        self._ttl = ttl
        self._methods = methods
        self._tools = tools
        self._key_of = key_of
        self._most = entries
        self._clock = clock
        # The one that was not used longest comes first.
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._changes = 0
        # Changes are heard in any thread.
        self._lock = threading.Lock()
        self._servers: weakref.WeakSet[ServerCore] = weakref.WeakSet()
        self._shared: weakref.WeakKeyDictionary[ServerCore, SharedCaches] = (
            weakref.WeakKeyDictionary()
        )

    def serves(self, name: str) -> bool:
        """Whether it is around the requests of a server with this name."""
        return any(server.name == name for server in self._servers)

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"<CacheMiddleware of {len(self)} results, ttl {self._ttl:g} s>"

    def clear(self) -> None:
        """Forget all results, also those of requests that are under way. From any thread.

        Where workers serve together, the others forget theirs as soon as they hear of it.
        """
        self.forget_all()
        for server, shared in [*self._shared.items()]:
            shared.publish(server.name, None)

    def forget_all(self) -> None:
        """Forget all results of this process."""
        with self._lock:
            self._changes += 1
            self._kept.clear()

    async def __call__(self, ctx: AnyContext, proceed: Proceed) -> Any:
        """Return the result that is kept, or serve the request and keep its result."""
        key = self._find_key(ctx)
        if key is None:
            return await proceed()
        server = server_of(ctx)
        if server not in self._servers:
            self._listen(server)
            worker = worker_of(ctx)
            if worker is not None:  # it was added while the server is served
                self.join_workers(server, worker)
        kept = self._look_up(key)
        if kept is not None and _is_admitted(ctx):
            return deepcopy(kept.result)
        changes = self._changes
        result = await proceed()
        # With a channel, the result may depend on what the client answered.
        has_asked = ctx._exchange.channel is not None
        if isinstance(result, _KEPT) and not is_failed(result) and not has_asked:
            self._keep(key, result, changes)
        return result

    def _look_up(self, key: "_Key") -> "_Kept | None":
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.ends <= self._clock():
                return None
            self._kept.move_to_end(key)
            return kept

    def _keep(self, key: "_Key", result: Any, changes: int) -> None:
        # A copy, since other middleware may change the result.
        kept = _Kept(self._clock() + self._ttl, deepcopy(result))
        with self._lock:
            if changes != self._changes:
                return  # what it is made of may have changed meanwhile
            self._kept[key] = kept
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def _find_key(self, ctx: AnyContext) -> "_Key | None":
        """Return the key of a request's result; None where it is not kept."""
        method = ctx.method
        if method not in self._methods or (method == "tools/call" and not self._is_chosen(ctx)):
            return None
        params = received_params(ctx)
        if ctx._params is not None:
            params = served_params(params, ctx._params)
        if any(
            getattr(params, name, None) is not None
            for name in ("task", "request_state", "input_responses")
        ):
            return None
        if method.endswith("/list") and ctx._session.visibility is not None:
            return None
        caller = self._key_of(ctx)
        if caller is None:
            return None
        try:
            plain = _canonical(params)
        except (ValueError, RecursionError):
            return None  # the handler says what is wrong with it
        uri = params.uri if method == "resources/read" else None
        return _Key(weakref.ref(server_of(ctx)), method, uri, plain, ctx.revision, caller)

    def _is_chosen(self, ctx: AnyContext) -> bool:
        if self._tools is not None:
            return params_of(ctx).name in self._tools
        tool = tool_of(ctx)
        hints = None if tool is None else tool.annotations
        return hints is not None and hints.read_only_hint is True

    # -- changes

    def _listen(self, server: "ServerCore") -> None:
        """Hear of the changes of a server, from its first request on."""
        if server not in self._servers:
            self._servers.add(server)
            server.hub.listen(self, _TOPICS)
            # Own changes at once: what is read next must not be older.
            server.hub.listen_first(self)

    def join_workers(self, server: "ServerCore", worker: "Worker") -> None:
        """Forget what other workers forget, and let them know what changes here."""
        self._listen(server)
        self._shared[server] = import_module("accord.sharing.serving.caches").join_caches(
            self, server, worker
        )

    def hear(self, change: ServerChange) -> None:
        """Forget what has changed. Called from any thread."""
        if change.topic not in _CHANGED_BY and change.name != UPDATED:
            return
        methods = _CHANGED_BY.get(change.topic, _READ)
        with self._lock:
            self._changes += 1
            for key in [*self._kept]:
                if key.method in methods and change.key in (None, key.uri):
                    del self._kept[key]


class _Key(NamedTuple):
    server: "weakref.ref[ServerCore]"
    method: str
    uri: str | None
    params: bytes
    revision: str
    caller: Hashable


class _Kept(NamedTuple):
    ends: float
    result: Any


def _canonical(params: Any) -> bytes:
    """Encode params so that equal ones have equal bytes, without their `_meta`."""
    plain = params.__copy__()
    plain.meta = None
    if isinstance(params, CallToolParams) and isinstance(params.arguments, msgspec.Raw):
        plain.arguments = msgspec.Raw(_encode(_decode(params.arguments)))
    return _encode(plain)


def _is_admitted(ctx: AnyContext) -> bool:
    """Whether the caller may still use what the result is of; if not, the handler says so."""
    server, session, exchange = server_of(ctx), ctx._session, ctx._exchange
    params = params_of(ctx)
    entry: Any
    if ctx.method == "tools/call":
        entry = server.tool_entries.get(params.name)
        is_mirrored = exchange.revision.rounds and exchange.origin is not None
        if entry is not None and entry.facts.mirrored and is_mirrored:
            exchange.origin.check_arguments(entry.facts.mirrored, exchange.params.arguments)
    elif ctx.method == "resources/read":
        entry = server.find_resource(params.uri)
    elif ctx.method == "prompts/get":
        entry = server.prompt_entries.get(params.name)
    elif ctx.method == "completion/complete":
        entry = server.completions.entry_of(params.ref)
    else:
        return True
    return entry is not None and server.access.admits(session, exchange, entry)


# -- callers


def _by_principal(ctx: AnyContext) -> Hashable | None:
    principal = ctx.principal
    if principal is None:
        return _by_session(ctx)
    # A token with fewer scopes may get another result.
    return "principal", principal.identity, principal.scopes


def _by_session(ctx: AnyContext) -> Hashable | None:
    key = session_key(ctx)
    # Over HTTP each request of a session has its own token.
    principal = ctx.principal
    scopes = None if principal is None else (principal.identity, principal.scopes)
    return None if key is None else ("session", key, scopes)


def _by_all(ctx: AnyContext) -> Hashable:
    return "all"


_KEYS: Final[dict[str, CallerKey]] = {"principal": _by_principal, "session": _by_session}
