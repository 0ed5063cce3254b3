"""HTTP, as far as recorded messages show it: headers that repeat the body, and streams.

The record of a message of the server has the HTTP method of the request it answers, and its stream.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import META_SUBSCRIPTION, META_VERSION, Exchange, Step, meta_of
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.mirroring import (
    ANNOTATION,
    LARGEST_INTEGER,
    METHOD_HEADER,
    NAME_HEADER,
    NAME_MEMBERS,
    Annotation,
    MirroredArgument,
    decode_header,
    encode_header,
    find_annotations,
    mirrored_arguments,
)
from accord.protocol.party import Bounded
from accord.protocol.rules._rule import (
    Breach,
    Finding,
    Findings,
    Outcome,
    breach_at,
    check,
    messages,
    notifications,
    requests,
    results,
)
from accord.protocol.rules.http.exchanges import STATE
from accord.protocol.rules.values import (
    as_id,
    as_object,
    is_integer,
    memory_of,
    quote,
    result_objects,
)
from accord.protocol.syntax import is_http_token
from accord.protocol.violation import CLIENT, SERVER
from accord.trace import HttpFacts, is_masked

_POSTS: Final = messages((REQUEST, NOTIFICATION), by=CLIENT)
_VERSION_HEADER: Final = "MCP-Protocol-Version"
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


def _facts_with_headers(step: Step, *names: str) -> HttpFacts | None:
    """Return the facts of a message if it is known whether it has these headers."""
    facts = _http_facts(step)
    return facts if facts is not None and all(facts.knows(name) for name in names) else None


@check("http.post.each-message", _POSTS)
def message_is_posted(step: Step, conversation: Conversation) -> Outcome:
    facts = _http_facts(step)
    # Batches are judged by jsonrpc.batch.removed.
    if facts is None or facts.method is None or step.in_batch:
        return None
    return facts.method.upper() == "POST" or f"sends {step.name} with HTTP {facts.method[:20]}"


_METADATA: Final = (_VERSION_HEADER, METHOD_HEADER, NAME_HEADER)


def _has_no_metadata(facts: HttpFacts) -> bool:
    return all(facts.lacks(name) for name in _METADATA)


@check("http.post.metadata-headers", requests(by=CLIENT))
def post_has_the_metadata_headers(step: Step, conversation: Conversation) -> Outcome:
    facts = _facts_with_headers(step, *_METADATA)
    # A handshake is that of an older revision.
    if facts is None or step.name == "initialize":
        return None
    why = f"posts {step.name} without any of its metadata headers"
    return why if _has_no_metadata(facts) else True


@check("http.version-header.present", _POSTS)
def post_has_the_version_header(step: Step, conversation: Conversation) -> Outcome:
    facts = _facts_with_headers(step, _VERSION_HEADER)
    if facts is None or (step.kind == REQUEST and _has_no_metadata(facts)):
        return None
    has_version = facts.header(_VERSION_HEADER) is not None
    return has_version or f"posts {step.name} without {_VERSION_HEADER}"


@check("http.version-header.matches-meta", requests(by=CLIENT), at=META_VERSION)
def version_header_repeats_the_body(step: Step, conversation: Conversation) -> Outcome:
    facts = _facts_with_headers(step, _VERSION_HEADER)
    header = facts.header(_VERSION_HEADER) if facts else None
    version = meta_of(step.body).get(META_VERSION)
    if header is None or not isinstance(version, str):
        return None
    return header.strip() == version or (
        f"posts {step.name} of {version[:40]} with the header {_VERSION_HEADER}: {header[:40]}"
    )


@check("http.headers.mcp-method", requests(by=CLIENT), at="/method")
def method_header_repeats_the_body(step: Step, conversation: Conversation) -> Outcome:
    facts = _facts_with_headers(step, METHOD_HEADER)
    if facts is None or _has_no_metadata(facts):
        return None
    header = facts.header(METHOD_HEADER)
    if header is None:
        return f"posts {step.name} without {METHOD_HEADER}"
    return header.strip() == step.name or (
        f"posts {step.name[:60]} with {METHOD_HEADER}: {header[:60]}"
    )


@check(
    "http.headers.mcp-name",
    requests([name for name in NAME_MEMBERS if name not in _TASKS], by=CLIENT),
)
@check("tasks-ext.http.mcp-name", requests(_TASKS, by=CLIENT))
def name_header_repeats_the_body(step: Step, conversation: Conversation) -> Outcome:
    facts, member = _facts_with_headers(step, NAME_HEADER), NAME_MEMBERS[step.name]
    name = as_object(step.body).get(member)
    if facts is None or not isinstance(name, str) or _has_no_metadata(facts):
        return None
    header = facts.header(NAME_HEADER)
    if header is None:
        return f"posts {step.name} without {NAME_HEADER}"
    if is_masked(header, name):
        return None
    if decode_header(header) != name and _is_unsafe(name):
        return None  # http.headers.mcp-name.encoded-when-unsafe
    return decode_header(header) == name or breach_at(
        f"posts {step.name} with {NAME_HEADER}: {header[:60]}, which is not its {member}", member
    )


def _is_unsafe(name: str) -> bool:
    return encode_header(name) != name


@check("http.headers.mcp-name.encoded-when-unsafe", requests(list(NAME_MEMBERS), by=CLIENT))
def unsafe_name_is_encoded(step: Step, conversation: Conversation) -> Outcome:
    facts, name = _http_facts(step), as_object(step.body).get(NAME_MEMBERS[step.name])
    header = None if facts is None else facts.header(NAME_HEADER)
    if header is None or not isinstance(name, str) or not _is_unsafe(name):
        return None
    if is_masked(header, name):
        return None
    expected = encode_header(name)
    return header.strip(" \t") == expected or breach_at(
        f"posts {step.name} with {NAME_HEADER}: {header[:60]!r}, expected {expected[:80]}",
        NAME_MEMBERS[step.name],
    )


# -- streams and their requests


def _streams(conversation: Conversation) -> dict[str, list[Exchange]]:
    found: dict[str, list[Exchange]] = memory_of(conversation).facts.setdefault(_STREAMS, Bounded())
    return found


@check("http.post.related-requests-on-stream", requests(by=CLIENT))
@check("http.sse.notifications-related", requests(by=CLIENT))
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


@check(
    "http.post.related-requests-on-stream",
    notifications(_PROGRESS, by=SERVER),
    at="progressToken",
)
def progress_is_on_the_stream_of_its_request(step: Step, conversation: Conversation) -> Outcome:
    requests = _requests_of_stream(step, conversation)
    if not requests or step.exchange is None:
        return None
    if any(request is step.exchange for request in requests):
        return True
    return f"reports progress of id {step.exchange.id!r} on the stream of another request"


def _is_resumed(facts: HttpFacts, conversation: Conversation) -> bool:
    """Return whether a stream resumes another; recorders may say so in either direction."""
    if facts.header("Last-Event-ID") is not None:
        return True
    state = memory_of(conversation).facts.get(STATE)
    exchange = state.exchanges.get(facts.exchange) if state and facts.exchange else None
    return exchange is not None and exchange.is_resumed is True


@check("http.get.unrelated-messages", messages((REQUEST, NOTIFICATION), by=SERVER), at="/method")
def get_stream_has_only_unrelated_messages(step: Step, conversation: Conversation) -> Outcome:
    facts = _http_facts(step)
    if facts is None or (facts.method or "").upper() != "GET":
        return None
    if _is_resumed(facts, conversation) or _requests_of_stream(step, conversation):
        # A resumed stream continues the stream of its request.
        return None
    if step.exchange is not None and step.name == _PROGRESS:
        return f"reports progress of {step.exchange.name} (id {step.exchange.id!r}) on a GET stream"
    if step.name in _CHANGES or not conversation.client.open:
        return True
    return None


@check("http.sse.notifications-related", notifications(by=SERVER), at="/method")
def stream_has_only_related_notifications(step: Step, conversation: Conversation) -> Outcome:
    requests = _requests_of_stream(step, conversation)
    if not requests or _is_misplaced_on_listen(step, requests):
        return None
    if step.name == _PROGRESS and step.exchange is not None:
        related = any(request is step.exchange for request in requests)
    else:
        id = as_id(meta_of(step.body).get(META_SUBSCRIPTION))
        if id is None:
            return None
        related = any(request.is_lasting and request.id == id for request in requests)
    return related or f"sends {step.name} on the stream of another request"


def _is_misplaced_on_listen(step: Step, requests: list[Exchange]) -> bool:
    return step.name in (_PROGRESS, _LOG) and any(request.is_lasting for request in requests)


@check("http.sse.listen-excludes-request-scoped", notifications(by=SERVER), at="/method")
def listen_stream_has_no_progress_or_log(step: Step, conversation: Conversation) -> Outcome:
    requests = _requests_of_stream(step, conversation)
    if not any(request.is_lasting for request in requests):
        return None
    if _is_misplaced_on_listen(step, requests):
        return f"sends {step.name} on a listen stream"
    return True


@check("http.sse.no-requests", messages((REQUEST, NOTIFICATION, RESULT), by=SERVER), at="/method")
def stream_has_no_requests(step: Step, conversation: Conversation) -> Outcome:
    if _http_facts(step) is None:
        return None
    is_request = step.kind == REQUEST
    return not is_request or f"sends the request {step.name[:60]} on a response stream"


# -- tool arguments that are mirrored in HTTP headers: `x-mcp-header` in input schemas

_TOOL_LISTS: Final = results("tools/list", by=SERVER)


def _by_tool(step: Step) -> Iterator[list[Annotation]]:
    for place, tool in result_objects(step, "tools"):
        yield find_annotations(tool.get("inputSchema"), f"{place}.inputSchema")


def _all_annotations(step: Step) -> Iterator[Annotation]:
    return chain.from_iterable(_by_tool(step))


@check("tools.x-mcp-header.not-empty", _TOOL_LISTS)
def header_is_not_empty(step: Step, conversation: Conversation) -> Findings:
    for found in _all_annotations(step):
        yield found.header != "" or breach_at(
            f"sends {found.place} with an empty {ANNOTATION}", found.place, ANNOTATION
        )


@check("tools.x-mcp-header.token-syntax", _TOOL_LISTS)
def header_is_a_token(step: Step, conversation: Conversation) -> Findings:
    for place, header in ((found.place, found.header) for found in _all_annotations(step)):
        if header != "":
            is_token = isinstance(header, str) and is_http_token(header)
            yield is_token or breach_at(
                f"sends {place} with {ANNOTATION} {quote(header)}, which is not an HTTP token",
                place,
                ANNOTATION,
            )


@check("tools.x-mcp-header.unique", _TOOL_LISTS)
def header_is_unique(step: Step, conversation: Conversation) -> Findings:
    for annotations in _by_tool(step):
        named = [(each.place, each.header) for each in annotations if isinstance(each.header, str)]
        uses = Counter(header.lower() for _, header in named)
        for place, header in named:
            count = uses.pop(header.lower(), 1)
            yield count == 1 or breach_at(
                f"sends {place} with {ANNOTATION} {quote(header)}, "
                f"which the schema has {count} times",
                *(place, ANNOTATION),
            )


@check("tools.x-mcp-header.primitive-only", _TOOL_LISTS)
def header_is_for_a_primitive(step: Step, conversation: Conversation) -> Findings:
    for found in _all_annotations(step):
        if found.names is not None:
            yield found.is_primitive or breach_at(
                f"sends {found.place} with {ANNOTATION} and type "
                f"{quote(found.schema.get('type'))}, expected string, integer or boolean",
                found.place,
            )


@check("tools.x-mcp-header.statically-reachable", _TOOL_LISTS)
def header_is_reached_through_properties(step: Step, conversation: Conversation) -> Findings:
    for found in _all_annotations(step):
        yield found.names is not None or breach_at(
            f"sends {found.place} with {ANNOTATION}, which is not reachable "
            "through properties alone",
            *(found.place, ANNOTATION),
        )


@check("tools.x-mcp-header.safe-integers", _TOOL_LISTS)
def integers_in_the_schema_are_safe(step: Step, conversation: Conversation) -> Findings:
    for found in _all_annotations(step):
        if found.names is not None:
            allowed = found.schema.get("enum")
            fixed = [found.schema.get("const"), found.schema.get("default")]
            for value in (*fixed, *(allowed if isinstance(allowed, list) else ())):
                yield _judge_integer(value, found.place)


@check("tools.x-mcp-header.safe-integers", requests("tools/call", by=CLIENT))
def mirrored_integers_are_safe(step: Step, conversation: Conversation) -> Findings:
    params = as_object(step.body)
    name = params.get("name")
    if not isinstance(name, str):
        return
    schema = memory_of(conversation).tools.get(name, {}).get("inputSchema")
    for found in find_annotations(schema, "inputSchema"):
        value = params.get("arguments")
        for inner in found.names or ():
            value = as_object(value).get(inner)
        if found.names:
            yield _judge_integer(value, ".".join(("arguments", *found.names)))


def _judge_integer(value: object, place: str) -> Finding:
    if not isinstance(value, int | float) or not is_integer(value):
        return None
    return abs(value) <= LARGEST_INTEGER or breach_at(
        f"sends {place} with {value}, beyond 2^53-1", place
    )


# -- tool arguments in `Mcp-Param` headers, as recorded headers show them
#
# They are judged only for tools whose schema the server listed in the same conversation.

_CALLS = requests("tools/call", by=CLIENT)


def _mirrored_values(
    step: Step, conversation: Conversation
) -> Iterator[tuple[MirroredArgument, Any, HttpFacts]]:
    """Yield the arguments that headers repeat, their values, and the recorded headers."""
    params = as_object(step.body)
    name = params.get("name")
    facts = None if step.record is None else step.record.http
    if not isinstance(name, str) or facts is None:
        return
    try:
        mirrored = mirrored_arguments(
            memory_of(conversation).tools.get(name, {}).get("inputSchema")
        )
    except ValueError:
        return  # a client drops such a tool
    for each in mirrored:
        if facts.knows(each.header):
            yield each, each.value(params.get("arguments")), facts


def _given_values(
    step: Step, conversation: Conversation
) -> Iterator[tuple[MirroredArgument, Any, str]]:
    """Yield the arguments with a value and with a header that can be compared with it."""
    for each, value, facts in _mirrored_values(step, conversation):
        header = facts.header(each.header)
        if header is None or not isinstance(value, str | int | float):
            continue
        if not is_masked(header, value):
            yield each, value, header.strip(" \t")


def _breach(why: str, argument: MirroredArgument) -> Breach:
    return breach_at(why, "arguments", *argument.names)


@check("http.param-headers.client-support", _CALLS)
def argument_has_its_header(step: Step, conversation: Conversation) -> Findings:
    for each, value, facts in _mirrored_values(step, conversation):
        if isinstance(value, str | int | float):
            yield not facts.lacks(each.header) or _breach(
                f"calls a tool without the header {each.header}", each
            )


@check("http.param-headers.omitted-without-value", _CALLS)
def absent_argument_has_no_header(step: Step, conversation: Conversation) -> Findings:
    for each, value, facts in _mirrored_values(step, conversation):
        if value is None:
            yield facts.lacks(each.header) or _breach(
                f"calls a tool with the header {each.header} for an argument without a value", each
            )


def _is_spelled_alike(value: str, header: str) -> bool:
    """Return whether a header has the right value, in quotes or in other letters at most."""
    return value.lower() == header.strip("'\"").lower()


@check("http.param-headers.value.string-forms", _CALLS)
def value_has_its_form(step: Step, conversation: Conversation) -> Findings:
    for each, value, header in _given_values(step, conversation):
        if isinstance(value, str):
            if encode_header(value) == value and header == value:
                yield True
            elif value != header and _is_spelled_alike(value, header):
                yield _breach(
                    f"calls a tool with {each.header}: {header[:40]!r}, expected {value[:40]!r}",
                    each,
                )
        else:
            expected = encode_header(value)
            yield header == expected or _breach(
                f"calls a tool with {each.header}: {header[:40]!r}, expected {expected!r}", each
            )


def _looks_encoded(text: str) -> bool:
    return text.startswith("=?base64?") and text.endswith("?=") and len(text) >= 11


@check("http.param-headers.value.base64-when-unsafe", _CALLS)
def unsafe_value_is_encoded(step: Step, conversation: Conversation) -> Findings:
    for each, value, header in _given_values(step, conversation):
        if isinstance(value, str) and encode_header(value) != value and not _looks_encoded(value):
            yield header == encode_header(value) or _breach(
                f"calls a tool with {each.header}: {header[:60]!r}, "
                f"expected {encode_header(value)[:80]}",
                each,
            )


@check("http.param-headers.value.sentinel-escaped", _CALLS)
def text_like_a_sentinel_is_encoded(step: Step, conversation: Conversation) -> Findings:
    for each, value, header in _given_values(step, conversation):
        if isinstance(value, str) and _looks_encoded(value):
            yield header == encode_header(value) or _breach(
                f"calls a tool with {each.header}: {header[:60]!r}, which hides another value", each
            )


@check("http.param-headers.exact-path", _CALLS)
def header_repeats_its_own_argument(step: Step, conversation: Conversation) -> Findings:
    for each, value, header in _given_values(step, conversation):
        if not isinstance(value, str) or encode_header(value) != value:
            continue
        yield (
            decode_header(header) == value
            or _is_spelled_alike(value, header)
            or _breach(
                f"calls a tool with {each.header}: {header[:40]!r}, but {'.'.join(each.names)} is "
                f"{value[:40]!r}",
                each,
            )
        )
