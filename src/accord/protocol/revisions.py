"""The revisions of the protocol: a row of features each, and the methods that live in it.

Code asks a feature (`revision.batching`), never a revision id. A revision is written as what
changed since the one before (`evolve`); its method indexes are compiled when first asked for.

Methods are rows, too: sender, lifetime, capability, params and result. A method has a second row
where a later revision gave it another sender or another result.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from accord import types as t
from accord.protocol.violation import CLIENT, SERVER, Party
from accord.types._base import ALWAYS, Lifetime, RevisionId, lifetime_of

Id = TypeVar("Id", bound=str)


# -- methods


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """One protocol method: its senders, its lifetime, its params and result, what it needs.

    `needs` is the capability that the answering party must have declared; `offers` the one that the
    sender of a notification must have declared; either holds in its own lifetime. `may_ask` says
    that the answer may be questions instead of a result.
    """

    name: str
    by: tuple[Party, ...]
    params: Any
    result: Any = None
    lifetime: Lifetime = ALWAYS
    needs: str | None = None
    needs_lifetime: Lifetime = ALWAYS
    offers: str | None = None
    may_ask: bool = False

    def __repr__(self) -> str:
        return f"Method({self.name!r})"

    @property
    def is_request(self) -> bool:
        """Whether an answer is expected."""
        return self.result is not None


_BOTH: Final[tuple[Party, ...]] = (CLIENT, SERVER)

_HANDSHAKE: Final = Lifetime(until="2025-11-25")
_STATELESS: Final = Lifetime(since="2026-07-28")
_TASKS: Final = Lifetime("2025-11-25", "2025-11-25")


def _request(
    by: Party | tuple[Party, ...],
    name: str,
    params: Any,
    result: Any,
    lifetime: Lifetime = ALWAYS,
    **features: Any,
) -> Method:
    """Describe a method, which lives no longer than its params and its result."""
    senders = (by,) if isinstance(by, str) else by
    lives = lifetime & lifetime_of(params) & lifetime_of(result)
    return Method(name=name, by=senders, params=params, result=result, lifetime=lives, **features)


def _notification(
    by: Party | tuple[Party, ...],
    name: str,
    params: Any,
    lifetime: Lifetime = ALWAYS,
    **features: Any,
) -> Method:
    return _request(by, f"notifications/{name}", params, None, lifetime, **features)


METHODS: Final[tuple[Method, ...]] = (
    # -- opening
    _request(CLIENT, "initialize", t.InitializeParams, t.InitializeResult),
    _notification(CLIENT, "initialized", t.EmptyParams, _HANDSHAKE),
    _request(CLIENT, "server/discover", t.DiscoverParams, t.DiscoverResult),
    _request(_BOTH, "ping", t.EmptyParams, t.EmptyResult, _HANDSHAKE),
    # -- tools
    _request(CLIENT, "tools/list", t.PageParams, t.ListToolsResult, needs="tools"),
    _request(CLIENT, "tools/call", t.CallToolParams, t.CallToolResult, needs="tools", may_ask=True),
    _notification(SERVER, "tools/list_changed", t.EmptyParams, offers="tools.listChanged"),
    # -- resources
    _request(CLIENT, "resources/list", t.PageParams, t.ListResourcesResult, needs="resources"),
    _request(
        CLIENT,
        "resources/templates/list",
        t.PageParams,
        t.ListResourceTemplatesResult,
        needs="resources",
    ),
    _request(
        CLIENT,
        "resources/read",
        t.ReadResourceParams,
        t.ReadResourceResult,
        needs="resources",
        may_ask=True,
    ),
    _request(
        CLIENT, "resources/subscribe", t.SubscribeParams, t.EmptyResult, needs="resources.subscribe"
    ),
    _request(
        CLIENT,
        "resources/unsubscribe",
        t.UnsubscribeParams,
        t.EmptyResult,
        needs="resources.subscribe",
    ),
    _notification(SERVER, "resources/list_changed", t.EmptyParams, offers="resources.listChanged"),
    _notification(
        SERVER, "resources/updated", t.ResourceUpdatedParams, offers="resources.subscribe"
    ),
    # -- prompts
    _request(CLIENT, "prompts/list", t.PageParams, t.ListPromptsResult, needs="prompts"),
    _request(
        CLIENT, "prompts/get", t.GetPromptParams, t.GetPromptResult, needs="prompts", may_ask=True
    ),
    _notification(SERVER, "prompts/list_changed", t.EmptyParams, offers="prompts.listChanged"),
    # -- completion, logging
    _request(
        CLIENT,
        "completion/complete",
        t.CompleteParams,
        t.CompleteResult,
        needs="completions",
        needs_lifetime=Lifetime(since="2025-03-26"),
    ),
    _request(CLIENT, "logging/setLevel", t.SetLevelParams, t.EmptyResult, needs="logging"),
    _notification(SERVER, "message", t.LogMessageParams, offers="logging"),
    # -- what a server asks of a client
    _request(
        SERVER,
        "sampling/createMessage",
        t.CreateMessageParams,
        t.CreateMessageResult,
        _HANDSHAKE,
        needs="sampling",
    ),
    _request(SERVER, "roots/list", t.EmptyParams, t.ListRootsResult, _HANDSHAKE, needs="roots"),
    _request(
        SERVER,
        "elicitation/create",
        t.ElicitParams,
        t.ElicitResult,
        _HANDSHAKE,
        needs="elicitation",
    ),
    _notification(
        CLIENT, "roots/list_changed", t.EmptyParams, _HANDSHAKE, offers="roots.listChanged"
    ),
    _notification(SERVER, "elicitation/complete", t.ElicitationCompleteParams),
    # -- about requests under way
    _notification(_BOTH, "cancelled", t.CancelledParams),
    _notification(_BOTH, "progress", t.ProgressParams, _HANDSHAKE),
    _notification(SERVER, "progress", t.ProgressParams, _STATELESS),
    # -- tasks of 2025-11-25, either party's
    _request(
        _BOTH, "tasks/get", t.GetTaskParams, t.GetTaskResult, needs="tasks", needs_lifetime=_TASKS
    ),
    _request(_BOTH, "tasks/result", t.TaskResultParams, Any, needs="tasks"),
    _request(_BOTH, "tasks/list", t.PageParams, t.ListTasksResult, needs="tasks.list"),
    _request(_BOTH, "tasks/cancel", t.CancelTaskParams, t.CancelTaskResult, needs="tasks.cancel"),
    _notification(_BOTH, "tasks/status", t.TaskStatusParams),
    # -- the tasks extension, and subscriptions, of revisions without handshake
    _request(CLIENT, "tasks/cancel", t.CancelTaskParams, t.EmptyResult, _STATELESS),
    _request(CLIENT, "tasks/update", t.UpdateTaskParams, t.EmptyResult),
    _notification(SERVER, "tasks", t.TaskParams),
    _request(CLIENT, "subscriptions/listen", t.ListenParams, t.ListenResult),
    _notification(SERVER, "subscriptions/acknowledged", t.SubscriptionsAcknowledgedParams),
)

KNOWN: Final = frozenset(method.name for method in METHODS)
REQUESTS: Final = frozenset(method.name for method in METHODS if method.is_request)
"""Request methods of any revision: sent without an id they are a breach, no notification."""


# -- revisions


class Phase(Enum):
    """How far a conversation has come. Revisions without handshake are ready from the start."""

    OPENING = "opening"
    NEGOTIATING = "negotiating"
    NEGOTIATED = "negotiated"
    READY = "ready"
    CLOSED = "closed"


class Revision(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A revision of the protocol: its id, its features, its methods."""

    id: RevisionId
    methods: tuple[Method, ...]

    handshake: bool = True
    batching: bool = False
    server_requests: bool = True
    rounds: bool = False
    result_type: bool = False
    cache_hints: bool = False
    tasks: bool = False
    priming_event: bool = False
    streamable_http: bool = False
    version_header: bool = False
    not_found_code: int = -32002
    reserved_codes: bool = False

    def __repr__(self) -> str:
        return f"Revision({self.id!r})"

    def evolve(self, id: RevisionId, **features: Any) -> "Revision":
        """Describe the next revision by what changes."""
        return msgspec.structs.replace(self, id=id, **features)

    @cached_property
    def requests(self) -> dict[Party, dict[str, Method]]:
        """The request methods of this revision by sender and name."""
        return self._index(is_request=True)

    @cached_property
    def notifications(self) -> dict[Party, dict[str, Method]]:
        """The notifications of this revision by sender and name."""
        return self._index(is_request=False)

    def _index(self, *, is_request: bool) -> dict[Party, dict[str, Method]]:
        return {
            party: {
                method.name: method
                for method in self.methods
                if method.is_request is is_request
                and party in method.by
                and self.id in method.lifetime
                and (self.server_requests or party == CLIENT or not is_request)
            }
            for party in (CLIENT, SERVER)
        }

    def needed_for(self, sender: Party, name: str) -> str | None:
        """The capability that the answering party must have declared for a request."""
        return self._needs[sender].get(name)

    @cached_property
    def _needs(self) -> dict[Party, dict[str, str]]:
        return {
            party: {
                name: method.needs
                for name, method in methods.items()
                if method.needs and self.id in method.needs_lifetime
            }
            for party, methods in self.requests.items()
        }


R2024_11_05: Final = Revision(id="2024-11-05", methods=METHODS)
R2025_03_26: Final = R2024_11_05.evolve("2025-03-26", batching=True, streamable_http=True)
R2025_06_18: Final = R2025_03_26.evolve("2025-06-18", batching=False, version_header=True)
R2025_11_25: Final = R2025_06_18.evolve("2025-11-25", priming_event=True, tasks=True)
R2026_07_28: Final = R2025_11_25.evolve(
    "2026-07-28",
    handshake=False,
    priming_event=False,
    tasks=False,
    server_requests=False,
    rounds=True,
    result_type=True,
    cache_hints=True,
    not_found_code=-32602,
    reserved_codes=True,
)

REVISIONS: Final[Mapping[str, Revision]] = MappingProxyType(
    {
        revision.id: revision
        for revision in (R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28)
    }
)
"""Every revision, oldest first."""

HANDSHAKE: Final[Mapping[RevisionId, Revision]] = MappingProxyType(
    {row.id: row for row in REVISIONS.values() if row.handshake}
)
"""Those of them that open with `initialize`; in the others each request stands on its own."""

# Assumed of a peer before it has named a revision.
BEFORE_HANDSHAKE: Final = [*HANDSHAKE.values()][-1]


def in_order(ids: Iterable[Id]) -> list[Id]:
    """Sort revision ids, oldest first.

    >>> in_order(["2025-06-18", "2024-11-05"])
    ['2024-11-05', '2025-06-18']
    """
    return sorted(ids)


def newest(ids: Iterable[Id]) -> Id:
    """Return the newest of some revision ids.

    >>> newest({"2025-06-18", "2024-11-05"})
    '2025-06-18'
    """
    return max(ids)


def find_revision(named: object) -> Revision | None:
    """Return the revision that a message names; None if it is not known."""
    return REVISIONS.get(named) if isinstance(named, str) else None


def later_than(id: str) -> list[Revision]:
    """Return the revisions after one, which may be unknown."""
    return [row for row in REVISIONS.values() if row.id > id]


def negotiate(requested: str, supported: Iterable[RevisionId]) -> Revision:
    """Choose what a server answers to `initialize`: the revision asked for, else the newest it has.

    Only revisions with a handshake can be negotiated by one.
    """
    rows = [REVISIONS[id] for id in supported if REVISIONS[id].handshake]
    for row in rows:
        if row.id == requested:  # lifecycle.version.server-echoes
            return row
    if not rows:
        raise ValueError("no supported revision has a handshake")
    return max(rows, key=lambda row: row.id)
