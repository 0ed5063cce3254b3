"""Resources, prompts and completions of every kind."""

import asyncio
from typing import Any, Literal

from accord import Context, Server, ToolError, types
from accord.errors import ResourceNotFound
from accord.server import Audio, Image

PIXEL = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
SOUND = b"RIFF\0\0\0\0WAVE"
CITIES = [f"city {number:03}" for number in range(250)]


def make() -> Server[Any]:
    server = Server("content", page_size=50)
    notes = {"today": "buy milk", "a/b": "nested"}

    # -- resources

    @server.resource(
        "note://index",
        title="Index",
        mime_type="text/markdown",
        annotations=types.Annotations(audience=["user"], priority=1.0),
        size=9,
        meta={"org.example/shelf": 3},
    )
    def index() -> str:
        """All notes."""
        return "# Notes\n\n"

    @server.resource("blob://pixel", mime_type="image/png")
    async def pixel() -> bytes:
        """One pixel."""
        return PIXEL

    @server.resource("json://config")
    def config() -> dict[str, int]:
        """Settings."""
        return {"depth": 3}

    @server.resource("many://parts")
    def parts() -> list[types.ResourceContents]:
        """Several contents."""
        return [
            types.ResourceContents("many://parts/1", mime_type="text/plain", text="one"),
            types.ResourceContents("many://parts/2", mime_type="text/plain", text="two"),
        ]

    @server.resource("broken://file")
    def broken() -> str:
        """Fails by mistake."""
        raise OSError("/etc/secret is not readable")

    @server.resource("closed://door")
    def closed() -> str:
        """Fails in a way that the caller should read."""
        raise ToolError("closed on Sundays")

    @server.resource("note://{name}", mime_type="text/plain", allow_path_escapes=True)
    async def note(name: str, ctx: Context) -> str:
        """One note."""
        if name not in notes:
            raise ResourceNotFound(f"no note {name}", data={"uri": f"note://{name}"})
        return f"{notes[name]} ({ctx.method})"

    @server.resource("file://{+path}", mime_type="text/plain")
    def path(path: str) -> str:
        """A path that spans segments."""
        return path

    @server.resource("page://{number}{?lang}")
    def page(number: int, lang: str = "en") -> str:
        """A page in a language."""
        return f"page {number + 0} in {lang}"

    # -- prompts

    @server.prompt(title="Greeting")
    def greet(name: str, style: Literal["formal", "casual"] = "casual") -> str:
        """Greet a person.

        Args:
            name: the person
            style: how
        """
        return f"Please greet {name} in a {style} way."

    @server.prompt
    async def dialogue(topic: str) -> list[Any]:
        """A dialogue with every kind of content.

        Args:
            topic: what about
        """
        return [
            f"Tell me about {topic}",
            ("assistant", "With pleasure."),
            Image(PIXEL).content(),
            Audio(SOUND).content(),
            types.EmbeddedResource(
                types.ResourceContents("note://today", mime_type="text/plain", text="buy milk")
            ),
        ]

    @server.prompt
    def repeat(times: int) -> str:
        """Takes a number.

        Args:
            times: how often
        """
        return "again " * times

    @server.prompt
    def travel(country: str, city: str) -> str:
        """Plan a journey.

        Args:
            country: where
            city: to which place
        """
        return f"Plan a journey to {city}, {country}."

    @server.prompt
    def sad() -> str:
        """Fails by mistake."""
        raise OSError("/etc/secret is not readable")

    # -- completion

    server.add_completion("travel", "country", ["Finland", "France", "Germany"])

    @server.completion("travel", "city")
    async def city(typed: str, known: dict[str, str]) -> list[str]:
        await asyncio.sleep(0)
        if known.get("country") == "Germany":
            return ["Berlin", "Bonn"]
        return [each for each in CITIES if each.startswith(typed)]

    @server.completion("note://{name}", "name")
    def name(typed: str) -> list[str]:
        return [each for each in notes if each.startswith(typed)]

    # -- what changes

    @server.tool
    async def change(uri: str) -> str:
        """Change a resource, twice.

        Args:
            uri: which one
        """
        server.resource_updated(uri)
        server.resource_updated(uri)
        return "changed"

    @server.tool
    def change_in_thread(uri: str) -> str:
        """Change a resource from a thread.

        Args:
            uri: which one
        """
        server.resource_updated(uri)
        return "changed"

    @server.tool
    async def burst() -> str:
        """Change all lists at once, several times."""
        for number in range(5):
            server.add_tool(lambda: "new", name=f"new_{number}", description="New.")
            server.add_prompt(lambda: "new", name=f"new_{number}", description="New.")
            server.add_resource(f"new://{number}", lambda: "new", name=f"new_{number}")
        server.tool_entries.remove("new_0")
        server.tool_entries.disable("new_1")
        return "grown"

    return server


def make_long() -> Server[Any]:
    """Lists that need three pages each."""
    server = Server("long", page_size=10)
    for number in range(25):
        server.add_tool(lambda: "x", name=f"tool_{number}", description="One of many.")
        server.add_prompt(lambda: "x", name=f"prompt_{number}", description="One of many.")
        server.add_resource(f"res://{number}", lambda: "x", name=f"resource {number}")
        server.add_resource(f"res{number}://{{a}}", lambda a: a, name=f"template {number}")
    return server
