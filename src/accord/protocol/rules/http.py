"""Deep rules of HTTP that recorded messages can show: headers that repeat the body, and streams.

Of a server's message the record tells the HTTP method whose response it came with, and the stream.
"""

import base64
import binascii
from typing import TYPE_CHECKING, Final

from accord.protocol.exchange import Exchange, Step, meta_of
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.party import Bounded
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.parts import META
from accord.protocol.rules.values import as_id
from accord.protocol.violation import CLIENT, SERVER
from accord.trace import HttpFacts

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_VERSION_HEADER: Final = "MCP-Protocol-Version"
_METHOD_HEADER: Final = "Mcp-Method"
_NAME_HEADER: Final = "Mcp-Name"
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_TASKS: Final = ("tasks/get", "tasks/update", "tasks/cancel")
_STREAMS: Final = "http.streams"

_PROGRESS: Final = "notifications/progress"
_LOG: Final = "notifications/message"
_CHANGES: Final = (
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
)


def _facts(step: Step) -> HttpFacts | None:
    if step.record is None or step.record.transport != "http":
        return None
    return step.record.http


# -- what a client posts


def _headers(step: Step) -> HttpFacts | None:
    """The facts of a message whose headers were recorded; otherwise none can be missed."""
    facts = _facts(step)
    return facts if facts is not None and facts.headers else None


def _has_none_of_them(facts: HttpFacts) -> bool:
    names = (_VERSION_HEADER, _METHOD_HEADER, _NAME_HEADER)
    return all(facts.header(name) is None for name in names)


@check("http.post.each-message", by=CLIENT, kind=(REQUEST, NOTIFICATION))
def message_is_posted(step: Step, conversation: "Conversation") -> Outcome:
    facts = _facts(step)
    # jsonrpc.batch.removed is about more than one.
    if facts is None or facts.method is None or step.in_batch:
        return None
    return facts.method.upper() == "POST" or f"sends {step.name} with HTTP {facts.method[:20]}"


@check("http.post.metadata-headers", by=CLIENT, kind=REQUEST)
def post_has_the_metadata_headers(step: Step, conversation: "Conversation") -> Outcome:
    facts = _headers(step)
    if facts is None:
        return None
    return not _has_none_of_them(facts) or f"posts {step.name} without any metadata header"


@check("http.version-header.present", by=CLIENT, kind=(REQUEST, NOTIFICATION))
def post_has_the_version_header(step: Step, conversation: "Conversation") -> Outcome:
    facts = _headers(step)
    if facts is None or (step.kind == REQUEST and _has_none_of_them(facts)):
        return None
    if facts.header(_VERSION_HEADER) is None:
        return f"posts {step.name} without {_VERSION_HEADER}"
    return True


@check("http.version-header.matches-meta", by=CLIENT, kind=REQUEST)
def version_header_repeats_the_body(step: Step, conversation: "Conversation") -> Outcome:
    facts = _headers(step)
    header = facts.header(_VERSION_HEADER) if facts else None
    version = meta_of(step.body).get(f"{META}protocolVersion")
    if header is None or not isinstance(version, str):
        return None
    return header.strip() == version or (
        f"posts {step.name} of {version[:40]} with {_VERSION_HEADER}: {header[:40]}"
    )


@check("http.headers.mcp-method", by=CLIENT, kind=REQUEST)
def method_header_repeats_the_body(step: Step, conversation: "Conversation") -> Outcome:
    facts = _headers(step)
    if facts is None or _has_none_of_them(facts):
        return None
    header = facts.header(_METHOD_HEADER)
    if header is None:
        return f"posts {step.name} without {_METHOD_HEADER}"
    return header.strip() == step.name or (
        f"posts {step.name[:60]} with {_METHOD_HEADER}: {header[:60]}"
    )


@check("http.headers.mcp-name", by=CLIENT, kind=REQUEST, on=_NAMED_BY)
def name_header_repeats_the_body(step: Step, conversation: "Conversation") -> Outcome:
    return _judge_name(step, _NAMED_BY[step.name])


@check("tasks-ext.http.mcp-name", by=CLIENT, kind=REQUEST, on=_TASKS)
def name_header_repeats_the_task(step: Step, conversation: "Conversation") -> Outcome:
    return _judge_name(step, "taskId")


def _judge_name(step: Step, member: str) -> Outcome:
    facts = _headers(step)
    name = step.body.get(member) if isinstance(step.body, dict) else None
    if facts is None or _has_none_of_them(facts) or not isinstance(name, str):
        return None
    header = facts.header(_NAME_HEADER)
    if header is None:
        return f"posts {step.name} without {_NAME_HEADER}"
    return _decoded(header) == name or (
        f"posts {step.name} with {_NAME_HEADER}: {header[:60]}, which is not its {member}"
    )


def _decoded(header: str) -> str | None:
    """The value of a header that may be encoded; None where it is neither plain nor decodable."""
    header = header.strip(" \t")
    if header.startswith("=?base64?") and header.endswith("?=") and len(header) >= 11:
        try:
            return base64.b64decode(header[9:-2], validate=True).decode()
        except (binascii.Error, ValueError):
            return None
    return header if header.isascii() and header.replace("\t", " ").isprintable() else None


# -- which request a stream belongs to


def _streams(conversation: "Conversation") -> dict[str, list[Exchange]]:
    memory = conversation.memory
    found: dict[str, list[Exchange]] = (
        {} if memory is None else memory.facts.setdefault(_STREAMS, Bounded())
    )
    return found


@check("http.post.related-requests-on-stream", by=CLIENT, kind=REQUEST)
@check("http.sse.notifications-related", by=CLIENT, kind=REQUEST)
def stream_is_noted(step: Step, conversation: "Conversation") -> Outcome:
    facts = _facts(step)
    if facts is not None and facts.stream is not None and step.exchange is not None:
        streams = _streams(conversation)
        # A batch opens one stream for all its requests.
        streams[facts.stream] = [*streams.get(facts.stream, ()), step.exchange][-256:]
    return None


def _asked_on_stream(step: Step, conversation: "Conversation") -> list[Exchange]:
    """The requests whose stream a message of the server came on; none where that is not known."""
    facts = _facts(step)
    if facts is None or facts.stream is None:
        return []
    return _streams(conversation).get(facts.stream, [])


@check("http.post.related-requests-on-stream", by=SERVER, kind=NOTIFICATION, on=_PROGRESS)
def progress_travels_with_its_request(step: Step, conversation: "Conversation") -> Outcome:
    asked = _asked_on_stream(step, conversation)
    if not asked or step.exchange is None:
        return None
    if any(each is step.exchange for each in asked):
        return True
    return f"reports progress of {step.exchange.name} (id {step.exchange.id!r}) on another's stream"


@check("http.get.unrelated-messages", by=SERVER, kind=(REQUEST, NOTIFICATION))
def get_stream_has_nothing_related(step: Step, conversation: "Conversation") -> Outcome:
    facts = _facts(step)
    if facts is None or (facts.method or "").upper() != "GET":
        return None
    if facts.header("Last-Event-ID") is not None or _asked_on_stream(step, conversation):
        # A resumed stream brings what its request was owed.
        return None
    if step.exchange is not None and step.name == _PROGRESS:
        return f"reports progress of {step.exchange.name} (id {step.exchange.id!r}) on a GET stream"
    if step.name in _CHANGES or not conversation.parties[CLIENT].open:
        return True
    return None


@check("http.sse.notifications-related", by=SERVER, kind=NOTIFICATION)
def stream_has_only_related_notifications(step: Step, conversation: "Conversation") -> Outcome:
    asked = _asked_on_stream(step, conversation)
    if not asked or _request_scoped_on_listen(step, asked):
        return None
    if step.name == _PROGRESS and step.exchange is not None:
        related = any(each is step.exchange for each in asked)
    else:
        id = as_id(meta_of(step.body).get(f"{META}subscriptionId"))
        if id is None:
            return None
        related = any(each.is_lasting and each.id == id for each in asked)
    return related or f"sends {step.name} on the stream of another request"


def _request_scoped_on_listen(step: Step, asked: list[Exchange]) -> bool:
    return step.name in (_PROGRESS, _LOG) and any(each.is_lasting for each in asked)


@check("http.sse.listen-excludes-request-scoped", by=SERVER, kind=NOTIFICATION)
def listen_stream_has_no_progress_or_log(step: Step, conversation: "Conversation") -> Outcome:
    asked = _asked_on_stream(step, conversation)
    if not any(each.is_lasting for each in asked):
        return None
    if _request_scoped_on_listen(step, asked):
        return f"sends {step.name} on a listen stream"
    return True


@check("http.sse.no-requests", by=SERVER, kind=REQUEST)
def stream_has_no_requests(step: Step, conversation: "Conversation") -> Outcome:
    if _facts(step) is None:
        return None
    return f"sends the request {step.name[:60]} on a response stream"


@check("http.sse.no-requests", by=SERVER, kind=(NOTIFICATION, RESULT))
def stream_has_notifications_and_results(step: Step, conversation: "Conversation") -> Outcome:
    return None if _facts(step) is None else True
