"""Servers that cancel wrongly, or take no notice of it."""

from typing import Any

from check.mutants.foundation import (
    Between,
    Message,
    Sent,
    interloper,
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
