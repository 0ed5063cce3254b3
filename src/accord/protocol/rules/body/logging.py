"""Log messages: their content, their level, and the requests that asked for them."""

from collections.abc import Iterator
from typing import Final, get_args

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Exchange, Step, meta_of
from accord.protocol.jsonrpc import NOTIFICATION
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.body.learning import LOG_LEVEL, LOGS_REQUESTED
from accord.protocol.rules.body.meta import SUBSCRIPTION_ID
from accord.protocol.rules.shapes import shapes
from accord.protocol.rules.values import as_object, quote
from accord.protocol.violation import CLIENT, SERVER
from accord.types import LoggingLevel

_MESSAGE: Final = "notifications/message"
_LEVELS: Final[tuple[str, ...]] = get_args(LoggingLevel)
_RANKS: Final[dict[str, int]] = {level: rank for rank, level in enumerate(_LEVELS)}

shapes(
    {
        "logging.levels.rfc5424": f"level?: {'|'.join(_LEVELS)}",
        "logging.message.level-and-data": "body: {level: any, data: any}",
        "logging.message.logger-optional": "logger?: string",
    },
    by=SERVER,
    kind=NOTIFICATION,
    on=_MESSAGE,
)


def _rank(level: object) -> int | None:
    return _RANKS.get(level) if isinstance(level, str) else None


@check("logging.message.method", by=SERVER, kind=NOTIFICATION)
def log_message_has_its_name(step: Step, conversation: Conversation) -> Outcome:
    if step.name == _MESSAGE:
        return True
    params = as_object(step.body)
    is_log = "data" in params and _rank(params.get("level")) is not None
    if not is_log or step.name in step.revision.notifications[SERVER]:
        return None
    return f"sends a log message with {quote(step.name)}; the method is {_MESSAGE}"


# -- sessions: one level for all messages


@check("logging.session-wide", by=SERVER, kind=NOTIFICATION, on=_MESSAGE)
def message_is_not_below_the_level_set(step: Step, conversation: Conversation) -> Outcome:
    rank = _rank(as_object(step.body).get("level"))
    if conversation.memory is None or rank is None:
        return None
    least = _rank(conversation.memory.log_level)
    if least is None:
        return None
    # Until a new level is confirmed, either may be in force.
    asked = [
        _rank(as_object(exchange.params).get("level")) for exchange in _level_requests(conversation)
    ]
    if rank >= min((least, *(each for each in asked if each is not None))):
        return True
    level = as_object(step.body)["level"]
    return f"logs at {level}, below the level {conversation.memory.log_level} that was set"


def _level_requests(conversation: Conversation) -> Iterator[Exchange]:
    for exchange in conversation.parties[CLIENT].open.values():
        if exchange.name == "logging/setLevel":
            yield exchange


# -- requests: each with its own level


@check("logging.only-with-level", by=SERVER, kind=NOTIFICATION, on=_MESSAGE)
def log_message_was_requested(step: Step, conversation: Conversation) -> Outcome:
    if _is_on_listen_stream(step):
        return None
    if any(_asks_for_logs(exchange) for exchange in _open_requests(conversation)):
        return True
    if conversation.memory is None or LOGS_REQUESTED in conversation.memory.facts:
        return None
    return "sends a log message, but no request has asked for a level"


@check("logging.own-stream-only", by=SERVER, kind=NOTIFICATION, on=_MESSAGE)
def log_message_precedes_the_answer(step: Step, conversation: Conversation) -> Outcome:
    if _is_on_listen_stream(step):
        return "sends a log message on a listen stream"
    if any(_asks_for_logs(exchange) for exchange in _open_requests(conversation)):
        return True
    if conversation.memory is None or LOGS_REQUESTED not in conversation.memory.facts:
        return None
    return "sends a log message after the answer to every request that asked for a level"


def _is_on_listen_stream(step: Step) -> bool:
    return SUBSCRIPTION_ID in meta_of(step.body)


def _open_requests(conversation: Conversation) -> Iterator[Exchange]:
    # The server may not have read a cancellation yet.
    client = conversation.parties[CLIENT]
    yield from client.open.values()
    yield from client.cancelled.values()


def _asks_for_logs(exchange: Exchange) -> bool:
    return not exchange.is_lasting and LOG_LEVEL in meta_of(exchange.params)
