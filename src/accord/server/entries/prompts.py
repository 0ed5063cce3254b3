"""Prompts: their arguments, and the messages that their functions return."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Unpack, get_args

import msgspec

from accord.errors import InvalidParams, ToolError
from accord.protocol.exchange import Exchange
from accord.server.access import parse_scopes, parse_tags
from accord.server.entries.entry import EntryKind, FunctionEntry, call_user
from accord.server.media import content_block
from accord.server.schema.signature import BoundArguments, Signature
from accord.server.settings import EntryDetails, check_details, check_name
from accord.types import (
    ContentBlock,
    GetPromptParams,
    GetPromptResult,
    JsonObject,
    Prompt,
    PromptArgument,
    PromptMessage,
    Role,
    TextContent,
)

if TYPE_CHECKING:
    from accord.server.context import Context
    from accord.server.session import Session

_ROLES: Final = get_args(Role)
_SHOWN: Final = 100


class PromptDetails(EntryDetails, total=False):
    """Details of a prompt; name and description default to the function's."""


class PromptEntry(FunctionEntry, frozen=True, kw_only=True):
    """A registered prompt."""

    kind: EntryKind = "prompts"
    item: Prompt

    @property
    def arguments(self) -> Iterable[str]:
        return [argument.name for argument in self.item.arguments or ()]

    def answer(
        self,
        session: "Session",
        exchange: Exchange,
        params: GetPromptParams,
        context: "Context[Any] | None" = None,
    ) -> Awaitable[GetPromptResult]:
        bound = self.bind(params.arguments or {})
        exchange.state = f"prompt {self.key}"
        context = context or session.context(exchange, params)
        return call_user(session, context, self, bound, self.messages)

    def bind(self, given: Mapping[str, str]) -> BoundArguments:
        """Convert the texts that a client sent into arguments.

        Raises:
            InvalidParams: one is missing, unknown or does not fit its parameter.
        """
        known = {argument.name: argument.required for argument in self.item.arguments or ()}
        missing = [name for name, required in known.items() if required and name not in given]
        if missing:
            raise InvalidParams(
                f"prompt {self.key!r} lacks {_format_names(missing)}", data={"missing": missing}
            )
        extra = [name for name in given if name not in known]
        if extra:
            takes = _format_names(known) if known else "no arguments"
            shown = _format_names([name[:_SHOWN] for name in extra[:10]])
            raise InvalidParams(f"prompt {self.key!r} takes {takes}, but got {shown}")
        try:
            return self.signature.bind_strings(given)
        except ToolError as error:
            raise InvalidParams(f"prompt {self.key!r}: {error}") from None

    def messages(self, value: object) -> GetPromptResult:
        """Convert the value that the function returned into a result; see `build_messages`."""
        try:
            result = build_messages(value)
        except TypeError as error:
            raise TypeError(f"prompt {self.key!r}: {error}") from error
        if result.description is None and self.item.description is not None:
            result = msgspec.structs.replace(result, description=self.item.description)
        return result


def build_prompt(
    function: Callable[..., object], *, signature: Signature, **details: Unpack[PromptDetails]
) -> PromptEntry:
    """Return the entry of a function that fills in a prompt.

    Args:
        function: called with the arguments.
        signature: that of the function; its parameters are the arguments.
        details: what clients see, and access.

    Raises:
        RegistrationError: the prompt would have no name.
    """
    listed: JsonObject = {
        "name": signature.name,
        "description": signature.description,
        **check_details("prompt()", details, PromptDetails),
    }
    scopes = parse_scopes(listed.pop("scopes", ()))
    tags = parse_tags(listed.pop("tags", ()))
    listed.pop("replace", None)
    name = check_name(listed["name"], "prompt", function)
    arguments = [
        PromptArgument(
            name=parameter.name, description=parameter.description, required=parameter.required
        )
        for parameter in signature.parameters
    ]
    item = Prompt(arguments=arguments or None, **listed)
    return PromptEntry(
        key=name, function=function, signature=signature, item=item, scopes=scopes, tags=tags
    )


def unknown_prompt(name: str) -> InvalidParams:
    """Return the error for a prompt that does not exist."""  # prompts.errors.codes
    shown = name if len(name) <= _SHOWN else name[:_SHOWN] + "..."
    return InvalidParams(f"unknown prompt {shown!r}", data={"name": name})


def _format_names(names: Iterable[str]) -> str:
    names = list(names)
    return f"argument{'s' * (len(names) > 1)} {', '.join(repr(name) for name in names)}"


# -- messages


def build_messages(value: object) -> GetPromptResult:
    """Convert the value that the function of a prompt returned into a result.

    Text and content blocks become messages of the user. A pair of role and content is a message of
    that role, and so is a mapping with these two members. A list holds any of these.

    Raises:
        TypeError: the value, or one in the list, is of another type.
    """
    if isinstance(value, GetPromptResult):
        return value
    return GetPromptResult(list(_messages(value)))


def _messages(value: object) -> Iterator[PromptMessage]:
    if isinstance(value, list) or (isinstance(value, tuple) and not _is_pair(value)):
        for part in value:
            yield from _message(part)
    else:
        yield from _message(value)


def _message(value: object) -> Iterator[PromptMessage]:
    if isinstance(value, PromptMessage):
        yield value
    elif isinstance(value, tuple) and _is_pair(value):
        role, content = value
        for part in content if isinstance(content, list) else [content]:
            yield PromptMessage(role, _block(part))
    elif isinstance(value, Mapping) and "role" in value:
        yield _from_mapping(value)
    else:
        yield PromptMessage("user", _block(value))


def _is_pair(value: tuple[object, ...]) -> bool:
    return len(value) == 2 and isinstance(value[0], str) and value[0] in _ROLES


def _from_mapping(value: Mapping[str, object]) -> PromptMessage:
    content = value.get("content")
    if isinstance(content, str):
        content = TextContent(content)
    try:
        return msgspec.convert({**value, "content": content}, PromptMessage)
    except msgspec.ValidationError as error:
        raise TypeError(f"a message is malformed: {error}") from None


def _block(value: object) -> ContentBlock:
    block = content_block(value)
    if block is not None:
        return block
    raise TypeError(
        f"a message cannot be made of a {type(value).__name__}; expected text, a content block, "
        "PromptMessage, a pair of role ('user' or 'assistant') and content, or a list of these"
    )
