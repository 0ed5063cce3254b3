"""What a server offers besides tools: lists and their pages, resources, prompts, completion."""

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

import msgspec

from accord.protocol import uri_template
from accord.protocol.catalogue import catalogue
from accord.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from accord.protocol.revisions import REVISIONS
from accord.protocol.rules.body.offers import CROSSING
from accord.types import JsonObject
from accord_tools.check.probing.messages import Reply
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.probing.server_facts import ServerFacts, list_intact
from accord_tools.check.scenarios._scenario import (
    LISTS,
    MISSING_URI,
    UNJUDGED,
    bare_scenario,
    call_all,
    is_alive,
    is_listening,
    lacks_lists,
    scenario,
)

_READ: Final = "resources/read"
_COMPLETE: Final = "completion/complete"
_SUBSCRIBE: Final = "resources/subscribe"
_UNSUBSCRIBE: Final = "resources/unsubscribe"
# How many entries of a list are read, asked for or completed.
_AT_MOST: Final = 10

# -- lists

_RESPECTED: Final = "lifecycle.capabilities.respected"


@bare_scenario(
    *(f"{name}.list-changed.sent" for name in LISTS), sends=(*LISTS.values(), "tools/call")
)
async def watches_the_lists_while_tools_are_called(probe: Probe) -> None:
    wanted = [name for name in LISTS if probe.facts.declares(f"{name}.listChanged")]
    for name in set(LISTS).difference(wanted):
        reason = f"the server did not declare {name}.listChanged"
        probe.not_applicable(f"{name}.list-changed.sent", reason)
    if not wanted:
        return
    async with probe.borrow() as connection:
        before = {name: await list_intact(connection, LISTS[name], name) for name in wanted}
        await call_all(probe, connection)
        await connection.collect(probe.target.settling)
        for name in wanted:
            id = f"{name}.list-changed.sent"
            if _is_announced(connection, name):
                probe.passes(id)
                continue
            after = await list_intact(connection, LISTS[name], name)
            is_changed = None not in (after, before[name]) and after != before[name]
            if is_changed:
                await connection.collect(probe.target.settling)
            if is_changed and is_listening(connection):
                why = f"sends no notification although its {name} changed"
                probe.holds(id, _is_announced(connection, name), why)
            probe.skip(id, f"the list of {name} did not change during the check")


def _is_announced(connection: RawConnection, name: str) -> bool:
    return bool(connection.messages(f"notifications/{name}/list_changed"))


@scenario(_RESPECTED, sends=(*LISTS.values(), _READ, _SUBSCRIBE, _UNSUBSCRIBE, _COMPLETE))
async def calls_declared_methods(probe: Probe, connection: RawConnection) -> None:
    asked: list[tuple[str, str, JsonObject]] = [(name, LISTS[name], {}) for name in LISTS]
    asked.append(("resources", _READ, {"uri": MISSING_URI}))
    if probe.facts.resources:
        watched = {"uri": probe.facts.resources[0].get("uri")}
        asked += [("resources.subscribe", each, watched) for each in (_SUBSCRIBE, _UNSUBSCRIBE)]
    for reference, name in _references(probe.facts)[:1]:
        argument = {"name": name, "value": ""}
        asked.append(("completions", _COMPLETE, {"ref": reference, "argument": argument}))
    known = REVISIONS[probe.revision].requests["client"]
    for name, method, params in asked:
        if method not in known or not probe.facts.declares(name):
            continue
        reply = await connection.ask(method, params)
        why = f"declares {name} and does not know {method}"
        probe.holds(_RESPECTED, reply.code != METHOD_NOT_FOUND, why, at="/error/code")


@bare_scenario(*(f"{name}.capability.declared" for name in LISTS))
async def lists_without_the_capability(probe: Probe) -> None:
    undeclared = [name for name in LISTS if not probe.facts.declares(name)]
    if not undeclared:
        return
    # The request itself breaks the rules, so that only the answer is judged.
    async with probe.borrow(is_judged=False) as connection:
        for name in undeclared:
            reply = await connection.ask(LISTS[name])
            if reply.result.get(name):
                probe.fail(f"{name}.capability.declared", f"has {name} that it did not declare")
            else:
                probe.not_applicable(f"{name}.capability.declared", f"the server has no {name}")


_SUBSCRIBE_DECLARED: Final = "resources.subscribe.capability-required"


@bare_scenario(_SUBSCRIBE_DECLARED, era="handshake")
async def subscribes_without_the_capability(probe: Probe) -> None:
    if probe.facts.declares("resources.subscribe") or not probe.facts.resources:
        return
    # The request itself breaks the rules, so that only the answer is judged.
    async with probe.borrow(is_judged=False) as connection:
        watched = {"uri": probe.facts.resources[0].get("uri")}
        reply = await connection.ask(_SUBSCRIBE, watched)
        why = "accepts a subscription without declaring resources.subscribe"
        probe.holds(_SUBSCRIBE_DECLARED, reply.is_error, why)
        if not reply.is_error:
            await connection.ask(_UNSUBSCRIBE, watched)


# -- resources

_UPDATED: Final = "notifications/resources/updated"
_SENT: Final = "resources.updated.sent"
_URI_VALIDATED: Final = "resources.uri.validated"
_INTERNAL: Final = "errors.code.internal-error"
_OF_CONTENTS: Final = (
    "resources.read.contents-array",
    "resources.contents.uri",
    "resources.contents.text-or-blob",
    "resources.contents.mime-type",
    "resources.binary.encoded",
)
_OF_UPDATES: Final = ("resources.updated.uri-param", "resources.updated.subscribers-only")
_NO_URIS: Final = ("accord check: no uri", "::", "http://[accord-check", "desk//\\no\\scheme")
# Timestamps change by themselves, which does not count as a change of a resource.
_TIME: Final = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?|\d{10,}(?:\.\d+)?")


@scenario(*_OF_CONTENTS, _INTERNAL, needs="resources", sends=(_READ, _COMPLETE))
async def reads_every_resource(probe: Probe, connection: RawConnection) -> None:
    uris = [str(each.get("uri")) for each in probe.facts.resources[:_AT_MOST]]
    for template in probe.facts.templates[:_AT_MOST]:
        uri = await _expand(probe, connection, template)
        if uri is not None:
            uris.append(uri)
    found = [await connection.ask(_READ, {"uri": uri}) for uri in uris]
    if all(reply.is_error for reply in found):
        why = "no resource could be read" if found else "no resource is listed"
        probe.skip(_OF_CONTENTS, why)
    probe.skip("resources.binary.encoded", "no resource that was read is binary")
    if any(reply.code == INTERNAL_ERROR for reply in found):
        probe.passes(_INTERNAL)
    probe.skip(_INTERNAL, "the check cannot make the server fail internally")


async def _expand(probe: Probe, connection: RawConnection, template: JsonObject) -> str | None:
    """Expand a template with suggestions of the server, or plain values."""
    text = template.get("uriTemplate")
    if not isinstance(text, str):
        return None
    try:
        parsed = uri_template.parse(text)
        reference = {"type": "ref/resource", "uri": text}
        return parsed.expand(await _fill_in(probe, connection, reference, parsed.variables))
    except ValueError:
        return None


@scenario(_URI_VALIDATED, opens=UNJUDGED, needs="resources")
async def reads_invalid_uris(probe: Probe, connection: RawConnection) -> None:
    for text in _NO_URIS:
        reply = await connection.ask(_READ, {"uri": text})
        if reply.result.get("contents") == []:
            # It looked for it and found nothing: no such resource was opened.
            probe.skip(_URI_VALIDATED, "the server answers an invalid URI with no contents")
            continue
        why = f"reads {text!r}, which is not a URI, and answers {reply}"
        probe.holds(_URI_VALIDATED, reply.is_error, why)
    await is_alive(probe, connection, "invalid URIs")


def _has_no_resources(facts: ServerFacts) -> str | None:
    return None if facts.resources else "no resource is listed to subscribe to"


@scenario(
    _SENT,
    *_OF_UPDATES,
    era="handshake",
    needs="resources.subscribe",
    when=_has_no_resources,
    sends=(_READ, _SUBSCRIBE, _UNSUBSCRIBE, "tools/call"),
)
async def subscribes_to_resources(probe: Probe, connection: RawConnection) -> None:
    watched: dict[str, list[str]] = {}
    for resource in probe.facts.resources[:_AT_MOST]:
        uri = str(resource.get("uri"))
        reply = await connection.ask(_SUBSCRIBE, {"uri": uri})
        if not reply.is_error:
            watched[uri] = [await _contents(connection, uri) for _ in range(3)]
    await connection.collect(probe.target.settling)
    if watched and not connection.messages(_UPDATED):
        # Resources often change because a tool is called.
        await call_all(probe, connection)
        await connection.collect(probe.target.settling)
    changed = [uri for uri in watched if await _has_changed(connection, uri, watched[uri])]
    if changed and not connection.messages(_UPDATED):
        await connection.collect(probe.target.settling)
    updates = connection.messages(_UPDATED)
    # The monitor reports updates without a uri, or with another one.
    if any(isinstance(each.get("params"), dict) for each in updates):
        probe.passes(_SENT)
    if changed and not updates and is_listening(connection):
        probe.fail(_SENT, f"sends no update although {changed[0]!r} changed")
    why = "no resource with a subscription changed during the check"
    probe.skip((_SENT, *_OF_UPDATES), why)
    for uri in watched:
        await connection.ask(_UNSUBSCRIBE, {"uri": uri})
    # The monitor reports updates that arrive now; over HTTP the first may have been sent before.
    since = len(connection.received)
    await connection.collect(probe.target.settling)
    if probe.facts.transport == "http" and connection.messages(_UPDATED, since):
        await connection.collect(CROSSING)


async def _contents(connection: RawConnection, uri: str) -> str:
    reply = await connection.ask(_READ, {"uri": uri})
    return _TIME.sub("", msgspec.json.encode(reply.result.get("contents")).decode())


async def _has_changed(connection: RawConnection, uri: str, before: list[str]) -> bool:
    """Return whether a resource changed, and not only because it was read."""
    is_made_by_reading = all(one != other for one, other in pairwise(before))
    return not is_made_by_reading and await _contents(connection, uri) != before[-1]


# -- prompts

_GET: Final = "prompts/get"
_PROMPT_CODES: Final = "prompts.errors.codes"
_ARGUMENTS_VALIDATED: Final = "prompts.arguments.validated"
_OF_MESSAGES: Final = (
    "prompts.get.messages-array",
    "prompts.message.role",
    "prompts.message.content",
    "prompts.message.content-type",
)
_OF_KINDS: Final = {
    "prompts.get.description": "has a description",
    "prompts.image.base64": "has an image",
    "prompts.audio.base64": "has a sound",
    "prompts.resource.members": "embeds a resource",
}


@scenario(*_OF_MESSAGES, *_OF_KINDS, needs="prompts", sends=(_GET, _COMPLETE))
async def asks_for_every_prompt(probe: Probe, connection: RawConnection) -> None:
    found = []
    for prompt in probe.facts.prompts[:_AT_MOST]:
        reference = {"type": "ref/prompt", "name": str(prompt.get("name"))}
        names = _arguments_of(prompt, only_required=True)
        arguments = await _fill_in(probe, connection, reference, names)
        found.append(
            await connection.ask(_GET, {"name": prompt.get("name"), "arguments": arguments})
        )
    if all(reply.is_error for reply in found):
        why = "no prompt accepted plain arguments" if found else "no prompt is listed"
        probe.skip(_OF_MESSAGES, why)
    for id, what in _OF_KINDS.items():
        probe.skip(id, f"no prompt in the check {what}")


@scenario(_PROMPT_CODES, _ARGUMENTS_VALIDATED, needs="prompts", sends=(_GET,))
async def sends_invalid_prompt_requests(probe: Probe, connection: RawConnection) -> None:
    reply = await connection.ask(_GET, {"name": "accord-check-no-such-prompt"})
    probe.expects(_PROMPT_CODES, reply, INVALID_PARAMS, "an unknown prompt")
    for prompt in probe.facts.prompts[:_AT_MOST]:
        if not _arguments_of(prompt, only_required=True):
            continue
        reply = await connection.ask(_GET, {"name": prompt.get("name"), "arguments": {}})
        what = f"the prompt {prompt.get('name')} without an argument that it requires"
        if probe.holds(_ARGUMENTS_VALIDATED, reply.is_error, f"answers {what} with {reply}"):
            probe.expects(_PROMPT_CODES, reply, INVALID_PARAMS, what)
    probe.skip(_ARGUMENTS_VALIDATED, "no prompt requires an argument")
    await is_alive(probe, connection, "invalid prompt requests")


def _arguments_of(prompt: Mapping[str, object], *, only_required: bool = False) -> list[str]:
    """Return the names of a prompt's arguments."""
    listed = prompt.get("arguments")
    return [
        str(each.get("name"))
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict) and (each.get("required") is True or not only_required)
    ]


# -- completion

_DECLARED: Final = "completion.capability.declared"
_COMPLETION_CODES: Final = "completion.errors.codes"
_CARE: Final = "completion.server.care"
_OF_RESULTS: Final = (
    "completion.result.values",
    "completion.result.max-100",
    "completion.result.total-and-has-more",
)
_NO_REFERENCES: Final = {
    "an unknown prompt": {"type": "ref/prompt", "name": "accord-check-no-such-prompt"},
    "a reference of an unknown type": {"type": "ref/accord-check", "name": "none"},
}


def _can_complete(facts: ServerFacts) -> bool:
    """Return whether the server may be asked; revisions without the capability allow it."""
    return facts.declares("completions") or not catalogue()[_DECLARED].holds_in(facts.revision)


def _cannot_complete(facts: ServerFacts) -> str | None:
    if not _can_complete(facts):
        return "the server did not declare completions"
    return None if _references(facts) else "no prompt or template has anything to complete"


def _references(facts: ServerFacts) -> list[tuple[dict[str, str], str]]:
    """Return pairs of a reference and the name of an argument that may be completed."""
    found = [
        ({"type": "ref/prompt", "name": str(prompt.get("name"))}, name)
        for prompt in facts.prompts
        for name in _arguments_of(prompt)
    ]
    for template in facts.templates:
        text = str(template.get("uriTemplate"))
        try:
            names = uri_template.parse(text).variables
        except ValueError:
            continue
        found += [({"type": "ref/resource", "uri": text}, name) for name in names]
    return found


async def _complete(
    connection: RawConnection,
    reference: Mapping[str, str],
    name: str,
    value: str = "",
    known: Mapping[str, str] | None = None,
) -> Reply:
    """Ask for suggestions for an argument."""
    params: JsonObject = {"ref": reference, "argument": {"name": name, "value": value}}
    if known:
        params["context"] = {"arguments": dict(known)}
    return await connection.ask(_COMPLETE, params)


def _suggestions(reply: Reply) -> list[str]:
    completion = reply.result.get("completion")
    values = completion.get("values") if isinstance(completion, dict) else None
    return [each for each in values if isinstance(each, str)] if isinstance(values, list) else []


async def _fill_in(
    probe: Probe, connection: RawConnection, reference: dict[str, str], names: Iterable[str]
) -> dict[str, str]:
    """Return values for arguments: suggestions of the server, or plain text."""
    has_context = catalogue()["completion.request.context"].holds_in(probe.revision)
    values: dict[str, str] = {}
    for name in names:
        found: list[str] = []
        if _can_complete(probe.facts):
            known = values if has_context else None
            found = _suggestions(await _complete(connection, reference, name, known=known))
        values[name] = found[0] if found else "1"
    return values


@scenario(*_OF_RESULTS, _CARE, when=_cannot_complete, sends=(_COMPLETE,))
async def completes_arguments(probe: Probe, connection: RawConnection) -> None:
    for reference, name in _references(probe.facts)[:_AT_MOST]:
        reply = await _complete(connection, reference, name)
        if reply.code == METHOD_NOT_FOUND and not probe.facts.declares("completions"):
            probe.not_applicable((*_OF_RESULTS, _CARE), "the server completes nothing")
            return
        for value in _suggestions(reply)[:1]:
            if value in _suggestions(await _complete(connection, reference, name, value)):
                probe.passes(_CARE)
    probe.skip(_CARE, "only the server can say which values are relevant")
    probe.skip("completion.result.total-and-has-more", "no result has total or hasMore")


@bare_scenario(_DECLARED)
async def completes_without_the_capability(probe: Probe) -> None:
    if _can_complete(probe.facts):
        return
    # The request itself breaks the rules, so that only the answer is judged.
    async with probe.borrow(is_judged=False) as connection:
        for reference, name in _references(probe.facts)[:_AT_MOST]:
            if _suggestions(await _complete(connection, reference, name)):
                probe.fail(_DECLARED, "completes arguments without declaring completions")
                return
        probe.not_applicable(_DECLARED, "the server completes nothing")


@scenario(_COMPLETION_CODES, opens=UNJUDGED, needs="completions")
async def sends_invalid_completion_requests(probe: Probe, connection: RawConnection) -> None:
    tried = [
        (what, await _complete(connection, reference, "accord-check"))
        for what, reference in _NO_REFERENCES.items()
    ]
    if all(reply.code == METHOD_NOT_FOUND for _, reply in tried):
        probe.skip(_COMPLETION_CODES, f"the server does not know {_COMPLETE}")
        return
    for what, reply in tried:
        probe.expects(_COMPLETION_CODES, reply, INVALID_PARAMS, f"completion of {what}")
    await is_alive(probe, connection, "completion of unknown references")


_STABLE: Final = "pagination.cursor.stable"
_BAD: Final = "pagination.bad-cursor-32602"
_NEXT: Final = "pagination.next-cursor.optional"
# For each requirement: the capability, the method and the member of the result.
_PAGINATION_LISTS: Final = {
    "pagination.operation.tools-list": ("tools", "tools/list", "tools"),
    "pagination.operation.resources-list": ("resources", "resources/list", "resources"),
    "pagination.operation.resources-templates-list": (
        "resources",
        "resources/templates/list",
        "resourceTemplates",
    ),
    "pagination.operation.prompts-list": ("prompts", "prompts/list", "prompts"),
}
_ONE_PAGE: Final = "all entries are on one page, without a cursor"
_PAGES: Final = 200


@scenario(
    *_PAGINATION_LISTS,
    _STABLE,
    _BAD,
    _NEXT,
    when=lacks_lists,
    sends=(*LISTS.values(), "resources/templates/list"),
)
async def walks_all_pages(probe: Probe, connection: RawConnection) -> None:
    for id, (capability, method, member) in _PAGINATION_LISTS.items():
        if not probe.facts.declares(capability):
            probe.not_applicable(id, f"the server did not declare {capability}")
            continue
        first = await connection.ask(method)
        if not isinstance(first.result.get("nextCursor"), str):
            probe.skip(id, _ONE_PAGE)
            continue
        second = await _walk(probe, connection, id, method, member, first)
        if second is not None:
            await _repeat_page(probe, connection, method, member, first, second)
            await _try_unknown_cursor(probe, method)
    probe.skip((_STABLE, _BAD, _NEXT), _ONE_PAGE)


async def _walk(
    probe: Probe, connection: RawConnection, id: str, method: str, member: str, first: Reply
) -> Reply | None:
    """Follow cursors; return the second page, None if something is wrong."""
    used: list[str] = []
    second: Reply | None = None
    following: Any = first.result["nextCursor"]
    while isinstance(following, str):
        used.append(following)
        reply = await connection.ask(method, {"cursor": following})
        second = second or reply
        if reply.is_error:
            probe.fail(id, f"answers {method} with its own cursor with {reply}")
            return None
        if _entries(reply, member) and _entries(reply, member) == _entries(first, member):
            probe.fail(id, f"answers {method} with its own cursor with the first page again")
            return None
        following = reply.result.get("nextCursor")
        if following in used or len(used) > _PAGES:
            probe.fail(id, f"never ends {method}: the cursor {following!r:.80} is repeated")
            return None
    probe.passes(id)
    return second


async def _repeat_page(
    probe: Probe,
    connection: RawConnection,
    method: str,
    member: str,
    first: Reply,
    before: Reply,
) -> None:
    params = {"cursor": first.result["nextCursor"]}
    was_filled = bool(_entries(before, member))
    # Lists may change in between: only a second difference counts.
    for _ in range(3):
        after = await connection.ask(method, params)
        if after.result.get(member) == before.result.get(member) and not after.is_error:
            break
        before, earlier = after, before
    else:
        why = f"answers {method} with the same cursor first {earlier}, then {after}"
        probe.fail(_STABLE, why)
        return
    # A list that shrank has no more pages.
    is_spent = was_filled and after.result.get(member) == []
    if is_spent:
        is_spent = "nextCursor" in (await connection.ask(method)).result
    why = f"answers {method} with nothing when a cursor is used again"
    probe.holds(_STABLE, not is_spent, why)


def _entries(page: Reply, member: str) -> list[Any]:
    """Return the entries of a page; none if it has no list."""
    entries = page.result.get(member)
    return entries if isinstance(entries, list) else []


async def _try_unknown_cursor(probe: Probe, method: str) -> None:
    async with probe.borrow(is_judged=False) as connection:
        reply = await connection.ask(method, {"cursor": "accord-check-no-such-cursor"})
        probe.expects(_BAD, reply, INVALID_PARAMS, f"{method} with a made-up cursor")
        await is_alive(probe, connection, "a made-up cursor")
