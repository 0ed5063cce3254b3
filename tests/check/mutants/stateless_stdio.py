"""Servers without a handshake that get cancellations, and the end of their input, wrong."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from accord_tools.check.probing.target import ServerTarget
from check.faults import named
from check.mutants.foundation import Between, Message, Sent, elsewhere, params_of
from check.mutants.stateless_base import REVISION, everything, hooked
from support.check_targets import check_target

CANCELLED = "notifications/cancelled"
STOPS, SILENT = "stdio.cancel.stop-work", "stdio.cancel.no-further-messages"
OF_ALL = {
    STOPS: {"cancellation.receiver.stops": "the row of every transport"},
    SILENT: {"cancellation.receiver.frees-and-silent": "the row of every transport"},
}


def cancelled_call(wire: Between, message: Message) -> Message | None:
    """Return the call of a tool that a message cancels."""
    id = params_of(message).get("requestId")
    is_cancellation = message.get("method") == CANCELLED and isinstance(id, int)
    found = wire.requests.get(("int", id)) if is_cancellation else None
    return found if found and found["method"] == "tools/call" else None


@hooked(STOPS, everything, also=OF_ALL[STOPS] | {SILENT: "it cancels no subscription either"})
def hears_no_cancellation(wire: Between) -> None:
    wire.from_client = lambda message: None if message.get("method") == CANCELLED else message


@hooked(STOPS, everything, also=OF_ALL[STOPS])
def reports_progress_of_what_was_cancelled(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        call = cancelled_call(wire, message)
        token = params_of(call or {}).get("_meta", {}).get("progressToken")
        for step in range(5) if token is not None else ():
            params = {"progressToken": token, "progress": 100 + step}
            notice = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            wire.later(0.01 * step, lambda notice=notice: wire.to_client(notice))
        return message

    wire.from_client = from_client


@hooked(STOPS, everything, also=OF_ALL[STOPS])
def wants_the_id_of_a_cancellation_as_text(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        params = params_of(message)
        id = params.get("requestId")
        named = wire.requests.get(("int", id), {}) if isinstance(id, int) else {}
        is_listened = named.get("method") == "subscriptions/listen"
        if message.get("method") == CANCELLED and not is_listened:
            return message | {"params": params | {"requestId": str(id)}}
        return message

    wire.from_client = from_client


def answering(name: str, **members: Any) -> None:
    """Register a server that answers a call that was cancelled."""

    def hook(wire: Between) -> None:
        def from_client(message: Message) -> Sent:
            call = cancelled_call(wire, message)
            if call is not None:
                reply = {"jsonrpc": "2.0", "id": call["id"], **members["reply"]}
                wire.later(members["after"], lambda: wire.to_client(reply))
            return message

        wire.from_client = from_client

    hooked(SILENT, everything, also=OF_ALL[SILENT])(named(name, hook))


CODE = {"code": 0, "message": "request cancelled"}
answering("answers_what_was_cancelled", reply={"error": CODE}, after=0)
answering("answers_a_cancellation_late", reply={"error": CODE}, after=0.1)
answering(
    "calls_a_cancellation_an_internal_error",
    reply={"error": {"code": -32603, "message": "CancelledError"}},
    after=0.02,
)


def staying(habit: str, *, is_thorough: bool = False) -> None:
    """Register a process that does not end with its input."""
    script = Path(__file__).parent.parent / "stateless_process.py"

    @asynccontextmanager
    async def making() -> AsyncIterator[ServerTarget]:
        command = [sys.executable, "-S", "-E", str(script), habit]
        times = {"patience": 3, "settling": 0.1, "leaving": 1}
        yield check_target(name=habit, command=command, **times)

    making.__name__ = habit.replace(" ", "_")
    elsewhere(
        "stdio.shutdown.server-exits-on-eof",
        revision=REVISION,
        only=["stdio.shutdown"],
        is_process=True,
        is_thorough=is_thorough,
    )(making)


staying("stays")
staying("lets a thread hold it", is_thorough=True)
staying("stays after a call", is_thorough=True)
