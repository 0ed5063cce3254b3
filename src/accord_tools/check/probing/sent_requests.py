"""The requests that a raw connection sent, and what arrived that may be an answer to one."""

from typing import Any

from accord.types import JsonObject
from accord_tools.check.probing.failures import MessageTimeout
from accord_tools.check.probing.messages import objects_in, params_of


class SentRequests:
    """The requests of a connection by their ids; a number and its text are two ids."""

    def __init__(self) -> None:
        self._requests: dict[tuple[type, Any], JsonObject] = {}
        self._answered: set[tuple[type, Any]] = set()
        # How much was garbled when each request was sent.
        self._before: dict[tuple[type, Any], int] = {}
        self._garbled = 0

    def add(self, message: JsonObject) -> None:
        """Note a request that is about to be sent."""
        id = message["id"]
        self._requests[type(id), id] = message
        self._before[type(id), id] = self._garbled

    def get(self, id: Any) -> JsonObject:
        """Return the request with an id; empty if it is unknown."""
        return self._requests.get((type(id), id), {})

    def method_of(self, id: Any) -> str:
        """Return the method of the request with an id; empty if it is unknown."""
        return str(self.get(id).get("method", ""))

    def tool_of(self, id: Any) -> str | None:
        """Return the tool that the request with an id calls."""
        name = params_of(self.get(id)).get("name")
        is_call = self.method_of(id) == "tools/call"
        return name if is_call and isinstance(name, str) else None

    def tool_answered(self, id: Any) -> str | None:
        """Return the tool whose call was answered; None if that was noted before."""
        key = (type(id), id)
        if key in self._answered:
            return None
        self._answered.add(key)
        return self.tool_of(id)

    def note_arrival(self, found: object) -> None:
        """Note text that is not JSON, which is None, and answers under unknown ids."""
        self._garbled += found is None or any(map(self._is_stray, objects_in(found)))

    def missing(self, id: Any, error: MessageTimeout, *, has_started: bool) -> MessageTimeout:
        """Return the failure of a request that has no answer, with all that is known of it."""
        return MessageTimeout(
            str(error),
            method=self.method_of(id),
            has_started=has_started,
            is_garbled=self._garbled > self._before.get((type(id), id), self._garbled),
        )

    def _is_stray(self, message: JsonObject) -> bool:
        id = message.get("id")
        if "method" in message:
            return False
        return not isinstance(id, str | int | float) or (type(id), id) not in self._requests
