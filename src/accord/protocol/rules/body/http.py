"""HTTP, as far as recorded messages show it: headers that repeat the body, and streams.

The record of a message of the server has the HTTP method of the request it answers, and its stream.
"""

import base64
import binascii
from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Exchange, Step, meta_of
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.party import Bounded
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.values import META, as_id, as_object
from accord.protocol.violation import CLIENT, SERVER
from accord.trace import HttpFacts

_VERSION_HEADER: Final = "MCP-Protocol-Version"
_METHOD_HEADER: Final = "Mcp-Method"
_NAME_HEADER: Final = "Mcp-Name"
_NAME_MEMBERS: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
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


def _http_facts(step: Step) -> HttpFacts | None:
    if step.record is None or step.record.transport != "http":
        return None
    return step.record.http


# -- what a client posts


def _facts_with_headers(step: Step) -> HttpFacts | None:
    """Return the facts of a message with recorded headers."""
    facts = _http_facts(step)
    return facts if facts is not None and facts.headers else None


def _has_no_metadata(facts: HttpFacts) -> bool:
    names = (_VERSION_HEADER, _METHOD_HEADER, _NAME_HEADER)
    return all(facts.header(name) is None for name in names)


@check("http.post.each-message", by=CLIENT, kind=(REQUEST, NOTIFICATION))
def message_is_posted(step: Step, conversation: Conversation) -> Outcome:
    facts = _http_facts(step)
    # Batches are judged by jsonrpc.batch.removed.
    if facts is None or facts.method is None or step.in_batch:
        return None
    return facts.method.upper() == "POST" or f"sends {step.name} with HTTP {facts.method[:20]}"


@check("http.post.metadata-headers", by=CLIENT, kind=REQUEST)
def post_has_the_metadata_headers(step: Step, conversation: Conversation) -> Outcome:
    facts = _facts_with_headers(step)
    if facts is None:
        return None
    return not _has_no_metadata(facts) or f"posts {step.name} without any of its metadata headers"


@check("http.version-header.present", by=CLIENT, kind=(REQUEST, NOTIFICATION))
def post_has_the_version_header(step: Step, conversation: Conversation) -> Outcome:
    facts = _facts_with_headers(step)
    if facts is None or (step.kind == REQUEST and _has_no_metadata(facts)):
        return None
    if facts.header(_VERSION_HEADER) is None:
        return f"posts {step.name} without {_VERSION_HEADER}"
    return True


@check("http.version-header.matches-meta", by=CLIENT, kind=REQUEST)
def version_header_repeats_the_body(step: Step, conversation: Conversation) -> Outcome:
    facts = _facts_with_headers(step)
    header = facts.header(_VERSION_HEADER) if facts else None
    version = meta_of(step.body).get(f"{META}protocolVersion")
    if header is None or not isinstance(version, str):
        return None
    return header.strip() == version or (
        f"posts {step.name} of {version[:40]} with the header {_VERSION_HEADER}: {header[:40]}"
    )


@check("http.headers.mcp-method", by=CLIENT, kind=REQUEST)
def method_header_repeats_the_body(step: Step, conversation: Conversation) -> Outcome:
    facts = _facts_with_headers(step)
    if facts is None or _has_no_metadata(facts):
        return None
    header = facts.header(_METHOD_HEADER)
    if header is None:
        return f"posts {step.name} without {_METHOD_HEADER}"
    return header.strip() == step.name or (
        f"posts {step.name[:60]} with {_METHOD_HEADER}: {header[:60]}"
    )


@check("http.headers.mcp-name", by=CLIENT, kind=REQUEST, on=_NAME_MEMBERS)
def name_header_repeats_the_body(step: Step, conversation: Conversation) -> Outcome:
    return _judge_name(step, _NAME_MEMBERS[step.name])


@check("tasks-ext.http.mcp-name", by=CLIENT, kind=REQUEST, on=_TASKS)
def name_header_repeats_the_task(step: Step, conversation: Conversation) -> Outcome:
    return _judge_name(step, "taskId")


def _judge_name(step: Step, member: str) -> Outcome:
    facts = _facts_with_headers(step)
    name = as_object(step.body).get(member)
    if facts is None or _has_no_metadata(facts) or not isinstance(name, str):
        return None
    header = facts.header(_NAME_HEADER)
    if header is None:
        return f"posts {step.name} without {_NAME_HEADER}"
    return _decode_header(header) == name or (
        f"posts {step.name} with {_NAME_HEADER}: {header[:60]}, which is not its {member}"
    )


def _decode_header(header: str) -> str | None:
    """Return the value of a header that may be encoded; None when it is invalid."""
    header = header.strip(" \t")
    if header.startswith("=?base64?") and header.endswith("?=") and len(header) >= 11:
        try:
            return base64.b64decode(header[9:-2], validate=True).decode()
        except (binascii.Error, ValueError):
            return None
    return header if header.isascii() and header.replace("\t", " ").isprintable() else None


# -- streams and their requests


def _streams(conversation: Conversation) -> dict[str, list[Exchange]]:
    memory = conversation.memory
    found: dict[str, list[Exchange]] = (
        {} if memory is None else memory.facts.setdefault(_STREAMS, Bounded())
    )
    return found


@check("http.post.related-requests-on-stream", by=CLIENT, kind=REQUEST)
@check("http.sse.notifications-related", by=CLIENT, kind=REQUEST)
def note_stream(step: Step, conversation: Conversation) -> Outcome:
    facts = _http_facts(step)
    if facts is not None and facts.stream is not None and step.exchange is not None:
        streams = _streams(conversation)
        # A batch opens one stream for all its requests.
        streams[facts.stream] = [*streams.get(facts.stream, ()), step.exchange][-256:]
    return None


def _requests_of_stream(step: Step, conversation: Conversation) -> list[Exchange]:
    """Return the known requests of the stream on which a message of the server arrived."""
    facts = _http_facts(step)
    if facts is None or facts.stream is None:
        return []
    return _streams(conversation).get(facts.stream, [])


@check("http.post.related-requests-on-stream", by=SERVER, kind=NOTIFICATION, on=_PROGRESS)
def progress_is_on_the_stream_of_its_request(step: Step, conversation: Conversation) -> Outcome:
    requests = _requests_of_stream(step, conversation)
    if not requests or step.exchange is None:
        return None
    if any(request is step.exchange for request in requests):
        return True
    return f"reports progress of id {step.exchange.id!r} on the stream of another request"


@check("http.get.unrelated-messages", by=SERVER, kind=(REQUEST, NOTIFICATION))
def get_stream_has_only_unrelated_messages(step: Step, conversation: Conversation) -> Outcome:
    facts = _http_facts(step)
    if facts is None or (facts.method or "").upper() != "GET":
        return None
    if facts.header("Last-Event-ID") is not None or _requests_of_stream(step, conversation):
        # A resumed stream continues the stream of its request.
        return None
    if step.exchange is not None and step.name == _PROGRESS:
        return f"reports progress of {step.exchange.name} (id {step.exchange.id!r}) on a GET stream"
    if step.name in _CHANGES or not conversation.parties[CLIENT].open:
        return True
    return None


@check("http.sse.notifications-related", by=SERVER, kind=NOTIFICATION)
def stream_has_only_related_notifications(step: Step, conversation: Conversation) -> Outcome:
    requests = _requests_of_stream(step, conversation)
    if not requests or _is_misplaced_on_listen(step, requests):
        return None
    if step.name == _PROGRESS and step.exchange is not None:
        related = any(request is step.exchange for request in requests)
    else:
        id = as_id(meta_of(step.body).get(f"{META}subscriptionId"))
        if id is None:
            return None
        related = any(request.is_lasting and request.id == id for request in requests)
    return related or f"sends {step.name} on the stream of another request"


def _is_misplaced_on_listen(step: Step, requests: list[Exchange]) -> bool:
    return step.name in (_PROGRESS, _LOG) and any(request.is_lasting for request in requests)


@check("http.sse.listen-excludes-request-scoped", by=SERVER, kind=NOTIFICATION)
def listen_stream_has_no_progress_or_log(step: Step, conversation: Conversation) -> Outcome:
    requests = _requests_of_stream(step, conversation)
    if not any(request.is_lasting for request in requests):
        return None
    if _is_misplaced_on_listen(step, requests):
        return f"sends {step.name} on a listen stream"
    return True


@check("http.sse.no-requests", by=SERVER, kind=REQUEST)
def stream_has_no_requests(step: Step, conversation: Conversation) -> Outcome:
    if _http_facts(step) is None:
        return None
    return f"sends the request {step.name[:60]} on a response stream"


@check("http.sse.no-requests", by=SERVER, kind=(NOTIFICATION, RESULT))
def stream_has_notifications_and_results(step: Step, conversation: Conversation) -> Outcome:
    return None if _http_facts(step) is None else True
