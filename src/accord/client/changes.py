"""Changes that a server reports, and the filters that say of which ones to hear."""

from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from accord.errors import LocalProtocolError
from accord.protocol.exchange import NotificationReceived
from accord.types import SubscriptionFilter

_TOOLS: Final = "notifications/tools/list_changed"
_PROMPTS: Final = "notifications/prompts/list_changed"
_RESOURCES: Final = "notifications/resources/list_changed"
UPDATED: Final = "notifications/resources/updated"
KINDS: Final = {
    "tools_list_changed": (_TOOLS, "tools.listChanged"),
    "prompts_list_changed": (_PROMPTS, "prompts.listChanged"),
    "resources_list_changed": (_RESOURCES, "resources.listChanged"),
    "resource_subscriptions": (UPDATED, "resources.subscribe"),
}
"""By member of a filter, the notice and the capability of a server that sends it."""


@dataclass(frozen=True, slots=True)
class ToolsChanged:
    """The list of tools changed."""


@dataclass(frozen=True, slots=True)
class PromptsChanged:
    """The list of prompts changed."""


@dataclass(frozen=True, slots=True)
class ResourcesChanged:
    """The list of resources changed."""


@dataclass(frozen=True, slots=True)
class ResourceUpdated:
    """A resource changed."""

    uri: str


@dataclass(frozen=True, slots=True)
class NoticesLost:
    """Notices may have been lost, for this reason: fetch again what you depend on."""

    reason: str


Change: TypeAlias = ToolsChanged | PromptsChanged | ResourcesChanged | ResourceUpdated | NoticesLost
_LISTS: Final[dict[str, type[ToolsChanged | PromptsChanged | ResourcesChanged]]] = {
    _TOOLS: ToolsChanged,
    _PROMPTS: PromptsChanged,
    _RESOURCES: ResourcesChanged,
}


def read_change(event: NotificationReceived) -> Change | None:
    """Return the change that a notification reports; None for any other."""
    if event.name == UPDATED:
        return ResourceUpdated(event.params.uri)
    kind = _LISTS.get(event.name)
    return None if kind is None else kind()


# -- filters


def is_empty(wanted: SubscriptionFilter) -> bool:
    """Whether a filter asks for nothing."""
    return not any(getattr(wanted, member) for member in SubscriptionFilter.__struct_fields__)


def declared_part(
    wanted: SubscriptionFilter, declared: frozenset[str] | None
) -> SubscriptionFilter:
    """Return the part of a filter that a server serves, by what it declared.

    Args:
        wanted: the filter.
        declared: the capabilities of the server as dotted paths; None if they are unknown.
    """
    if declared is None:
        return wanted
    left_out = {member: None for member, (_, path) in KINDS.items() if path not in declared}
    return msgspec.structs.replace(wanted, **left_out)


def missing_part(wanted: SubscriptionFilter, served: SubscriptionFilter) -> list[str]:
    """Return the capabilities that a server lacks for what is asked, but not served."""
    return [
        path
        for member, (_, path) in KINDS.items()
        if getattr(wanted, member) and not getattr(served, member)
    ]


def check_served(wanted: SubscriptionFilter, served: SubscriptionFilter) -> None:
    """Refuse to wait for changes that will never be reported (subscriptions.client-checks-ack).

    Raises:
        LocalProtocolError: nothing of what is asked is served.
    """
    if is_empty(served) and not is_empty(wanted):
        needed = ", ".join(missing_part(wanted, served))
        raise LocalProtocolError(f"the server reports none of the changes asked for ({needed})")
