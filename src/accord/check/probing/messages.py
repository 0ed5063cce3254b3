"""The messages of a check, as plain objects: built, read, and answered as a client does."""

from collections.abc import Mapping
from itertools import count
from json import JSONDecoder
from typing import Any, Final

import msgspec

from accord.json_schema.samples import sample
from accord.types import JsonObject

CLIENT_INFO: Final = {"name": "accord-check", "version": "1"}
_EXCERPT: Final = 200
_NEEDS: Final = {
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
}
_ids = count(1)


class Reply(msgspec.Struct, frozen=True):
    """The answer to a request, as received."""

    message: JsonObject

    @property
    def id(self) -> Any:
        """The id of the request that it answers."""
        return self.message.get("id")

    @property
    def is_error(self) -> bool:
        """Whether it is a JSON-RPC error."""
        return "error" in self.message

    @property
    def error(self) -> JsonObject:
        """The error; empty if it is missing or not an object."""
        return _as_object(self.message.get("error"))

    @property
    def code(self) -> object:
        """The code of the error, or None."""
        return self.error.get("code")

    @property
    def result(self) -> JsonObject:
        """The result; empty if it is missing or not an object."""
        return _as_object(self.message.get("result"))

    @property
    def is_failed_call(self) -> bool:
        """Whether it is the result of a tool that says that it failed."""
        return self.result.get("isError") is True

    def __str__(self) -> str:
        return shorten(msgspec.json.encode(self.message).decode(), _EXCERPT)


def next_id() -> int:
    """Return an id that this process never used before."""
    return next(_ids)


def new_request(method: str, params: object = None, *, id: Any = None) -> JsonObject:
    """Return a request, with a new id by default."""
    return {"jsonrpc": "2.0", "id": next_id() if id is None else id} | _call(method, params)


def new_notification(method: str, params: object = None) -> JsonObject:
    """Return a notification."""
    return {"jsonrpc": "2.0"} | _call(method, params)


def _call(method: str, params: object) -> JsonObject:
    return {"method": method} if params is None else {"method": method, "params": params}


def initialize_params(revision: str, capabilities: Mapping[str, object]) -> JsonObject:
    """Return the parameters of an initialize request."""
    return {
        "protocolVersion": revision,
        "capabilities": dict(capabilities),
        "clientInfo": CLIENT_INFO,
    }


def decode_json(data: bytes | str) -> Any:
    """Return the value of a JSON text; None if it is not JSON."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return None


def are_several(text: str) -> bool:
    """Return whether a text is several JSON objects in a row."""
    text, place, objects = text.strip(), 0, 0
    try:
        while place < len(text):
            value, place = JSONDecoder().raw_decode(text, place)
            objects += isinstance(value, dict)
            while place < len(text) and text[place].isspace():
                place += 1
    except (ValueError, RecursionError):
        return False
    return objects > 1


def shorten(text: str, limit: int) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= limit else f"{text[:limit]}..."


def objects_in(message: object) -> list[JsonObject]:
    """Return the message, or the messages of a batch, that are objects."""
    batch = message if isinstance(message, list) else [message]
    return [each for each in batch if isinstance(each, dict)]


def is_request(message: Mapping[str, object]) -> bool:
    """Return whether a message asks for an answer."""
    return "method" in message and "id" in message


def is_same_id(one: object, other: object) -> bool:
    """Return whether two ids are equal; a number and its text are two ids."""
    return type(one) is type(other) and bool(one == other)


def params_of(message: Mapping[str, object]) -> JsonObject:
    """Return the parameters of a message; empty if they are missing or not an object."""
    return _as_object(message.get("params"))


def progress_token_of(message: Mapping[str, object]) -> Any:
    """Return the progress token of a request; None without one."""
    return _as_object(params_of(message).get("_meta")).get("progressToken")


def _as_object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def answer_to(question: JsonObject, capabilities: Mapping[str, object]) -> JsonObject:
    """Return the answer of a client that declared these capabilities."""
    method = question.get("method")
    answer: JsonObject = {"jsonrpc": "2.0", "id": question.get("id")}
    if method == "ping":
        return answer | {"result": {}}
    if _NEEDS.get(str(method)) not in capabilities:
        return answer | {"error": {"code": -32601, "message": f"unknown method {method!s:.80}"}}
    return answer | {"result": _result(str(method), params_of(question))}


def _result(method: str, params: JsonObject) -> JsonObject:
    if method == "roots/list":
        return {"roots": [{"uri": "file:///accord-check", "name": "accord-check"}]}
    if method == "sampling/createMessage":
        return {
            "role": "assistant",
            "content": {"type": "text", "text": "an answer of the checker"},
            "model": "accord-check",
            "stopReason": "endTurn",
        }
    schema = params.get("requestedSchema")
    return {
        "action": "accept",
        "content": _as_object(sample(schema) if isinstance(schema, dict) else {}),
    }
