"""Prompts, and completion of their arguments."""

from collections.abc import Mapping
from typing import Final

from accord.check.probing.probe import Probe
from accord.check.probing.raw_connection import RawConnection
from accord.check.probing.server_facts import ServerFacts
from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._requests import is_alive
from accord.protocol import uri_template
from accord.protocol.catalogue import catalogue
from accord.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from accord.types import JsonObject

_GET: Final = "prompts/get"
_CODES: Final = "prompts.errors.codes"
_VALIDATED: Final = "prompts.arguments.validated"
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
_GOT_AT_MOST: Final = 10


@scenario(*_OF_MESSAGES, *_OF_KINDS, needs="prompts")
async def asks_for_every_prompt(probe: Probe) -> None:
    async with probe.borrow() as connection:
        found = [
            await connection.ask(
                _GET,
                {"name": prompt.get("name"), "arguments": await _plain(probe, connection, prompt)},
            )
            for prompt in probe.facts.prompts[:_GOT_AT_MOST]
        ]
        if all(reply.is_error for reply in found):
            for id in _OF_MESSAGES:
                probe.skip(
                    id, "no prompt accepted plain arguments" if found else "no prompt is listed"
                )
        for id, what in _OF_KINDS.items():
            probe.skip(id, f"no prompt in the check {what}")


async def _plain(probe: Probe, connection: RawConnection, prompt: JsonObject) -> dict[str, str]:
    """Return arguments for a prompt: suggestions of the server, or plain text."""
    made: dict[str, str] = {}
    for name in arguments_of(prompt, only_required=True):
        reference = {"type": "ref/prompt", "name": str(prompt.get("name"))}
        found = await complete_argument(probe, connection, reference, name, made)
        made[name] = found[0] if found else "1"
    return made


@scenario(_CODES, _VALIDATED, needs="prompts")
async def sends_invalid_prompt_requests(probe: Probe) -> None:
    async with probe.borrow() as connection:
        reply = await connection.ask(_GET, {"name": "accord-check-no-such-prompt"})
        probe.holds(
            _CODES,
            reply.code == INVALID_PARAMS,
            f"answers an unknown prompt with {reply}, expected error -32602",
        )
        for prompt in probe.facts.prompts[:_GOT_AT_MOST]:
            if not arguments_of(prompt, only_required=True):
                continue
            reply = await connection.ask(_GET, {"name": prompt.get("name"), "arguments": {}})
            what = f"the prompt {prompt.get('name')} without an argument that it requires"
            if probe.holds(_VALIDATED, reply.is_error, f"answers {what} with {reply}"):
                probe.holds(
                    _CODES,
                    reply.code == INVALID_PARAMS,
                    f"answers {what} with {reply}, expected error -32602",
                )
        probe.skip(_VALIDATED, "no prompt requires an argument")
        await is_alive(probe, connection, "invalid prompt requests")


_COMPLETE: Final = "completion/complete"
_DECLARED: Final = "completion.capability.declared"
_COMPLETION_CODES: Final = "completion.errors.codes"
_CARE: Final = "completion.server.care"
_OF_RESULTS: Final = (
    "completion.result.values",
    "completion.result.max-100",
    "completion.result.total-and-has-more",
)
_ASKED_AT_MOST: Final = 10


def can_complete(facts: ServerFacts) -> bool:
    """Return whether the server may be asked; revisions without the capability allow it."""
    return facts.declares("completions") or not catalogue()[_DECLARED].holds_in(facts.revision)


def _cannot_complete(facts: ServerFacts) -> str | None:
    if not can_complete(facts):
        return "the server did not declare completions"
    return None if _references(facts) else "no prompt or template has anything to complete"


def arguments_of(prompt: Mapping[str, object], *, only_required: bool = False) -> list[str]:
    """Return the names of a prompt's arguments."""
    listed = prompt.get("arguments")
    return [
        str(each.get("name"))
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict) and (each.get("required") is True or not only_required)
    ]


def _references(facts: ServerFacts) -> list[tuple[dict[str, str], str]]:
    """Return pairs of a reference and the name of an argument that may be completed."""
    found = [
        ({"type": "ref/prompt", "name": str(prompt.get("name"))}, name)
        for prompt in facts.prompts
        for name in arguments_of(prompt)
    ]
    for template in facts.templates:
        text = str(template.get("uriTemplate"))
        try:
            names = uri_template.parse(text).variables
        except ValueError:
            continue
        found += [({"type": "ref/resource", "uri": text}, name) for name in names]
    return found


async def complete_argument(
    probe: Probe,
    connection: RawConnection,
    reference: dict[str, str],
    name: str,
    known: Mapping[str, str],
) -> list[str]:
    """Return the server's suggestions for an argument."""
    if not can_complete(probe.facts):
        return []
    params: JsonObject = {"ref": reference, "argument": {"name": name, "value": ""}}
    if known and catalogue()["completion.request.context"].holds_in(probe.revision):
        params["context"] = {"arguments": dict(known)}
    reply = await connection.ask(_COMPLETE, params)
    completion = reply.result.get("completion")
    values = completion.get("values") if isinstance(completion, dict) else None
    return [each for each in values if isinstance(each, str)] if isinstance(values, list) else []


@scenario(*_OF_RESULTS, _CARE, when=_cannot_complete)
async def completes_arguments(probe: Probe) -> None:
    async with probe.borrow() as connection:
        for reference, name in _references(probe.facts)[:_ASKED_AT_MOST]:
            argument = {"name": name, "value": ""}
            reply = await connection.ask(_COMPLETE, {"ref": reference, "argument": argument})
            if reply.code == METHOD_NOT_FOUND and not probe.facts.declares("completions"):
                for id in (*_OF_RESULTS, _CARE):
                    probe.not_applicable(id, "the server completes nothing")
                return
            values = (reply.result.get("completion") or {}).get("values")
            for value in (values if isinstance(values, list) else ())[:1]:
                params = {"ref": reference, "argument": {"name": name, "value": value}}
                again = await connection.ask(_COMPLETE, params)
                if value in ((again.result.get("completion") or {}).get("values") or ()):
                    probe.holds(_CARE, condition=True, why="")
        probe.skip(_CARE, "only the server can say which values are relevant")
        probe.skip("completion.result.total-and-has-more", "no result has total or hasMore")


@scenario(_DECLARED)
async def completes_without_the_capability(probe: Probe) -> None:
    if can_complete(probe.facts):
        return
    # The request itself breaks the rules, so that only the answer is judged.
    async with probe.borrow(is_judged=False) as connection:
        for reference, name in _references(probe.facts)[:_ASKED_AT_MOST]:
            params = {"ref": reference, "argument": {"name": name, "value": ""}}
            reply = await connection.ask(_COMPLETE, params)
            if (reply.result.get("completion") or {}).get("values"):
                probe.fail(_DECLARED, "completes arguments without declaring completions")
                return
        probe.not_applicable(_DECLARED, "the server completes nothing")


@scenario(_COMPLETION_CODES, needs="completions")
async def sends_invalid_completion_requests(probe: Probe) -> None:
    async with probe.borrow(is_judged=False) as connection:
        argument = {"name": "accord-check", "value": ""}
        for what, reference in (
            ("an unknown prompt", {"type": "ref/prompt", "name": "accord-check-no-such-prompt"}),
            ("a reference of an unknown type", {"type": "ref/accord-check", "name": "none"}),
        ):
            reply = await connection.ask(_COMPLETE, {"ref": reference, "argument": argument})
            probe.holds(
                _COMPLETION_CODES,
                reply.code == INVALID_PARAMS,
                f"answers completion of {what} with {reply}, expected error -32602",
            )
        await is_alive(probe, connection, "completion of unknown references")
