"""Subscriptions: the listen filter and its answers; the older subscribe and unsubscribe."""

from accord.types._base import Struct, since, until
from accord.types.messages import Params, Result

__all__ = [
    "ListenParams",
    "ListenResult",
    "SubscribeParams",
    "SubscriptionFilter",
    "SubscriptionsAcknowledgedParams",
    "UnsubscribeParams",
]


@until("2025-11-25")
class SubscribeParams(Params):
    """Ask to hear of changes of a resource."""

    uri: str


@until("2025-11-25")
class UnsubscribeParams(Params):
    """Ask to hear no more of a resource."""

    uri: str


@since("2026-07-28")
class SubscriptionFilter(Struct):
    """Which changes to hear of. `task_ids` belongs to the tasks extension."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None
    task_ids: list[str] | None = None


@since("2026-07-28")
class ListenParams(Params):
    """Open a stream of change notices."""

    notifications: SubscriptionFilter


@since("2026-07-28")
class ListenResult(Result):
    """End a stream of change notices; `_meta` names the subscription."""


@since("2026-07-28")
class SubscriptionsAcknowledgedParams(Params):
    """Tell which part of the filter will be served."""

    notifications: SubscriptionFilter
