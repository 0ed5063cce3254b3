"""Prompts: each is asked for with plain arguments, without those it needs, and by a wrong name."""

from typing import TYPE_CHECKING, Any, Final

from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._asking import is_alive
from accord.check.scenarios.server.completion import arguments_of, suggestions
from accord.protocol.jsonrpc import INVALID_PARAMS

if TYPE_CHECKING:
    from accord.check.probing.probe import Probe
    from accord.check.probing.raw_connection import RawConnection

__all__: list[str] = []

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
async def asks_for_every_prompt(probe: "Probe") -> None:
    async with probe.borrow() as line:
        found = [
            await line.ask(
                _GET, {"name": prompt.get("name"), "arguments": await _plain(probe, line, prompt)}
            )
            for prompt in probe.facts.prompts[:_GOT_AT_MOST]
        ]
        if all(reply.is_error for reply in found):
            for id in _OF_MESSAGES:
                probe.skip(id, "no prompt took plain arguments" if found else "no prompt is listed")
        for id, what in _OF_KINDS.items():
            probe.skip(id, f"no prompt that was asked for {what}")


async def _plain(probe: "Probe", line: "RawConnection", prompt: dict[str, Any]) -> dict[str, str]:
    """Return arguments for a prompt: what the server suggests, else plain text."""
    made: dict[str, str] = {}
    for name in arguments_of(prompt, only_required=True):
        reference = {"type": "ref/prompt", "name": str(prompt.get("name"))}
        found = await suggestions(probe, line, reference, name, made)
        made[name] = found[0] if found else "1"
    return made


@scenario(_CODES, _VALIDATED, needs="prompts")
async def asks_for_prompts_wrongly(probe: "Probe") -> None:
    async with probe.borrow() as line:
        reply = await line.ask(_GET, {"name": "accord-check-no-such-prompt"})
        probe.holds(
            _CODES,
            reply.code == INVALID_PARAMS,
            f"answers an unknown prompt with {reply}, expected error -32602",
        )
        for prompt in probe.facts.prompts[:_GOT_AT_MOST]:
            if not arguments_of(prompt, only_required=True):
                continue
            reply = await line.ask(_GET, {"name": prompt.get("name"), "arguments": {}})
            what = f"the prompt {prompt.get('name')} without an argument that it requires"
            if probe.holds(_VALIDATED, reply.is_error, f"answers {what} with {reply}"):
                probe.holds(
                    _CODES,
                    reply.code == INVALID_PARAMS,
                    f"answers {what} with {reply}, expected error -32602",
                )
        probe.skip(_VALIDATED, "no prompt requires an argument")
        await is_alive(probe, line, "prompts that were asked for wrongly")
