"""Log messages: their form, their level, and who asked for them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, get_args

from accord.protocol.exchange import Exchange, Step, meta_of
from accord.protocol.jsonrpc import NOTIFICATION
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.items import may_have, object_of, shown
from accord.protocol.rules.recall import META_LOG_LEVEL
from accord.protocol.violation import CLIENT, SERVER
from accord.types import LoggingLevel

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_MESSAGE: Final = "notifications/message"
_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
_SEVERITY: Final[dict[str, int]] = {
    level: rank for rank, level in enumerate(get_args(LoggingLevel))
}


def _rank(level: Any) -> int | None:
    return _SEVERITY.get(level) if isinstance(level, str) else None


@check("logging.levels.rfc5424", by=SERVER, kind=NOTIFICATION, on=_MESSAGE)
def level_is_one_of_eight(step: Step, conversation: "Conversation") -> Outcome:
    params = object_of(step.body)
    if "level" not in params:
        return None
    level = params["level"]
    return _rank(level) is not None or f"logs with level {shown(level)}, which is none of the eight"


@check("logging.message.level-and-data", by=SERVER, kind=NOTIFICATION, on=_MESSAGE)
def message_has_level_and_data(step: Step, conversation: "Conversation") -> Outcome:
    if step.body is not None and not isinstance(step.body, dict):
        return None
    missing = [name for name in ("level", "data") if name not in object_of(step.body)]
    return not missing or f"sends a log message without {' and '.join(missing)}"


@check("logging.message.logger-optional", by=SERVER, kind=NOTIFICATION, on=_MESSAGE)
def logger_is_a_name(step: Step, conversation: "Conversation") -> Outcome:
    return may_have(object_of(step.body), "a log message", "logger", "string")


@check("logging.message.method", by=SERVER, kind=NOTIFICATION)
def log_travels_as_message(step: Step, conversation: "Conversation") -> Outcome:
    if step.name == _MESSAGE:
        return True
    params = object_of(step.body)
    is_log = "data" in params and _rank(params.get("level")) is not None
    if not is_log or step.name in step.revision.notifications[SERVER]:
        return None
    return f"sends a log message as {shown(step.name)}"


# -- sessions: one level for all


@check("logging.session-wide", by=SERVER, kind=NOTIFICATION, on=_MESSAGE)
def message_is_not_below_the_level_set(step: Step, conversation: "Conversation") -> Outcome:
    rank = _rank(object_of(step.body).get("level"))
    if conversation.memory is None or rank is None:
        return None
    least = _rank(conversation.memory.log_level)
    if least is None:
        return None
    # Until a new level is confirmed, either may be in force.
    asked = [_rank(object_of(exchange.params).get("level")) for exchange in _setting(conversation)]
    if rank >= min((least, *(each for each in asked if each is not None))):
        return True
    level = object_of(step.body)["level"]
    return f"logs at {level} although the level was set to {conversation.memory.log_level}"


def _setting(conversation: "Conversation") -> Iterator[Exchange]:
    for exchange in conversation.parties[CLIENT].open.values():
        if exchange.name == "logging/setLevel":
            yield exchange


# -- single requests: a level each


@check("logging.only-with-level", by=SERVER, kind=NOTIFICATION, on=_MESSAGE)
def log_was_asked_for(step: Step, conversation: "Conversation") -> Outcome:
    if _is_on_listen_stream(step):
        return None
    if any(_asks_for_logs(exchange) for exchange in _under_way(conversation)):
        return True
    if conversation.memory is None or "logging.own-stream-only" in conversation.memory.facts:
        return None
    return "sends a log message although no request asked for a level"


@check("logging.own-stream-only", by=SERVER, kind=NOTIFICATION, on=_MESSAGE)
def log_precedes_the_answer_on_its_stream(step: Step, conversation: "Conversation") -> Outcome:
    if _is_on_listen_stream(step):
        return "sends a log message on a listen stream"
    if any(_asks_for_logs(exchange) for exchange in _under_way(conversation)):
        return True
    if conversation.memory is None or "logging.own-stream-only" not in conversation.memory.facts:
        return None
    return "sends a log message when every request that asked for a level is answered"


def _is_on_listen_stream(step: Step) -> bool:
    return _SUBSCRIPTION in meta_of(step.body)


def _under_way(conversation: "Conversation") -> Iterator[Exchange]:
    # The server may not yet have read that a request was cancelled.
    client = conversation.parties[CLIENT]
    yield from client.open.values()
    yield from client.cancelled.values()


def _asks_for_logs(exchange: Exchange) -> bool:
    return not exchange.is_lasting and META_LOG_LEVEL in meta_of(exchange.params)
