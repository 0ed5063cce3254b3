"""A chat with a model that may call the tools of all servers in `servers_config.json`.

The model is at LLM_URL and takes the key LLM_API_KEY. It calls a tool by a JSON object.
"""

import asyncio
import json
import logging
import os
import re
import urllib.request
from typing import Any

from accord import connect_all
from accord.client import ClientGroup
from accord.errors import AccordError
from accord.types import Tool

Message = dict[str, str]

INTRODUCTION = """\
You help users, and may call these tools:

{tools}
To call one, answer with a JSON object and nothing else:
{{"tool": "its name", "arguments": {{"name of an argument": "value"}}}}
You then get its result, and say in your own words what matters to the user. Call no other tools.
"""


def describe(name: str, tool: Tool) -> str:
    """Describe a tool for the model."""
    lines = [f"Tool: {name}", f"Title: {tool.title}" if tool.title else "", tool.description or ""]
    required = tool.input_schema.get("required", [])
    for argument, schema in tool.input_schema.get("properties", {}).items():
        must = " (required)" if argument in required else ""
        lines.append(f"- {argument}: {schema.get('description', 'not described')}{must}")
    return "\n".join(filter(None, lines)) + "\n"


def read_call(reply: str) -> tuple[str, dict[str, Any]] | None:
    """Return the tool and the arguments that a reply asks for, with or without a fence around."""
    fenced = re.fullmatch(r"```(?:\s*json)?\s*(.*?)\s*```", reply, re.DOTALL | re.IGNORECASE)
    try:
        call = json.loads(fenced[1] if fenced else reply)
        return call["tool"], call["arguments"]
    except (ValueError, TypeError, KeyError):
        return None


async def ask_model(messages: list[Message]) -> str:
    """Ask the model for its next message."""
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {os.environ['LLM_API_KEY']}",
    }
    body = json.dumps({"messages": messages, "model": os.environ.get("LLM_MODEL", "")}).encode()
    request = urllib.request.Request(os.environ["LLM_URL"], body, headers)

    def send() -> str:
        with urllib.request.urlopen(request) as response:
            text: str = json.load(response)["choices"][0]["message"]["content"]
            return text

    try:
        return await asyncio.to_thread(send)
    except OSError as error:
        return f"I cannot reach the model: {error}"


async def call_tool(clients: ClientGroup, name: str | None, arguments: dict[str, Any]) -> str:
    """Call a tool, and return what the model is to know about it."""
    if name is None:
        return "No server has this tool"
    try:
        result = await clients.call_tool(name, arguments)
    except AccordError as error:
        return f"The tool could not be called: {error}"
    return f"The tool {'failed' if result.is_error else 'returned'}: {result.text}"


async def chat(clients: ClientGroup) -> None:
    """Talk with the user until the user leaves."""
    tools: dict[str, Tool] = {}
    async for tool in clients.tools():
        tools.setdefault(clients.split(tool.name)[1], tool)  # the first server that has it
    described = "\n".join(describe(name, tool) for name, tool in tools.items())
    messages = [{"role": "system", "content": INTRODUCTION.format(tools=described)}]
    while (said := (await asyncio.to_thread(input, "You: ")).strip().lower()) not in QUIT:
        messages.append({"role": "user", "content": said})
        reply = await ask_model(messages)
        call = read_call(reply)
        if call is not None:
            messages.append({"role": "assistant", "content": reply})
            name = tools[call[0]].name if call[0] in tools else None
            outcome = await call_tool(clients, name, call[1])
            messages.append({"role": "system", "content": outcome})
            reply = await ask_model(messages)
        logging.info("Assistant: %s", reply)
        messages.append({"role": "assistant", "content": reply})


QUIT = ("quit", "exit")


async def main() -> None:
    async with connect_all("servers_config.json") as clients:
        await chat(clients)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s - %(levelname)s - %(message)s")
    asyncio.run(main())
