"""Every method of every revision: sender, lifetime, capability, params and result.

A method has a second row where a later revision gave it another sender or another result.
"""

from typing import Any, Final

import msgspec

from accord import types as t
from accord.protocol.violation import CLIENT, SERVER, Party
from accord.types._base import ALWAYS, Lifetime, lifetime_of


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
