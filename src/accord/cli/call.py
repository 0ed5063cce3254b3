"""`accord call`: call a tool, read a resource, get a prompt."""

import argparse
import base64
import json
import math
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from accord.cli.arguments import read_tool_arguments, split_pairs
from accord.cli.connection import run_with_client, target_options
from accord.cli.options import (
    TEXT_OR_JSON,
    Commands,
    UsageError,
    add_command,
    did_you_mean,
    is_json,
)
from accord.cli.questions import Questions, is_interactive
from accord.cli.terminal import escape_controls, note, say, say_json
from accord.errors import AccordError, RequestError
from accord.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    LogMessageParams,
    ProgressParams,
    ReadResourceResult,
    ResourceContents,
    ResourceLink,
    TextContent,
    Tool,
)

if TYPE_CHECKING:
    from accord.client import Client
    from accord.client.tasks import TaskUpdate
    from accord.types import JsonObject


_TASKS: Final = "io.modelcontextprotocol/tasks"
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^=]")
_HELP = """\
usage: accord call [options] TARGET NAME [key=value ...]
       accord call [options] NAME [key=value ...] -- COMMAND ...

Call a tool, read a resource (NAME is a URI or a URI template) or get a prompt (--prompt).

TARGET is a URL, or a Python file or module with a Server (server.py, server.py:name,
package.module:name); write a command line after -- instead of a TARGET. Arguments are
key=value, read by the tool's input schema: numbers, true and false, lists as a,b,c or by giving a
key several times. key:=JSON gives a nested value, --json all arguments at once.

The result goes to stdout; progress, log messages, questions and the server's stderr go to stderr.
Questions of the server to its user are answered from --answer, else on the terminal; without a
terminal they are declined. If several questions have a field of one name, repeat --answer in the
order of the questions. Questions without fields and pages to visit take --answer agree=yes.

Exit code: 0 success, 1 the tool failed or the server answered with an error, 2 the call could not
be made.

examples:
  accord call server.py add a=1 b=2
  accord call server.py search words=red,blue options:='{"limit": 3}' --format json
  accord call server.py note://today
  accord call server.py 'note://{name}' name=today
  accord call server.py greet name=Ada --prompt
  accord call server.py book --answer row=7 --answer side=aisle
  accord call add a=1 b=2 -- npx some-server --flag
"""


_OPTIONS = f"""\
--json ARGS         arguments as a JSON object; - reads stdin
--unchecked         send the arguments of --json even if the tool's input schema forbids them
--prompt            NAME is a prompt
--answer KEY=VALUE  fill in a field of a form that the server asks for; may be repeated
{TEXT_OR_JSON}
{target_options("words* TARGET NAME [key=value ...]  see above")}"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    add_command(commands, "call", run, _HELP, _OPTIONS, format="text")


def run(options: argparse.Namespace) -> int:
    """Call the tool, read the resource or get the prompt, and print the result."""
    as_json = is_json(options)
    words: list[str] = options.words
    options.target = "" if options.command or not words else words.pop(0)
    options.rest = words
    if not words and not options.target:
        raise UsageError("call needs a TARGET and the NAME of a tool, a resource or a prompt")
    if not words:
        from accord.cli.target import is_placed, locate

        if is_placed(options):
            locate(options.target)
        raise UsageError(f"call needs the NAME of a tool; accord list {options.target} shows them")
    name, *pairs = words
    questions = Questions(split_pairs(options.answer))

    async def work(client: "Client") -> int:
        result = await _send_request(client, name, pairs, options)
        _print_result(result, as_json=as_json)
        return 1 if isinstance(result, CallToolResult) and result.is_error else 0

    # A user at the terminal may take long to answer, and can interrupt.
    patience = {"timeout": math.inf} if is_interactive() else {}
    return run_with_client(
        options,
        work,
        shows_stderr=True,
        on_log=_show_log,
        on_progress=_show_progress,
        on_elicit=questions.fill_in,
        on_elicit_url=questions.visit,
        on_elicitation_complete=lambda _: note("the server reports that you are done there"),
        **patience,
    )


# -- asking


async def _send_request(
    client: "Client", name: str, pairs: list[str], options: argparse.Namespace
) -> CallToolResult | ReadResourceResult | GetPromptResult:
    if options.prompt:
        return await _get_prompt(client, name, pairs)
    if "://" in name or "{" in name:
        return await client.read_resource(_expand_uri(name, pairs))
    tools = [each async for each in client.tools()] if client.capabilities.tools else []
    tool = next((each for each in tools if each.name == name), None)
    if tool is None and _URI.match(name):
        return await client.read_resource(_expand_uri(name, pairs))
    if tool is None:
        raise UsageError(await _describe_unknown_tool(client, name, tools))
    schema = {"additionalProperties": True} if options.unchecked else tool.input_schema
    arguments = read_tool_arguments(name, schema, pairs, options.json)
    return await _call_tool(client, tool, arguments)


async def _call_tool(client: "Client", tool: Tool, arguments: "JsonObject") -> CallToolResult:
    """Call a tool; if the call becomes a task, show what the server says of it."""
    needs_task = tool.execution is not None and tool.execution.task_support == "required"
    if not needs_task and _TASKS not in (client.capabilities.extensions or {}):
        return await client.call_tool(tool.name, arguments)
    task = await client.start_tool(tool.name, arguments)
    try:
        async for update in task:
            _show_update(update)
        return await task.result()
    except BaseException:
        with suppress(AccordError):
            await task.cancel()  # its id is not shown, so no one can come back for it
        raise


async def _describe_unknown_tool(client: "Client", name: str, tools: Iterable[Tool]) -> str:
    if client.capabilities.prompts:
        # Only a hint: if prompts cannot be listed, the tool is still missing.
        with suppress(RequestError):
            async for each in client.prompts():
                if each.name == name:
                    return f"there is no tool {name}, but a prompt of that name: add --prompt"
    return _describe_unknown("tool", name, [each.name for each in tools])


def _describe_unknown(kind: str, name: str, known: list[str]) -> str:
    if not known:
        return f"the server has no {kind}s"
    shown = ", ".join(known[:10]) + (" ..." if len(known) > 10 else "")
    return f"there is no {kind} {name}{did_you_mean(name, known) or f'; there are {shown}'}"


def _expand_uri(uri: str, pairs: list[str]) -> str:
    values = {key: value for key, value, _ in split_pairs(pairs)}
    if "{" not in uri:
        if values:
            raise UsageError(f"{uri} takes no arguments; only a template has {{variables}}")
        return uri
    from accord.protocol.uri_template import parse

    try:
        template = parse(uri)
        _demand_values(uri, values, template.variables)
        return template.expand(values)
    except ValueError as error:
        raise UsageError(f"{uri} is not a URI template: {error}") from None


async def _get_prompt(client: "Client", name: str, pairs: list[str]) -> GetPromptResult:
    prompts = [each async for each in client.prompts()] if client.capabilities.prompts else []
    prompt = next((each for each in prompts if each.name == name), None)
    if prompt is None:
        raise UsageError(_describe_unknown("prompt", name, [each.name for each in prompts]))
    values = {key: value for key, value, _ in split_pairs(pairs)}
    _demand_values(name, values, [each.name for each in prompt.arguments or () if each.required])
    return await client.get_prompt(name, values or None)


def _demand_values(name: str, values: Iterable[str], required: Iterable[str]) -> None:
    missing = [each for each in required if each not in values]
    if missing:
        example = " ".join(f"{each}=..." for each in missing)
        raise UsageError(f"{name} needs {', '.join(missing)}; add {example}")


# -- showing


def _show_log(message: LogMessageParams) -> None:
    data = message.data if isinstance(message.data, str) else json.dumps(message.data)
    source = f" ({message.logger})" if message.logger else ""
    note(f"{message.level}{source}: {data}")


def _show_progress(progress: ProgressParams) -> None:
    total = f" of {_format_number(progress.total)}" if progress.total is not None else ""
    said = f": {progress.message}" if progress.message else ""
    note(f"progress {_format_number(progress.progress)}{total}{said}")


def _show_update(update: "TaskUpdate") -> None:
    if update.message:
        note(f"{update.status.replace('_', ' ')}: {update.message}")


def _format_number(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else f"{value:g}"


def _print_result(
    result: CallToolResult | ReadResourceResult | GetPromptResult, *, as_json: bool
) -> None:
    if as_json:
        say_json(result)
    elif isinstance(result, CallToolResult):
        _print_text("".join(f"{_format_block(each)}\n" for each in result.content))
    elif isinstance(result, GetPromptResult):
        _print_text(
            "".join(f"{each.role}: {_format_block(each.content)}\n" for each in result.messages)
        )
    else:
        for contents in result.contents:
            _print_contents(contents)


def _print_contents(contents: ResourceContents) -> None:
    """Print text; print bytes only to a file or another program."""
    if contents.blob is None:
        text = contents.text or ""
        _print_text(text if text.endswith("\n") else f"{text}\n")
    elif sys.stdout is None or sys.stdout.isatty():
        _print_text(f"{_describe_blob(contents)}; redirect the output to keep it\n")
    else:
        sys.stdout.buffer.write(base64.b64decode(contents.blob))
        sys.stdout.buffer.flush()


def _print_text(text: str) -> None:
    """Print a text of the server; on a terminal, with control characters escaped."""
    say(escape_controls(text) if sys.stdout is not None and sys.stdout.isatty() else text)


def _format_block(block: ContentBlock) -> str:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent | AudioContent):
        return f"[{block.mime_type}, {_decoded_size(block.data)} bytes]"
    if isinstance(block, ResourceLink):
        return f"[{block.title or block.name}: {block.uri}]"
    assert isinstance(block, EmbeddedResource)
    return (
        block.resource.text if block.resource.text is not None else _describe_blob(block.resource)
    )


def _describe_blob(contents: ResourceContents) -> str:
    kind = contents.mime_type or "bytes"
    return f"[{contents.uri}: {kind}, {_decoded_size(contents.blob or '')} bytes]"


def _decoded_size(text: str) -> int:
    return len(text) * 3 // 4 - text[-2:].count("=")
