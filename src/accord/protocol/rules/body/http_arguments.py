"""Tool arguments that a client repeats in `Mcp-Param` headers, as recorded headers show them.

They are judged only for tools whose schema the server listed in the same conversation.
"""

from collections.abc import Iterator
from typing import Any

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.mirroring import (
    MirroredArgument,
    decode_header,
    encode_header,
    mirrored_arguments,
)
from accord.protocol.rules._rule import Breach, Findings, breach_at, check
from accord.protocol.rules.http.exchanges import is_masked
from accord.protocol.rules.selection import requests
from accord.protocol.rules.values import as_object, memory_of
from accord.protocol.violation import CLIENT
from accord.trace import HttpFacts

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
