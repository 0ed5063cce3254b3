"""Handlers behind decorators: the wrapper gets the arguments as it takes them."""

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

from accord import Context, Depends, Server, connect
from accord.types import CallToolResult, PromptReference, ResourceContents, TextContent
from support.tables import cases
from support.waiting import run


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(**kwargs)

    return wrapper


def logged_without_positions(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(**kwargs: Any) -> Any:
        return function(**kwargs)

    return wrapper


def logged_async(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(**kwargs: Any) -> Any:
        await asyncio.sleep(0)
        found = function(**kwargs)
        return await found if asyncio.iscoroutine(found) else found

    return wrapper


def logged_by_position(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def logged_with_context(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(context: Context[Any], *args: Any, **kwargs: Any) -> Any:
        assert isinstance(context, Context)
        return function(context, *args, **kwargs)

    return wrapper


def logged_with_one_name(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, times: int) -> Any:
        return function(*args, times=times)

    return wrapper


class Logged:
    """A wrapper that is an object."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, **kwargs: Any) -> Any:
        return self._function(**kwargs)

    def as_method(self, **kwargs: Any) -> Any:
        return self._function(**kwargs)


def logged_by_method(function: Callable[..., Any]) -> Callable[..., Any]:
    # As a bound method, it has no signature of its own to hide.
    method = Logged(function).as_method
    return functools.wraps(function)(functools.partial(method))


def signed(function: Callable[..., Any]) -> Callable[..., Any]:
    """As libraries do that change the parameters."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(**kwargs)

    wrapper.__name__ = function.__name__
    wrapper.__doc__ = function.__doc__
    wrapper.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # a library may
    return wrapper


def bound_in_part(function: Callable[..., Any]) -> Callable[..., Any]:
    return functools.partial(logged(function), times=2)


WRAPPERS = [
    logged,
    logged_without_positions,
    logged_async,
    logged_by_position,
    logged_with_context,
    logged_with_one_name,
    Logged,
    logged_by_method,
    signed,
    bound_in_part,
]


@cases("is_async", [False, True], ids=["plain", "async"])
@cases("wrapper", WRAPPERS)
def test_a_tool_behind_a_wrapper_gets_its_arguments(
    wrapper: Callable[..., Any], is_async: bool
) -> None:
    def repeat(ctx: Context, text: str, times: int = 2) -> str:
        """Repeat a text."""
        assert isinstance(ctx, Context)
        return text * times

    async def repeat_later(ctx: Context, text: str, times: int = 2) -> str:
        """Repeat a text."""
        return repeat(ctx, text, times)

    server = Server("desk")
    server.add_tool(wrapper(repeat_later if is_async else repeat), name="repeat")

    async def call() -> str:
        async with connect(server) as client:
            result = await client.call_tool("repeat", {"text": "ab"})
            return text_of(result)

    assert run(call()) == "abab"


def test_parameters_that_are_positional_only_are_passed_by_position() -> None:
    def subtract(a: int, b: int, /, *, twice: bool = False) -> int:
        """Subtract."""
        return (a - b) * (2 if twice else 1)

    @functools.wraps(subtract)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return subtract(*args, **kwargs)

    server = Server("desk")
    server.add_tool(wrapper)

    async def call() -> object:
        async with connect(server) as client:
            result = await client.call_tool("subtract", {"a": 5, "b": 2, "twice": True})
            return result.structured_content

    assert run(call()) == {"result": 6}


def test_a_wrapped_tool_gets_its_dependencies() -> None:
    def name_of(text: str) -> str:
        return text.upper()

    server = Server("desk")

    @server.tool
    @logged_without_positions
    def greet(text: str, name: Annotated[str, Depends(logged_without_positions(name_of))]) -> str:
        """Greet."""
        return f"hello {text} {name}"

    async def call() -> object:
        async with connect(server) as client:
            return text_of(await client.call_tool("greet", {"text": "ab"}))

    assert run(call()) == "hello ab AB"


def test_a_wrapped_resource_prompt_and_completer_get_their_arguments() -> None:
    server = Server("desk")

    @server.resource("note://{name}")
    @logged_without_positions
    def note(name: str) -> str:
        """A note."""
        return f"note {name}"

    @server.prompt
    @logged_without_positions
    def ask(topic: str) -> str:
        """Ask."""
        return f"what is {topic}?"

    @server.completion("ask", "topic")
    @logged_without_positions
    def topics(typed: str) -> list[str]:
        return [f"{typed}!"]

    async def call() -> list[object]:
        async with connect(server) as client:
            (block,) = (await client.read_resource("note://a")).contents
            assert isinstance(block, ResourceContents)
            (message,) = (await client.get_prompt("ask", {"topic": "tea"})).messages
            assert isinstance(message.content, TextContent)
            found = await client.complete(PromptReference("ask"), "topic", "te")
            return [block.text, message.content.text, found.values]

    assert run(call()) == ["note a", "what is tea?", ["te!"]]


def test_a_wrapped_completer_of_two_parameters_gets_the_arguments_filled_in() -> None:
    server = Server("desk")

    @server.prompt
    def travel(country: str, city: str) -> str:
        """Travel."""
        return f"{country} {city}"

    @server.completion("travel", "city")
    @logged_without_positions
    def cities(typed: str, filled: dict[str, str]) -> list[str]:
        return [f"{typed} in {filled['country']}"]

    async def call() -> object:
        async with connect(server) as client:
            ref = PromptReference("travel")
            found = await client.complete(ref, "city", "O", context={"country": "NO"})
            return found.values

    assert run(call()) == ["O in NO"]
