"""The messages of a check: built, read and answered as a client does, recorded and judged."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from json import JSONDecoder
from time import monotonic
from typing import Any, Final

import msgspec

from accord.protocol.exchange import META_CAPABILITIES, META_VERSION, meta_of
from accord.protocol.jsonrpc import INTERNAL_ERROR
from accord.protocol.party import META_CLIENT, capability_paths, undeclared_mode, undeclared_tools
from accord.protocol.verdict import Evidence, Tally
from accord.trace import HttpFacts, Party, Record, Transport
from accord.types import JsonObject
from accord_tools.arguments.samples import sample

CLIENT_INFO: Final = {"name": "accord-check", "version": "1"}
_REPLY_EXCERPT: Final = 200
# The capability of a client that a request of the server needs.
CAPABILITY_OF: Final = {
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
}
RELATED: Final = "io.modelcontextprotocol/related-task"
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
        """Whether it is a JSON-RPC error; null beside a result does not count."""
        is_null = self.message.get("error") is None and "result" in self.message
        return "error" in self.message and not is_null

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
    def has_failed_inside(self) -> bool:
        """Whether the server says that it failed itself, for example because of its database."""
        return self.code == INTERNAL_ERROR

    @property
    def is_failed_call(self) -> bool:
        """Whether it is the result of a tool that says that it failed."""
        return self.result.get("isError") is True

    def __str__(self) -> str:
        return shorten(msgspec.json.encode(self.message).decode(), _REPLY_EXCERPT)


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


# Commas, the record separator of RFC 7464, and zero bytes.
_SEPARATORS: Final = ",\x1e\0"


def are_several(text: str) -> bool:
    """Return whether a text is several JSON objects in a row, whatever separates them."""
    text, place, objects = text.strip().lstrip(_SEPARATORS), 0, 0
    try:
        while place < len(text):
            value, place = JSONDecoder().raw_decode(text, place)
            objects += isinstance(value, dict)
            while place < len(text) and (text[place].isspace() or text[place] in _SEPARATORS):
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
    if CAPABILITY_OF.get(str(method)) not in capabilities:
        return answer | {"error": {"code": -32601, "message": f"unknown method {method!s:.80}"}}
    refusal = _refusal(str(method), params_of(question), capabilities)
    if refusal is not None:
        return answer | {"error": {"code": -32602, "message": refusal}}
    result = _result(str(method), params_of(question))
    related = _as_object(params_of(question).get("_meta")).get(RELATED)
    if related is not None:
        # tasks.related.everywhere
        result["_meta"] = {RELATED: related}
    return answer | {"result": result}


def _refusal(method: str, params: JsonObject, capabilities: Mapping[str, object]) -> str | None:
    """Return why a client does not answer a question; None if it does."""
    declared = capability_paths(dict(capabilities))
    if method == "elicitation/create" and (mode := undeclared_mode(params, declared)):
        return f"elicitation.{mode} was not declared"
    if method == "sampling/createMessage" and undeclared_tools(params, declared):
        return "sampling.tools was not declared"
    return None


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
    if params.get("mode") == "url":
        # A check opens no pages.
        return {"action": "decline"}
    schema = params.get("requestedSchema")
    return {
        "action": "accept",
        "content": _as_object(sample(schema) if isinstance(schema, dict) else {}),
    }


# -- the log of a connection

# Evidence needs only the last messages, and a flood must not fill the memory.
_KEPT: Final = 400
_EXCERPT: Final = 400
_LAST: Final = 4
# The headers that a violation may be about; none of them is secret.
_SHOWN_HEADERS: Final = frozenset(
    {"accept", "content-type", "host", "mcp-protocol-version", "origin"}
)
_LARGEST: Final = 64 * 1024


class MessageLog:
    """The records of one connection: all of them are judged, the newest are kept.

    Args:
        transport: the transport of the connection.
        judged: the party under check.
        is_judged: False if the checker itself breaks rules, so that answers prove nothing.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        transport: Transport,
        judged: Party,
        *,
        is_judged: bool = True,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        # Not needed by those who only read and build messages.
        from accord.protocol.monitor import Monitor

        self.transport = transport
        self._judged = judged
        self.records: deque[Record] = deque(maxlen=_KEPT)
        self.count = 0
        self._monitor = partial(Monitor, judged=judged)
        self.monitor = self._monitor() if is_judged else None
        self._is_whole = True
        self._has_missed = False
        self._clock = clock
        self._start = clock()

    def take(self, sender: Party, data: bytes, http: HttpFacts | None = None) -> object:
        """Record the message of a party; return it decoded, or None if it is not JSON."""
        message: object = None
        is_json = True
        try:
            message = msgspec.json.decode(data)
        except (ValueError, RecursionError):
            # jsonrpc.encoding.utf8: a message in another encoding is still judged as a message.
            text = data.decode(errors="replace")
            is_json = text.encode() != data and decode_json(text) is not None
        self.count += 1
        record = Record(
            sender=sender,
            t=round(self._clock() - self._start, 6),
            transport=self.transport,
            message=msgspec.Raw(data) if is_json else None,
            raw=None if is_json else data.decode(errors="replace"),
            http=http,
            number=self.count,
        )
        is_kept = len(data) <= _LARGEST
        self._is_whole = self._is_whole and is_kept and self.count <= _KEPT
        self.records.append(record if is_kept else _cut(record, data))
        if self.monitor is not None:
            self.monitor.observe(record)
        return message

    def note(self, sender: Party, http: HttpFacts) -> None:
        """Let the monitor see what HTTP said without a message; it is not evidence by itself."""
        if self.monitor is not None:
            self.monitor.observe(
                Record(
                    sender=sender,
                    t=round(self._clock() - self._start, 6),
                    transport=self.transport,
                    http=http,
                    number=self.count,
                )
            )

    def miss(self) -> None:
        """Note that messages of the party under check may have been lost with a response."""
        self._has_missed = True
        if self.monitor is not None:
            self.monitor.miss(self._judged)

    def judge(self) -> bool:
        """Begin to judge, from the first record on; return False if some were not kept."""
        if self._is_whole:
            self.monitor = self._monitor()
            if self._has_missed:
                self.monitor.miss(self._judged)
            for record in self.records:
                self.monitor.observe(record)
        return self._is_whole

    def tally(self, id: str) -> Tally | None:
        """Return what the monitor counted for a requirement; None if it did not judge it."""
        return None if self.monitor is None else self.monitor.tallies.get(id)

    def close(self) -> None:
        """End the recording; the monitor judges the records it held back."""
        if self.monitor is not None:
            self.monitor.close()

    def last(self) -> list[Evidence]:
        """Return the newest records as evidence, in order."""
        return [_evidence(record) for record in list(self.records)[-_LAST:]]

    def evidence_of_exchange(self, id: object) -> list[Evidence]:
        """Return a request and its answer as evidence."""
        return [
            _evidence(record)
            for record in self.records
            if any(
                is_same_id(each.get("id"), id)
                and ("method" in each) is (record.sender != self._judged)
                for each in objects_in(_decode(record))
            )
        ]

    def evidence_of(self, messages: Iterable[object]) -> list[Evidence]:
        """Return the last record of each of these messages as evidence.

        A message may be raw bytes, a batch, or a part of a batch.
        """
        wanted = list(messages)
        found: list[Record] = []
        for record in reversed(self.records):
            decoded = _decode(record)
            parts = [decoded, *(decoded if isinstance(decoded, list) else ()), _bytes_of(record)]
            matched = [each for each in wanted if each is not None and each in parts]
            if matched:
                found.append(record)
                wanted = [each for each in wanted if each not in matched]
        return [_evidence(record) for record in reversed(found)]

    def whole_message(self, evidence: Evidence) -> str:
        """Return the message of which an evidence may be an excerpt."""
        for record in self.records:
            is_same = (record.number, record.sender) == (evidence.number, evidence.party)
            if is_same and record.message is not None:
                whole = bytes(record.message).decode(errors="replace")
                # An evidence of another connection may have the same number.
                if whole.startswith((evidence.message or "").removesuffix("...")):
                    return whole
        return evidence.message or ""

    def evidence_since(self, number: int) -> list[Evidence]:
        """Return the first records from this number on, as evidence."""
        return [_evidence(each) for each in self.records if (each.number or 0) >= number][:_LAST]


def _bytes_of(record: Record) -> bytes:
    if record.message is not None:
        return bytes(record.message)
    return (record.raw or "").encode(errors="surrogatepass")


def _decode(record: Record) -> Any:
    return None if record.message is None else decode_json(bytes(record.message))


def _cut(record: Record, data: bytes) -> Record:
    return msgspec.structs.replace(
        record, message=None, raw=data[:_EXCERPT].decode(errors="replace")
    )


def _evidence(record: Record) -> Evidence:
    http = record.http
    head = ""
    if http is not None:
        headers = ", ".join(
            f"{key}: {text}" for key, text in http.headers.items() if key in _SHOWN_HEADERS
        )
        head = f"HTTP {http.status or http.method} " + (f"({headers}) " if headers else "")
    text = _bytes_of(record).decode(errors="replace") or "(no body)"
    return Evidence(f"{head}message", record.sender, record.number, shorten(text, _EXCERPT))


# A server that asks more often than this never ends.
ROUNDS: Final = 8
# A client without a handshake has no way to announce a change of its roots.
EVERYTHING_STATELESS: Final[Mapping[str, object]] = {
    "roots": {},
    "sampling": {},
    "elicitation": {},
}
INPUT_REQUIRED: Final = "input_required"


def stamp(revision: str, params: object, capabilities: Mapping[str, object]) -> object:
    """Return the parameters of a request with the `_meta` that names its revision and client.

    Members of a `_meta` that is there already stay. Parameters that are not an object stay too.
    """
    if params is not None and not isinstance(params, dict):
        return params
    meta = {
        META_VERSION: revision,
        META_CAPABILITIES: dict(capabilities),
        META_CLIENT: CLIENT_INFO,
    }
    return {**(params or {}), "_meta": meta | meta_of(params)}


def input_requests_of(reply: Mapping[str, object]) -> dict[str, JsonObject]:
    """Return the questions of an input-required result by key; empty for any other message."""
    result = reply.get("result")
    if not isinstance(result, dict) or result.get("resultType") != INPUT_REQUIRED:
        return {}
    asked = result.get("inputRequests")
    named = asked.items() if isinstance(asked, dict) else ()
    return {key: each for key, each in named if isinstance(each, dict)}


def questions_in(message: JsonObject) -> list[JsonObject]:
    """Return what a message asks the client: as a request, or in a result."""
    return [message] if is_request(message) else [*input_requests_of(message).values()]


def is_question(message: JsonObject) -> bool:
    """Return whether a message asks the client something."""
    return bool(questions_in(message))


def answer_round(
    request: JsonObject, reply: Reply, capabilities: Mapping[str, object]
) -> JsonObject | None:
    """Return the request again, with the answers to the questions of its result.

    None if a question needs a capability that was not declared, or if nothing was asked for.
    """
    result = reply.result
    if result.get("resultType") != INPUT_REQUIRED:
        return None
    questions = input_requests_of(reply.message)
    answers = {key: answer_to(each, capabilities) for key, each in questions.items()}
    if any("result" not in each for each in answers.values()):
        return None
    params = {
        name: value
        for name, value in params_of(request).items()
        if name not in ("inputResponses", "requestState")
    }
    if answers:
        params["inputResponses"] = {key: each["result"] for key, each in answers.items()}
    if "requestState" in result:
        params["requestState"] = result["requestState"]
    if not answers and "requestState" not in result:
        return None
    return new_request(str(request["method"]), params)
