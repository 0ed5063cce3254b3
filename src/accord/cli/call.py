"""`accord call`: call a tool, read a resource, get a prompt."""

import argparse
import base64
import json
import math
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from accord.cli.arguments import read_tool_arguments, read_value, split_pairs, type_name
from accord.cli.connection import CONNECTION, run_with_client
from accord.cli.options import (
    TEXT_OR_JSON,
    Commands,
    UsageError,
    add_command,
    did_you_mean,
    is_json,
)
from accord.cli.terminal import escape_controls, note, say, say_json
from accord.errors import RequestError
from accord.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    ElicitParams,
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


_YES: Final = ("y", "yes", "true")
# The key of `--answer` for a form without fields.
_AGREEMENT: Final = {"agree": None}
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
terminal they are declined. A question without fields takes --answer agree=yes.

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
words* TARGET NAME [key=value ...]  see above
--json ARGS         arguments as a JSON object; - reads stdin
--unchecked         send the arguments of --json even if the tool's input schema forbids them
--prompt            NAME is a prompt
--answer KEY=VALUE  fill in a field of a form that the server asks for; may be repeated
{TEXT_OR_JSON}
{CONNECTION}"""


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
        from accord.cli.target import locate

        locate(options.target)
        raise UsageError(f"call needs the NAME of a tool; accord list {options.target} shows them")
    name, *pairs = words
    answers = {key: (value, has_json) for key, value, has_json in split_pairs(options.answer)}

    async def work(client: "Client") -> int:
        result = await _send_request(client, name, pairs, options)
        _print_result(result, as_json=as_json)
        return 1 if isinstance(result, CallToolResult) and result.is_error else 0

    # A user at the terminal may take long to answer, and can interrupt.
    patience = {"timeout": math.inf} if _is_interactive() else {}
    return run_with_client(
        options,
        work,
        shows_stderr=True,
        on_log=_show_log,
        on_progress=_show_progress,
        on_elicit=lambda question: _ask_user(question, answers),
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
    return await client.call_tool(name, arguments)


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


# -- questions of the server to its user


class _NoAnswer(Exception):
    """A form cannot be filled in: a field has no answer, and there is no terminal to ask on."""


def _ask_user(
    question: ElicitParams, given: Mapping[str, tuple[str, bool]]
) -> dict[str, Any] | bool:
    """Fill in a form, or decline: at the end of input (Ctrl-D), or if a field has no answer.

    `given` has the answers on the command line by field: the text, and whether it is JSON.
    """
    note(f"the server asks: {question.message}")
    if question.url is not None:
        note(f"  {question.url}")
    schema = question.requested_schema or {}
    fields: dict[str, Any] = schema.get("properties") or {}
    required = schema.get("required") or ()
    if _is_interactive() and not (fields or _AGREEMENT).keys() <= given.keys():
        note("(Ctrl-D declines)")
    try:
        if not fields:
            return {} if _ask_agreement(given) else False
        answers = {
            name: _answer_field(name, field, given.get(name), is_required=name in required)
            for name, field in fields.items()
        }
    except EOFError:
        note("\ndeclined")
        return False
    except _NoAnswer as error:
        note(f"declined: {error}")
        return False
    return {name: value for name, value in answers.items() if value is not None}


def _is_interactive() -> bool:
    """Whether a user can read questions on stderr and answer on stdin."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def _ask_agreement(given: Mapping[str, tuple[str, bool]]) -> bool:
    if "agree" in given:
        return given["agree"][0].lower() in _YES
    if not _is_interactive():
        raise _NoAnswer("there is no terminal to answer on; add --answer agree=yes")
    return _read_line("agree? [y/N] ").lower() in _YES


def _read_line(prompt: str) -> str:
    # Not input(), which writes the prompt to stdout: that is for the result.
    sys.stderr.write(escape_controls(" ".join(prompt.split("\n"))))
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()


def _answer_field(
    name: str, schema: dict[str, Any], given: tuple[str, bool] | None, *, is_required: bool
) -> Any:
    default = schema.get("default")
    if given is not None:
        return _read_given(name, schema, given)
    if not _is_interactive():
        if default is not None or not is_required:
            return default
        kind = type_name(schema)
        raise _NoAnswer(f"there is no terminal to answer on; add --answer {name}=... ({kind})")
    about = schema.get("description") or schema.get("title")
    if about:
        note(f"  {about}")
    kind = "boolean, y or n" if schema.get("type") == "boolean" else type_name(schema)
    shown = default if isinstance(default, str) else json.dumps(default)
    hint = f" [{shown}]" if default is not None else "" if is_required else " [none]"
    while True:
        text = _read_line(f"  {name} ({kind}){hint}: ")
        if not text and (default is not None or not is_required):
            return default
        try:
            if text:
                return read_value(text, schema)
        except ValueError as error:
            note(f"  {error}")


def _read_given(name: str, schema: dict[str, Any], given: tuple[str, bool]) -> Any:
    text, is_json = given
    try:
        return json.loads(text) if is_json else read_value(text, schema)
    except ValueError as error:
        raise _NoAnswer(f"--answer {name}: {error}") from None
