"""A server with one of each kind, for the tests of the inspector."""

from typing import TypedDict

from accord import Server, types

READ_ONLY = types.ToolAnnotations(read_only_hint=True)


class Sum(TypedDict):
    value: float
    note: str | None


def make_server() -> Server:
    made = Server("small", version="1.2.3")

    @made.tool(annotations=READ_ONLY)
    def add(a: float, b: float) -> Sum:
        """Add two numbers."""
        return {"value": a + b, "note": None}

    @made.tool(annotations=READ_ONLY)
    def echo(text: str, password: str = "") -> str:
        """Repeat a text | with *signs*."""
        return f"{text}!"

    @made.tool
    def fail(why: str) -> str:
        """Fail."""
        raise ValueError(why)

    @made.resource("note://today")
    def today() -> str:
        """What is on today."""
        return "nothing"

    @made.prompt
    def greet(name: str) -> str:
        """Greet a person."""
        return f"Say hello to {name}."

    return made


server = make_server()
