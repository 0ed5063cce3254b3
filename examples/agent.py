"""An agent over the servers of an mcp.json: a model asks for tools, whose results go back to it.

    python examples/agent.py                                     two examples, a scripted model
    python examples/agent.py --config mcp.json "What is new?"    your servers

The model is one behind an API for chat completions if LLM_URL is set, with LLM_MODEL and
LLM_API_KEY; without it a script plays the model, so that this runs offline.
"""

import argparse
import asyncio
import json
import os
import re
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from accord import connect_all
from accord.client import ClientGroup
from accord.errors import AccordError
from accord.types import TextContent

Message = dict[str, Any]
Model = Callable[[list[Message], list[Message]], Awaitable[Message]]

HERE = Path(__file__).parent
SERVERS = {"adder": HERE / "ten_lines.py", "travel": HERE / "everything.py"}
QUESTION = "What is 19 + 23, and how is the weather in Lima?"
TURNS = 20


# -- models


async def ask_api(messages: list[Message], tools: list[Message]) -> Message:
    """Ask a model behind an API for chat completions."""
    body = {"model": os.environ.get("LLM_MODEL", ""), "messages": messages, "tools": tools}
    request = urllib.request.Request(  # noqa: S310  # the user's own setting
        os.environ["LLM_URL"],
        json.dumps(body).encode(),
        {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {os.environ.get('LLM_API_KEY', '')}",
        },
    )

    def send() -> Message:
        with urllib.request.urlopen(request, timeout=300) as response:  # noqa: S310
            message: Message = json.load(response)["choices"][0]["message"]
            return message

    return await asyncio.to_thread(send)


async def play_script(messages: list[Message], tools: list[Message]) -> Message:
    """Play a model that calls two tools, one of them by a wrong name first, and sums up."""
    script = [
        ("adder__add", {"a": 19, "b": 23}),
        ("weather", {"city": "Lima"}),
        ("travel__weather", {"city": "Lima"}),
    ]
    results = [each["content"] for each in messages if each["role"] == "tool"]
    if len(results) < len(script):
        name, arguments = script[len(results)]
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call-{len(results)}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"role": "assistant", "content": f"19 + 23 is {results[0]}; Lima: {results[2]}"}


# -- the agent


async def describe_tools(clients: ClientGroup) -> list[Message]:
    """Return the tools of all servers as APIs for chat completions want them."""
    tools = []
    async for tool in clients.tools():
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool.name):
            print(f"left out:  {tool.name}, a name that APIs refuse")
            continue
        described = {"name": tool.name, "description": tool.description or ""}
        tools.append(
            {"type": "function", "function": {**described, "parameters": tool.input_schema}}
        )
    return tools


async def call_tool(clients: ClientGroup, call: Message) -> Message:
    """Call a tool for the model; it also reads what went wrong."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    print(f"calls:     {name} {arguments}")
    try:
        result = await clients.call_tool(name, json.loads(arguments or "{}"))
        blocks = [b.text if isinstance(b, TextContent) else b.to_json() for b in result.content]
        text = ("error: " if result.is_error else "") + "\n".join(blocks)
    except (AccordError, ValueError) as error:
        text = f"error: {error}"
    print(f"result:    {text}")
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


async def answer(clients: ClientGroup, model: Model, question: str) -> str:
    """Ask the model until it wants no more tools."""
    tools = await describe_tools(clients)
    messages: list[Message] = [{"role": "user", "content": question}]
    for _ in range(TURNS):
        reply = await model(messages, tools)
        messages.append(reply)
        calls = reply.get("tool_calls") or []
        if not calls:
            return str(reply["content"])
        messages += [await call_tool(clients, call) for call in calls]
    return f"no answer after {TURNS} turns"


async def main() -> None:
    parser = argparse.ArgumentParser(description="Ask a model that has the tools of MCP servers.")
    parser.add_argument("question", nargs="?", default=QUESTION)
    parser.add_argument("--config", help="a file with mcpServers or servers")
    given = parser.parse_args()
    model = ask_api if "LLM_URL" in os.environ else play_script
    async with connect_all(given.config or SERVERS, separator="__") as clients:
        print(f"servers:   {', '.join(clients)}")
        for name, error in clients.failures.items():
            print(f"failed:    {name}: {error}")
        print(f"question:  {given.question}")
        print(f"answer:    {await answer(clients, model, given.question)}")


if __name__ == "__main__":
    asyncio.run(main())
