"""Servers that log wrongly."""

from typing import Any

from check.mutants.foundation import (
    Between,
    Message,
    Sent,
    interloper,
    mutant,
    params_of,
    unbreakable,
)
from check.mutants.spoiling import notice, refusal, undeclared

LOG = "notifications/message"

undeclared("logging.capability.declared", "logging")


@notice("logging.levels.rfc5424", LOG)
def logs_at_a_level_of_its_own(params: dict[str, Any]) -> None:
    params["level"] = "loud"


@mutant("logging.message.method")
def logs_by_another_name(message: Message, request: Message) -> Message:
    if message.get("method") == LOG:
        message["method"] = "notifications/log"
    return message


@notice("logging.message.level-and-data", LOG)
def logs_without_data(params: dict[str, Any]) -> None:
    params.pop("data", None)


@notice("logging.message.logger-optional", LOG)
def numbers_its_loggers(params: dict[str, Any]) -> None:
    params["logger"] = 7


@interloper("logging.message.min-level")
def logs_at_any_level(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        if message.get("method") == "logging/setLevel" and params_of(message).get("level") in (
            "info",
            "emergency",
        ):
            return message | {"params": {"level": "debug"}}
        return message

    wire.from_client = from_client


refusal("logging.set-level.invalid-params", "logging/setLevel", -32602)
unbreakable("reported as logging.message.min-level", "logging.session-wide")
