"""Deep rules of `_meta` and of what every object may carry beside its own members."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.rules import meta_keys as keys
from accord.protocol.rules._rule import MESSAGES, Breach, Outcome, check
from accord.protocol.rules.parts import (
    CLIENT_INFO,
    META,
    SERVER_INFO,
    body_name,
    implementations,
    meta_keys,
    parts,
)
from accord.protocol.rules.values import describe, first_few
from accord.protocol.violation import CLIENT, FAIL, SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_VERSION: Final = f"{META}protocolVersion"
_CAPABILITIES: Final = f"{META}clientCapabilities"
_SUBSCRIPTION: Final = f"{META}subscriptionId"

_DELIVERED: Final = (
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/tasks",
)


# -- the field


@check("meta.field.reserved", kind=(REQUEST, NOTIFICATION, RESULT))
def meta_is_an_object(step: Step, conversation: "Conversation") -> Outcome:
    if not isinstance(step.body, dict) or "_meta" not in step.body:
        return None
    meta = step.body["_meta"]
    return isinstance(meta, dict) or (
        f"sends {body_name(step)}._meta that is {describe(meta)}, expected an object"
    )


@check("meta.field.more-types", kind=(REQUEST, NOTIFICATION, RESULT))
def meta_of_parts_is_an_object(step: Step, conversation: "Conversation") -> Outcome:
    found = [(place, part["_meta"]) for place, part in parts(step) if "_meta" in part]
    if not found:
        return None
    return first_few(
        [
            f"sends {place}._meta that is {describe(meta)}, expected an object"
            for place, meta in found
            if not isinstance(meta, dict)
        ]
    )


# -- its keys


def _each_key(step: Step, judge: Callable[[str], str | None]) -> Outcome:
    """Judge every key; `judge` says what is wrong, None where a key is not concerned."""
    told = [(place, key, judge(key)) for place, key in meta_keys(step)]
    tested = [(place, key, why) for place, key, why in told if why is not None]
    if not tested:
        return None
    return first_few(
        [f"sends the key {key[:60]!r} in {place}: {why}" for place, key, why in tested if why]
    )


@check("meta.key.two-segments", kind=MESSAGES)
def key_has_at_most_one_prefix(step: Step, conversation: "Conversation") -> Outcome:
    return _each_key(
        step, lambda key: "it has more than a prefix and a name" if key.count("/") > 1 else ""
    )


@check("meta.key.label-grammar", kind=MESSAGES)
def prefix_consists_of_labels(step: Step, conversation: "Conversation") -> Outcome:
    def judge(key: str) -> str | None:
        labels, name = keys.split(key)
        if labels is None or "/" in name:
            return None
        bad = next((label for label in labels if not keys.is_label(label)), None)
        return "" if bad is None else f"{bad[:40]!r} is no label"

    return _each_key(step, judge)


@check("meta.key.name-grammar", kind=MESSAGES)
def name_is_well_formed(step: Step, conversation: "Conversation") -> Outcome:
    def judge(key: str) -> str | None:
        _, name = keys.split(key)
        if "/" in name:
            return None
        return "" if keys.is_name(name) else f"{name[:40]!r} is no name"

    return _each_key(step, judge)


def _prefix(key: str) -> list[str] | None:
    """The labels of a key that has a well-formed prefix."""
    labels, name = keys.split(key)
    is_fine = labels and "/" not in name and all(keys.is_label(label) for label in labels)
    return labels if is_fine else None


@check("meta.prefix.reserved", kind=MESSAGES)
def prefix_is_not_reserved(step: Step, conversation: "Conversation") -> Outcome:
    def judge(key: str) -> str | None:
        labels = _prefix(key)
        if labels is None:
            return None
        return "its prefix is reserved for MCP" if keys.is_reserved_anywhere(labels) else ""

    return _each_key(step, judge)


@check("meta.key.reserved-by-second-label", kind=MESSAGES)
def second_label_is_not_reserved(step: Step, conversation: "Conversation") -> Outcome:
    def judge(key: str) -> str | None:
        labels = _prefix(key)
        if labels is None:
            return None
        is_reserved = keys.is_reserved_by_second_label(labels) and key not in keys.DEFINED
        return "its prefix is reserved for MCP, which defines no such key" if is_reserved else ""

    return _each_key(step, judge)


@check("meta.key.reverse-dns-prefix", kind=MESSAGES)
def prefix_is_a_reversed_domain(step: Step, conversation: "Conversation") -> Outcome:
    def judge(key: str) -> str | None:
        labels = _prefix(key)
        is_forward = None if labels is None else keys.is_forward(labels)
        if labels is None or is_forward is None:
            return None
        return f"its prefix is {'.'.join(reversed(labels))} written forward" if is_forward else ""

    return _each_key(step, judge)


# -- titles and names


@check("meta.title.display-name", kind=(REQUEST, RESULT))
def title_is_text(step: Step, conversation: "Conversation") -> Outcome:
    holders = [(place, part) for place, part in parts(step) if ".arguments[" in place]
    holders += [(place, info) for place, info in implementations(step) if isinstance(info, dict)]
    titled = [(place, holder["title"]) for place, holder in holders if "title" in holder]
    if not titled:
        return None
    return first_few(
        [
            f"sends {place} with a title that is {describe(title)}, expected a string"
            for place, title in titled
            if not isinstance(title, str)
        ]
    )


@check("meta.title.display-name", by=CLIENT, kind=REQUEST, on="tools/call")
def tool_is_called_by_its_name(step: Step, conversation: "Conversation") -> Outcome:
    name = step.body.get("name") if isinstance(step.body, dict) else None
    if not isinstance(name, str) or conversation.memory is None:
        return None
    listed = conversation.memory.tools
    if name in listed:
        return True if "title" in listed[name] else None
    if any(tool.get("title") == name for tool in listed.values()):
        return f"calls a tool by its title {name[:60]!r}, not by its name"
    return None


# -- what a message without a handshake says about itself


def _meta(step: Step) -> Any:
    return step.body.get("_meta") if isinstance(step.body, dict) else None


@check("meta.request.protocol-version", by=CLIENT, kind=REQUEST)
def request_names_its_version(step: Step, conversation: "Conversation") -> Outcome:
    if not isinstance(step.body, dict) or "_meta" not in step.body:
        return f"sends {step.name} without params._meta"
    meta = step.body["_meta"]
    if not isinstance(meta, dict):
        return None
    if _VERSION not in meta:
        return f"sends {step.name} without {_VERSION}"
    version = meta[_VERSION]
    return isinstance(version, str) or (
        f"sends a {_VERSION} that is {describe(version)}, expected a string"
    )


@check("meta.request.client-capabilities", by=CLIENT, kind=REQUEST)
def request_has_capabilities(step: Step, conversation: "Conversation") -> Outcome:
    meta = _meta(step)
    if not isinstance(meta, dict):
        return None
    if _CAPABILITIES not in meta:
        return f"sends {step.name} without {_CAPABILITIES}"
    value = meta[_CAPABILITIES]
    return isinstance(value, dict) or (
        f"sends {_CAPABILITIES} that is {describe(value)}, expected an object"
    )


@check("meta.request.client-info", by=CLIENT, kind=REQUEST)
def request_has_client_info(step: Step, conversation: "Conversation") -> Outcome:
    meta = _meta(step)
    return _has_info(meta, CLIENT_INFO, f"sends {step.name}") if isinstance(meta, dict) else None


@check("meta.result.server-info", by=SERVER, kind=RESULT)
def result_has_server_info(step: Step, conversation: "Conversation") -> Outcome:
    # discover.result.server-info says the same of that result.
    if not isinstance(step.body, dict) or step.name == "server/discover":
        return None
    meta = step.body.get("_meta", {})
    return _has_info(meta, SERVER_INFO, f"answers {step.name}") if isinstance(meta, dict) else None


def _has_info(meta: dict[str, Any], key: str, does: str) -> Outcome:
    if key not in meta:
        return f"{does} without {key}"
    if isinstance(meta[key], dict):
        return True
    why = f"{does} with a {key} that is {describe(meta[key])}, expected an object"
    return Breach(why, severity=FAIL)


@check("meta.listen.subscription-id", by=SERVER, kind=NOTIFICATION, on=_DELIVERED)
def notification_names_its_subscription(step: Step, conversation: "Conversation") -> Outcome:
    meta = _meta(step)
    if _SUBSCRIPTION not in (meta if isinstance(meta, dict) else {}):
        return f"sends {step.name} without {_SUBSCRIPTION}"
    id, client = meta[_SUBSCRIPTION], conversation.parties[CLIENT]
    if isinstance(id, bool) or not isinstance(id, int | str):
        return f"sends a {_SUBSCRIPTION} that is {describe(id)}, expected the id of a request"
    exchange = client.open.get(id) or client.cancelled.get(id)
    if exchange is not None and exchange.is_lasting:
        return True
    if exchange is None and (client.used is None or id in client.used):
        # It was answered a moment ago; what it was is no longer known.
        return None
    return f"sends {step.name} for the subscription {id!r}, which is no listen request"
