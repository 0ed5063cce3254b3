"""Servers that cancel wrongly, or take no notice of it."""

from collections.abc import Callable
from typing import Any

from check.faults import named
from check.mutants.foundation import (
    Between,
    Message,
    Sent,
    interloper,
    mutant,
    params_of,
    saying,
    unbreakable,
)

PING = {"jsonrpc": "2.0", "id": "own", "method": "ping"}


def cancels(**params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


@interloper("cancellation.notification.either-party")
def cancels_by_another_name(wire: Between) -> None:
    saying(PING, cancels(requestId="own") | {"method": "$/cancelRequest"})(wire)


@interloper("cancellation.request-id.present")
def cancels_nothing(wire: Between) -> None:
    saying(PING, cancels(reason="bored"))(wire)


@interloper("cancellation.reason.optional")
def gives_a_number_as_reason(wire: Between) -> None:
    saying(PING, cancels(requestId="own", reason=7))(wire)


@interloper("cancellation.request-id.previously-issued")
def cancels_what_it_never_asked(wire: Between) -> None:
    saying(cancels(requestId="never"))(wire)


@interloper("cancellation.receiver.stops")
def hears_no_cancellation(wire: Between) -> None:
    wire.from_client = lambda message: (
        None if message.get("method") == "notifications/cancelled" else message
    )


@interloper("cancellation.receiver.frees-and-silent")
def answers_what_was_cancelled(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        if message.get("method") == "notifications/cancelled":
            id = params_of(message).get("requestId")
            if any(each.get("id") == id for each in calls(wire)):
                error = {"code": 0, "message": "request cancelled"}
                wire.to_client({"jsonrpc": "2.0", "id": id, "error": error})
        return message

    wire.from_client = from_client


def calls(wire: Between) -> list[Message]:
    return [each for each in wire.requests.values() if each["method"] == "tools/call"]


@interloper("cancellation.races")
def falls_over_a_cancellation_that_comes_late(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        params = params_of(message)
        id = params.get("requestId")
        if message.get("method") == "notifications/cancelled" and isinstance(id, int):
            asked = wire.requests.get(("int", id))
            if asked and asked["method"] == "tools/list" and "reason" in params:
                wire.crash()
        return message

    wire.from_client = from_client


@interloper("cancellation.invalid-ignored")
def complains_of_cancellations_of_nothing(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        params = params_of(message)
        if params.get("requestId") == "accord-check-never-sent":
            error = {"code": -32602, "message": "there is no such request"}
            wire.to_client({"jsonrpc": "2.0", "id": None, "error": error})
        return message

    wire.from_client = from_client


unbreakable("a permission to ignore; no answer breaks it", "cancellation.receiver.may-ignore")


# -- the same rows, broken in other ways


def says(id: str, name: str, *messages: Message, after: str = "tools/list") -> None:
    """Register a server that says something of its own."""

    def hook(wire: Between) -> None:
        saying(*messages, after=after)(wire)

    interloper(id)(named(name, hook))


NAME, PRESENT = "cancellation.notification.either-party", "cancellation.request-id.present"
REASON, ISSUED = "cancellation.reason.optional", "cancellation.request-id.previously-issued"
says(
    NAME,
    "spells_cancelled_in_american",
    PING,
    cancels(requestId="own") | {"method": "notifications/canceled"},
)
says(
    NAME,
    "cancels_without_a_prefix",
    PING,
    cancels(requestId="own") | {"method": "cancelled"},
    after="tools/call",
)
says(PRESENT, "cancels_null", PING, cancels(requestId=None))
says(PRESENT, "cancels_an_object", PING, cancels(requestId={"id": "own"}), after="tools/call")
says(PRESENT, "cancels_by_another_member", PING, cancels(id="own"))
says(REASON, "gives_null_as_reason", PING, cancels(requestId="own", reason=None))
says(
    REASON,
    "gives_an_object_as_reason",
    PING,
    cancels(requestId="own", reason={"text": "bored"}),
    after="tools/call",
)
says(ISSUED, "cancels_a_number_for_a_text", PING | {"id": "12345678"}, cancels(requestId=12345678))


@mutant("cancellation.request-id.previously-issued")
def cancels_requests_of_the_client(message: Message, request: Message) -> Sent:
    if request.get("method") == "tools/call":
        return [cancels(requestId=request["id"], reason="too slow"), message]
    return message


def is_slow_call(message: Message) -> bool:
    return params_of(message).get("name") == "look"


@interloper("cancellation.receiver.stops")
def goes_on_reporting_after_a_cancellation(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        if message.get("method") == "notifications/cancelled":
            asked = wire.requests.get(("int", params_of(message).get("requestId")), {})
            token = (params_of(asked).get("_meta") or {}).get("progressToken")
            if token is not None:
                for step in range(6):
                    wire.later(0.01 * step + 0.01, lambda step=step: report(token, 100 + step))
        return message

    def report(token: Any, progress: int) -> None:
        params = {"progressToken": token, "progress": progress}
        wire.to_client({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    wire.from_client = from_client


@interloper("cancellation.receiver.stops")
def takes_notice_only_of_the_first_cancellation(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        asked = wire.requests.get(("int", params_of(message).get("requestId")), {})
        if (
            message.get("method") == "notifications/cancelled"
            and asked.get("method") == "tools/call"
        ):
            return None
        return message

    wire.from_client = from_client


def answering(name: str, reply: dict[str, Any]) -> None:
    """Register a server that stops, and answers what was cancelled."""

    def hook(wire: Between) -> None:
        def from_client(message: Message) -> Sent:
            if message.get("method") == "notifications/cancelled":
                id = params_of(message).get("requestId")
                if any(each.get("id") == id for each in calls(wire)):
                    wire.later(0.01, lambda: wire.to_client({"jsonrpc": "2.0", "id": id, **reply}))
            return message

        wire.from_client = from_client

    interloper("cancellation.receiver.frees-and-silent")(named(name, hook))


answering("answers_with_the_code_of_editors", {"error": {"code": -32800, "message": "cancelled"}})
answering(
    "answers_with_a_failed_result",
    {"result": {"content": [{"type": "text", "text": "cancelled"}], "isError": True}},
)


@interloper("cancellation.races")
def goes_silent_after_a_cancellation_that_comes_late(wire: Between) -> None:
    deaf: list[bool] = []

    def from_client(message: Message) -> Sent:
        params = params_of(message)
        if message.get("method") == "notifications/cancelled" and "reason" in params:
            asked = wire.requests.get(("int", params.get("requestId")))
            if asked and asked["method"] == "tools/list":
                deaf.append(True)
        return None if deaf else message

    wire.from_client = from_client


@interloper("cancellation.races")
def drops_the_next_request_after_a_cancellation(wire: Between) -> None:
    cancelled: list[bool] = []

    def from_client(message: Message) -> Sent:
        params = params_of(message)
        asked = wire.requests.get(("int", params.get("requestId")))
        if message.get("method") == "notifications/cancelled" and "reason" in params:
            if asked and asked["method"] == "tools/list":
                cancelled.append(True)
        elif cancelled and "id" in message and "method" in message:
            cancelled.clear()
            return None
        return message

    wire.from_client = from_client


def complaining(name: str, is_meant: Callable[[dict[str, Any]], bool], code: int) -> None:
    """Register a server that complains of some cancellations."""

    def hook(wire: Between) -> None:
        def from_client(message: Message) -> Sent:
            params = params_of(message)
            if message.get("method") == "notifications/cancelled" and is_meant(params):
                error = {"code": code, "message": "no such request"}
                wire.to_client({"jsonrpc": "2.0", "id": params.get("requestId"), "error": error})
            return message

        wire.from_client = from_client

    interloper("cancellation.invalid-ignored")(named(name, hook))


complaining("answers_under_the_id_it_never_got", lambda params: "never" in str(params), -32600)
complaining("complains_of_a_missing_id", lambda params: "requestId" not in params, -32602)


@interloper("practice.server.survives-errors", areas=["cancellation"])
def falls_over_a_malformed_cancellation(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        if params_of(message).get("requestId") == {}:
            wire.crash()
        return message

    wire.from_client = from_client
