"""Servers that log wrongly."""

from typing import Any

from check.faults import faults, named
from check.mutants.foundation import (
    Message,
    Sent,
    interloper,
    mutant,
    params_of,
    unbreakable,
)
from check.mutants.spoiling import (
    ABSENT,
    NULL,
    Circumstances,
    answer,
    notice,
    put,
    refusal,
    undeclared,
    wrong,
)

LOG = "notifications/message"

undeclared("logging.capability.declared", "logging")


faults(notice("logging.levels.rfc5424", LOG), logs_at_a_level_of_its_own=put("level", "loud"))


@mutant("logging.message.method")
def logs_by_another_name(message: Message, request: Message) -> Message:
    if message.get("method") == LOG:
        message["method"] = "notifications/log"
    return message


faults(notice("logging.message.level-and-data", LOG), logs_without_data=put("data", ABSENT))
faults(notice("logging.message.logger-optional", LOG), numbers_its_loggers=put("logger", 7))


@interloper("logging.message.min-level", of="from_client")
def logs_at_any_level(message: Message) -> Sent:
    if message.get("method") == "logging/setLevel" and params_of(message).get("level") in (
        "info",
        "emergency",
    ):
        return message | {"params": {"level": "debug"}}
    return message


refusal("logging.set-level.invalid-params", "logging/setLevel", -32602)
unbreakable("reported as logging.message.min-level", "logging.session-wide")

# -- the same rows, broken in other ways

OWN: Circumstances = {"of": "params"}
LATE: Circumstances = {"of": "params", "since": 2}
wrong("logging.capability.declared", "initialize", "capabilities.logging", None, also=NULL)


@answer("logging.capability.declared", "initialize")
def declares_logs(result: dict[str, Any]) -> None:
    result["capabilities"]["logs"] = result["capabilities"].pop("logging")


wrong("logging.levels.rfc5424", LOG, "level", "WARNING", OWN)
wrong("logging.levels.rfc5424", LOG, "level", 4, LATE)
wrong("logging.levels.rfc5424", LOG, "level", "warn", LATE)
wrong("logging.levels.rfc5424", LOG, "level", None, OWN)
wrong("logging.message.level-and-data", LOG, "level", ABSENT, OWN)
wrong("logging.message.level-and-data", LOG, "data", ABSENT, LATE)


@mutant("logging.message.level-and-data")
def logs_a_message_in_place_of_data(message: Message, request: Message) -> Message:
    if message.get("method") == LOG:
        params = message["params"]
        params["message"] = params.pop("data", "")
    return message


wrong("logging.message.logger-optional", LOG, "logger", None, LATE)
wrong("logging.message.logger-optional", LOG, "logger", {"name": "desk"}, OWN)


def renaming(name: str, method: str) -> None:
    """Register a server that logs by another name."""

    def change(message: Message, request: Message) -> Message:
        return message | {"method": method} if message.get("method") == LOG else message

    mutant("logging.message.method")(named(name, change))


renaming("logs_as_editors_do", "window/logMessage")
renaming("logs_in_the_area_of_logging", "notifications/logging/message")


@interloper("logging.message.min-level", of="from_client")
def takes_no_notice_of_the_highest_level(message: Message) -> Sent:
    if params_of(message).get("level") == "emergency":
        return message | {"params": {"level": "warning"}}
    return message


def not_knowing(name: str, level: str) -> None:
    """Register a server that refuses a level."""

    def change(message: Message, request: Message) -> Message:
        if request.get("method") == "logging/setLevel" and params_of(request).get("level") == level:
            message.pop("result", None)
            message["error"] = {"code": -32602, "message": "unknown level"}
        return message

    mutant("logging.message.min-level")(named(name, change))


not_knowing("does_not_know_notices", "notice")
not_knowing("does_not_know_emergencies", "emergency")


def accepting(name: str, reply: dict[str, Any]) -> None:
    """Register a server with another answer to unknown levels."""

    def change(message: Message, request: Message) -> Message:
        level = params_of(request).get("level")
        if request.get("method") == "logging/setLevel" and level == "accord-check":
            return {"jsonrpc": "2.0", "id": message["id"], **reply}
        return message

    mutant("logging.set-level.invalid-params")(named(name, change))


accepting("accepts_any_level", {"result": {}})
accepting("calls_an_unknown_level_an_unknown_method", {"error": {"code": -32601, "message": "?"}})
