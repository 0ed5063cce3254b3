"""Requests whose questions are returned to the caller instead of being answered by callbacks."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack, cast

import msgspec

from accord.client.arguments import OwnMeta, check_meta
from accord.client.options import CallOptions
from accord.errors import HeaderMismatch, LocalProtocolError
from accord.keywords import refuse_unknown
from accord.protocol import shape
from accord.protocol.exchange import META_CAPABILITIES
from accord.types import (
    CallToolParams,
    CallToolResult,
    ClientCapabilities,
    CreateMessageResult,
    ElicitResult,
    GetPromptParams,
    GetPromptResult,
    InputRequiredResult,
    ListRootsResult,
    ReadResourceParams,
    ReadResourceResult,
    TaskHandle,
)

if TYPE_CHECKING:
    from accord.client.client import Client

Answer: TypeAlias = ElicitResult | CreateMessageResult | ListRootsResult

_encode: Final = msgspec.json.Encoder().encode


class RoundOptions(CallOptions, total=False):
    """Options of one round, beside those of any call.

    `answers` are those to the questions of the last round, by their keys; `state` is the
    `request_state` that came with these. `capabilities` say which questions may be asked, if these
    are others than the callbacks of the connection answer.
    """

    answers: Mapping[str, Answer] | None
    state: str | None
    capabilities: ClientCapabilities | None


class SingleRounds:
    """Sends requests of which each is one round; `Client.rounds` describes them."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        **how: Unpack[RoundOptions],
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; return its result, or the questions that it asks before."""
        params = CallToolParams(name, msgspec.Raw(_encode(dict(arguments or {}))))
        reply: Any
        try:
            reply = await self._send("tools/call", params, how)
        except HeaderMismatch:
            # http.param-headers.mismatch-client-relists
            from accord.client.mirrored import learn_anew

            link = self._client._link
            if link.transport is None or not await learn_anew(link, name):
                raise
            reply = await self._send("tools/call", params, how)
        if isinstance(reply, TaskHandle):  # the server decided so; all questions were answered
            reply = await self._client._wait_for_task(params, reply, _options_of_call(how))
        schema = self._client._outputs.get(name)
        result: CallToolResult | InputRequiredResult = reply
        if schema is not None and isinstance(result, CallToolResult):
            schema.check(result)
        return result

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, **how: Unpack[RoundOptions]
    ) -> GetPromptResult | InputRequiredResult:
        """Fill in a prompt; return it, or the questions that it asks before."""
        filled = None if arguments is None else dict(arguments)
        reply: GetPromptResult | InputRequiredResult = await self._send(
            "prompts/get", GetPromptParams(name, filled), how
        )
        return reply

    async def read_resource(
        self, uri: str, **how: Unpack[RoundOptions]
    ) -> ReadResourceResult | InputRequiredResult:
        """Read a resource; return it, or the questions that it asks before."""
        reply: ReadResourceResult | InputRequiredResult = await self._send(
            "resources/read", ReadResourceParams(uri), how
        )
        return reply

    async def _send(self, method: str, params: Any, options: RoundOptions) -> Any:
        link = self._client._link
        revision = link.revision
        if not revision.rounds:
            raise LocalProtocolError(
                f"{method}: in revision {revision.id}, which was negotiated, servers ask while a "
                "request is under way; give callbacks, such as on_elicit"
            )
        refuse_unknown("a call", options, RoundOptions.__annotations__)
        answers = options.get("answers")
        if answers is not None:
            params.input_responses = {
                key: msgspec.Raw(_encode(shape.narrow(answer, revision.id)))
                for key, answer in answers.items()
            }
        params.request_state = options.get("state")
        how = _options_of_call(options)
        declared = options.get("capabilities")
        if declared is not None:
            meta = {META_CAPABILITIES: msgspec.to_builtins(shape.narrow(declared, revision.id))}
            how["meta"] = OwnMeta({**check_meta(how.get("meta") or {}), **meta})
        return await link.ask(method, params, how, answers=False)


def _options_of_call(options: RoundOptions) -> CallOptions:
    """Return the options that calls without rounds have, too."""
    names = CallOptions.__annotations__
    return cast("CallOptions", {name: options[name] for name in names if name in options})  # type: ignore[literal-required]  # names of the same type
