"""A client of 2026-07-28 made of plain messages, which may listen and do other things meanwhile."""

from typing import Any

from support.modern import PREFIX, meta
from support.raw import RawClient

SERVER_INFO = f"{PREFIX}serverInfo"
SUBSCRIPTION = f"{PREFIX}subscriptionId"


class ListeningClient(RawClient):
    """Speaks 2026-07-28 to a server in memory, and anything else."""

    def __init__(self, server: Any, *, capabilities: Any = None) -> None:
        super().__init__(server)
        self._capabilities = capabilities

    def post(self, id: Any, method: str, *, log_level: str | None = None, **params: Any) -> None:
        """Send a request with `_meta`."""
        more = {} if log_level is None else {"logLevel": log_level}
        said = meta(self._capabilities, **more)
        self.request(id, method, {"_meta": said, **params})

    async def result(self, id: Any, method: str, **params: Any) -> Any:
        """Send a request with `_meta`, and return its result."""
        self.post(id, method, **params)
        answer = await self.answer_to(id)
        return answer["result"]

    async def error(self, id: Any, method: str, **params: Any) -> Any:
        """Send a request with `_meta`, and return its error."""
        self.post(id, method, **params)
        answer = await self.answer_to(id)
        return answer["error"]

    def listen(self, id: Any, **notifications: Any) -> None:
        """Ask to hear of changes."""
        self.post(id, "subscriptions/listen", notifications=notifications)

    def notices(self, id: Any = None) -> list[Any]:
        """The notifications of the server, in order; with an id, of that subscription alone."""
        found = [each for each in self.received if "method" in each]
        return [each for each in found if id is None or _subscription(each) == id]


def _subscription(message: Any) -> Any:
    return message.get("params", {}).get("_meta", {}).get(SUBSCRIPTION)
