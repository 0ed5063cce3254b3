"""A typed client: launches a server, calls it with types at both ends, answers its questions.

python examples/typed_client.py
"""

import asyncio
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from accord import ToolError, connect
from accord.types import CreateMessageParams, CreateMessageResult, ElicitParams, TextContent

SERVER = Path(__file__).with_name("everything.py")


@dataclass
class Weather:
    city: str
    celsius: float
    day: date | None = None


def choose_seat(question: ElicitParams) -> dict[str, object]:
    """Answer for the user; False would decline, None would cancel."""
    print("asked:   ", question.message)
    return {"row": 7, "side": "aisle"}


async def ask_model(question: CreateMessageParams) -> CreateMessageResult:
    """Answer for a model; a real client would call one here."""
    return CreateMessageResult("assistant", TextContent("Pack light."), model="none at all")


async def main() -> None:
    async with connect(SERVER, on_elicit=choose_seat, on_sample=ask_model) as client:
        print("server:  ", client.server_info.title, client.revision)
        print("tools:   ", *[tool.name async for tool in client.tools()])

        weather = await client.call_tool(
            "weather", {"city": "Lima", "day": date(2025, 6, 18)}, result_type=Weather
        )
        print("weather: ", weather.city, weather.celsius, weather.day)

        try:
            await client.call_tool("weather", {"city": "Atlantis"}, result_type=Weather)
        except ToolError as error:
            print("refused: ", error)

        print("booked:  ", await client.call_tool("book", {"city": "Lima"}, result_type=str))
        print("advice:  ", await client.call_tool("advise", {"city": "Lima"}, result_type=str))


if __name__ == "__main__":
    asyncio.run(main())
