"""Prompts: their arguments, errors in given ones, and the messages of returned values."""

import functools
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from accord.errors import InvalidParams, RegistrationError
from accord.server.entries.prompts import PromptEntry, build_messages, build_prompt, unknown_prompt
from accord.server.media import Audio, Image
from accord.server.schema.signature import inspect
from accord.types import (
    AudioContent,
    EmbeddedResource,
    GetPromptResult,
    Icon,
    ImageContent,
    Prompt,
    PromptArgument,
    PromptMessage,
    ResourceContents,
    ResourceLink,
    TextContent,
)
from support.tables import cases


class Context: ...


def entry(function: Callable[..., Any], **details: Any) -> PromptEntry:
    return build_prompt(function, signature=inspect(function, context_type=Context), **details)


def review(
    ctx: Context, code: str, tone: Literal["kind", "harsh"] = "kind", lines: int = 10
) -> str:
    """Review some code.

    Args:
        ctx: not an argument.
        code: what to review.
        tone: how to say it.
        lines: at most so many.
    """
    return f"{tone} {lines}: {code}"


# -- what is listed


@pytest.mark.requirement(
    "prompts.item.name", "prompts.item.description-and-arguments", "prompts.argument.fields"
)
def test_a_prompt_is_described_by_its_function() -> None:
    made = entry(review)
    assert made.key == "review"
    assert made.item == Prompt(
        name="review",
        description="Review some code.",
        arguments=[
            PromptArgument("code", description="what to review.", required=True),
            PromptArgument("tone", description="how to say it.", required=False),
            PromptArgument("lines", description="at most so many.", required=False),
        ],
    )


@pytest.mark.requirement("prompts.item.title")
def test_all_details_of_a_prompt_are_listed() -> None:
    icon = Icon("https://example.com/i.png")
    made = entry(lambda: "", name="n", title="T", description="D", icons=[icon], meta={"a/b": 1})
    assert made.item == Prompt(name="n", title="T", description="D", icons=[icon], meta={"a/b": 1})


def test_a_prompt_without_arguments_lists_none() -> None:
    def hello() -> str:
        return "hello"

    assert entry(hello).item.arguments is None
    assert msgspec.json.encode(entry(hello).item) == b'{"name":"hello"}'


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(RegistrationError, match="has no name; give name="):
        entry(lambda: "")


def test_anything_callable_can_be_a_prompt() -> None:
    class Greeter:
        def greet(self, name: str) -> str:
            return name

    assert entry(Greeter().greet).key == "greet"
    partial = entry(functools.partial(review, tone="harsh"))
    assert partial.key == "review"
    assert [argument.name for argument in partial.item.arguments or ()] == ["code", "lines"]


# -- arguments


def call(made: PromptEntry, given: dict[str, str]) -> Any:
    return made.signature.call(made.function, made.bind(given), Context())


def test_texts_become_arguments_of_their_types() -> None:
    made = entry(review)
    assert call(made, {"code": "x"}) == "kind 10: x"
    assert call(made, {"code": "x", "tone": "harsh", "lines": "3"}) == "harsh 3: x"


@pytest.mark.requirement("prompts.errors.codes", "prompts.arguments.validated")
def test_missing_arguments_are_named() -> None:
    def pair(first: str, second: str, third: str = "") -> str:
        return ""

    with pytest.raises(InvalidParams) as caught:
        entry(pair).bind({"third": "x"})
    assert caught.value.code == -32602
    assert caught.value.message == "prompt 'pair' lacks arguments 'first', 'second'"
    assert caught.value.data == {"missing": ["first", "second"]}
    with pytest.raises(InvalidParams, match="prompt 'pair' lacks argument 'second'"):
        entry(pair).bind({"first": "x"})


@pytest.mark.requirement("prompts.arguments.validated")
@cases(
    ("given", "why"),
    [
        (
            {"code": "x", "tune": "kind"},
            "takes arguments 'code', 'tone', 'lines', but got argument",
        ),
        ({"code": "x", "tone": "loud"}, "prompt 'review': argument \"tone\""),
        ({"code": "x", "lines": "many"}, "prompt 'review': argument \"lines\""),
        ({"code": "x", "ctx": "x"}, "but got argument 'ctx'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(given: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        entry(review).bind(given)
    assert why in caught.value.message
    assert caught.value.code == -32602


def test_a_prompt_without_arguments_says_so() -> None:
    def hello() -> str:
        return "hello"

    with pytest.raises(InvalidParams, match="takes no arguments, but got argument 'x'"):
        entry(hello).bind({"x": "1"})


def test_endless_arguments_are_not_repeated_in_the_message() -> None:
    given = {"code": "x"} | {f"{at}" * 10_000: "x" for at in range(100)}
    with pytest.raises(InvalidParams) as caught:
        entry(review).bind(given)
    assert len(caught.value.message) < 2000


@pytest.mark.requirement("prompts.errors.codes")
def test_an_unknown_prompt_is_invalid() -> None:
    error = unknown_prompt("gone")
    assert (error.code, error.message) == (-32602, "unknown prompt 'gone'")
    assert error.data == {"name": "gone"}
    assert len(unknown_prompt("x" * 10_000).message) < 200


# -- what a function returned

TEXT = TextContent("a")
IMAGE = ImageContent("AAAA", "image/png")
AUDIO = AudioContent("AAAA", "audio/wav")
LINK = ResourceLink(uri="x://a", name="a")
CONTENTS = ResourceContents(uri="x://a", text="a")
EMBEDDED = EmbeddedResource(CONTENTS)
PNG = b"\x89PNG"


def user(content: Any) -> PromptMessage:
    return PromptMessage("user", content)


def assistant(content: Any) -> PromptMessage:
    return PromptMessage("assistant", content)


@pytest.mark.requirement(
    "prompts.get.messages-array",
    "prompts.message.role",
    "prompts.message.content",
    "prompts.message.content-type",
)
@cases(
    ("value", "expected"),
    [
        ("a", [user(TEXT)]),
        ("", [user(TextContent(""))]),
        ([], []),
        (["a", "b"], [user(TEXT), user(TextContent("b"))]),
        (("a", "b"), [user(TEXT), user(TextContent("b"))]),
        (("user", "a"), [user(TEXT)]),
        (("user", "a", "a"), [user(TextContent("user")), user(TEXT), user(TEXT)]),
        ((TEXT, IMAGE), [user(TEXT), user(IMAGE)]),
        (("assistant", "a"), [assistant(TEXT)]),
        (("assistant", IMAGE), [assistant(IMAGE)]),
        (("assistant", ["a", IMAGE]), [assistant(TEXT), assistant(IMAGE)]),
        ([("user", "a"), ("assistant", "a"), "a"], [user(TEXT), assistant(TEXT), user(TEXT)]),
        (["user", "a"], [user(TextContent("user")), user(TEXT)]),
        ((("user", "a"), ("assistant", "a")), [user(TEXT), assistant(TEXT)]),
        (assistant(TEXT), [assistant(TEXT)]),
        ([assistant(TEXT), user(IMAGE)], [assistant(TEXT), user(IMAGE)]),
        (TEXT, [user(TEXT)]),
        (IMAGE, [user(IMAGE)]),
        (AUDIO, [user(AUDIO)]),
        (LINK, [user(LINK)]),
        (EMBEDDED, [user(EMBEDDED)]),
        (CONTENTS, [user(EMBEDDED)]),
        (Image(PNG), [user(Image(PNG).content())]),
        (("user", Audio(b"ID3")), [user(Audio(b"ID3").content())]),
        ([TEXT, IMAGE, "a"], [user(TEXT), user(IMAGE), user(TEXT)]),
        ({"role": "assistant", "content": "a"}, [assistant(TEXT)]),
        ([{"role": "user", "content": {"type": "text", "text": "a"}}], [user(TEXT)]),
        ([{"role": "user", "content": IMAGE}], [user(IMAGE)]),
    ],
)
def test_values_become_messages(value: object, expected: list[PromptMessage]) -> None:
    assert build_messages(value) == GetPromptResult(expected)


@cases(
    ("value", "why"),
    [
        (None, "cannot be made of a NoneType"),
        (7, "cannot be made of a int"),
        (b"a", "cannot be made of a bytes"),
        ([["a"]], "cannot be made of a list"),
        (["a", 7], "cannot be made of a int"),
        ([("system", "a")], "cannot be made of a tuple"),
        ({"a": 1}, "cannot be made of a dict"),
        ({"role": "system", "content": "a"}, "a message is malformed: "),
        ({"role": "user", "content": {"type": "x"}}, "a message is malformed: "),
        ({"role": "user"}, "a message is malformed: "),
        (("user", 7), "cannot be made of a int"),
    ],
)
def test_other_values_are_refused_with_what_is_possible(value: object, why: str) -> None:
    with pytest.raises(TypeError) as caught:
        build_messages(value)
    assert why in str(caught.value)


@pytest.mark.requirement("prompts.get.description")
def test_the_result_has_the_description_of_the_prompt_unless_it_has_its_own() -> None:
    made = entry(review)
    assert made.messages("a") == GetPromptResult([user(TEXT)], description="Review some code.")
    own = GetPromptResult([user(TEXT)], description="own", meta={"a/b": 1})
    assert made.messages(own) is own
    assert entry(lambda: "", name="n").messages("a").description is None


def test_the_error_for_an_invalid_message_names_the_prompt() -> None:
    with pytest.raises(TypeError, match="prompt 'review': a message cannot be made of a int"):
        entry(review).messages(7)


class Colour(Enum):
    RED = "red"


def test_descriptions_from_annotations_are_listed() -> None:
    def paint(colour: Annotated[Colour, msgspec.Meta(description="which one")]) -> str:
        return colour.name

    made = entry(paint)
    (argument,) = made.item.arguments or ()
    assert argument.description == "which one"
    assert call(made, {"colour": "red"}) == "RED"
