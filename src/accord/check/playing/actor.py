"""A server that plays a part for a client under check: by the book, until a play overrides it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from accord.check.probing.line import Line, next_id
from accord.errors import RequestError
from accord.protocol.revisions import BEFORE_HANDSHAKE, REVISIONS
from accord.trace import Transport
from accord.types import RevisionId

if TYPE_CHECKING:
    from accord.check.playing.performance import Performance
    from accord.check.playing.web import HttpAnswer, HttpAsked

__all__ = ["PLAYS", "Actor", "play"]

TOOLS: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "name": "echo",
        "description": "Say the same again.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        },
    },
    {
        "name": "add",
        "description": "Add two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
)
RESOURCES: Final = ({"uri": "play://note", "name": "note", "mimeType": "text/plain"},)
PROMPTS: Final = (
    {"name": "greet", "arguments": [{"name": "name", "description": "who", "required": False}]},
)
_PAGED: Final = {
    "tools/list": ("tools", TOOLS),
    "resources/list": ("resources", RESOURCES),
    "resources/templates/list": (
        "resourceTemplates",
        ({"uriTemplate": "play://{name}", "name": "any"},),
    ),
    "prompts/list": ("prompts", PROMPTS),
}


class Actor:
    """A server in a play; by itself it does everything right.

    Args:
        revision: what it agrees to, whatever the client asks for; None takes what the client asks.

    Attributes:
        ids: the requirements that the play decides.
        on: the transports on which it can be played.
        lines: the conversations that clients began, in order.
        is_judged: whether a monitor judges the client; not where the play breaks rules itself.
        page: how many entries a page of a list has; None for all.
        capabilities: what the server declares.
        streams: over HTTP, whether answers come as event streams.
        listens: over HTTP, whether a GET is answered with a stream.
        has_sessions: over HTTP, whether there are session ids.
    """

    ids: ClassVar[tuple[str, ...]] = ()
    on: ClassVar[tuple[Transport, ...]] = ("stdio", "http", "sse")
    is_judged: ClassVar[bool] = True
    page: int | None = None
    capabilities: Mapping[str, Any] = {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "logging": {},
        "completions": {},
    }
    streams = False
    listens = True
    has_sessions = True

    def __init__(self, revision: RevisionId | None = None) -> None:
        self.revision = revision
        self.lines: list[Line] = []
        self.stage: Any = None
        self.has_ended_input = False
        self.signals: list[int] = []

    @property
    def name(self) -> str:
        """What it does, as a sentence without a subject."""
        words = (self.__doc__ or type(self).__name__).strip().splitlines()[0]
        return words.rstrip(".")

    # -- the conversation

    async def respond(self, line: Line, request: dict[str, Any]) -> None:
        """Answer a request of the client."""
        id, method = request.get("id"), str(request.get("method"))
        params = request.get("params")
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": id}
        try:
            result = await self.result(line, method, params if isinstance(params, dict) else {})
        except RequestError as error:
            answer["error"] = {"code": error.code, "message": error.message}
        else:
            if result is None:
                return
            answer["result"] = result
        await line.say(answer)

    async def result(
        self, line: Line, method: str, params: dict[str, Any]
    ) -> Mapping[str, Any] | None:
        """Return the result of a request; None leaves it unanswered.

        Raises:
            RequestError: it is answered with an error.
        """
        if method == "initialize":
            return self.opening(line, params)
        if method in _PAGED:
            return self.listed(method, params)
        if method == "tools/call":
            return await self.call(line, params)
        if method == "resources/read":
            uri = str(params.get("uri"))
            return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": "a note"}]}
        if method == "prompts/get":
            content = {"type": "text", "text": "Hello."}
            return {"messages": [{"role": "user", "content": content}]}
        if method == "completion/complete":
            return {"completion": {"values": ["one", "two"], "total": 2, "hasMore": False}}
        if method in ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
            return {}
        raise RequestError(f"there is no method {method[:80]}", code=-32601)

    def opening(self, line: Line, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer to initialize."""
        asked = params.get("protocolVersion")
        named = REVISIONS.get(asked) if isinstance(asked, str) else None
        newest = BEFORE_HANDSHAKE.id
        line.revision = self.revision or (newest if named is None else named.id)
        declared = params.get("capabilities")
        line.client_capabilities = declared if isinstance(declared, dict) else {}
        return {
            "protocolVersion": line.revision,
            "capabilities": dict(self.capabilities),
            "serverInfo": {"name": "accord-check", "version": "1"},
        }

    def listed(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return a page of a list.

        Raises:
            RequestError: the cursor is not one of ours.
        """
        member, entries = _PAGED[method]
        if self.page is None:
            return {member: list(entries)}
        cursor = params.get("cursor", "page-0")
        if not isinstance(cursor, str) or not cursor.removeprefix("page-").isdigit():
            raise RequestError("unknown cursor", code=-32602)
        begin = int(cursor.removeprefix("page-")) * self.page
        found: dict[str, Any] = {member: list(entries[begin : begin + self.page])}
        if begin + self.page < len(entries):
            found["nextCursor"] = f"page-{begin // self.page + 1}"
        return found

    async def call(self, line: Line, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the result of a tool call."""
        arguments = params.get("arguments")
        arguments = arguments if isinstance(arguments, dict) else {}
        text = str(arguments.get("text", "a text"))
        if params.get("name") == "add":
            text = str(arguments.get("a", 0))
        return {"content": [{"type": "text", "text": text}], "isError": False}

    async def begun(self, line: Line) -> None:
        """Do what the play has to do once the client is ready; called once for each line."""

    async def ask(self, line: Line, method: str, params: Any = None) -> dict[str, Any]:
        """Ask the client something and wait for its answer."""
        id = f"ask-{next_id()}"
        await line.begin(method, params, id=id)
        return dict((await line.reply_to(id, what=method)).message)

    # -- HTTP

    def http(self, asked: "HttpAsked") -> "HttpAnswer | None":
        """Answer a raw HTTP request out of turn; None lets the conversation go on."""
        return None

    # -- the end

    async def judge(self, show: "Performance") -> None:
        """Say what the client's behaviour tells about the requirements of this play."""

    def declares(self, line: Line, capability: str) -> bool:
        """Tell whether the client declared a capability on this line."""
        return capability in line.client_capabilities


PLAYS: Final[list[type[Actor]]] = []


def play(
    *ids: str, on: tuple[Transport, ...] = ("stdio", "http", "sse"), is_judged: bool = True
) -> Callable[[type[Actor]], type[Actor]]:
    """Register a play of a client check: an Actor that decides these requirements."""

    def register(actor: type[Actor]) -> type[Actor]:
        actor.ids, actor.on, actor.is_judged = ids, on, is_judged
        PLAYS.append(actor)
        return actor

    return register
