"""`accord list`: show what a server offers."""

import argparse
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from accord.cli.arguments import describe
from accord.cli.connection import run_with_client, target_options
from accord.cli.options import TEXT_OR_JSON, Commands, add_command, is_json
from accord.cli.target import demand_target
from accord.cli.terminal import complain, escape_controls, note, painter, say, say_json, width
from accord.types import Prompt, Resource, ResourceTemplate, Tool

if TYPE_CHECKING:
    from accord.client import Client
    from accord.testing.catalog import Lists


_KINDS: Final = ("tools", "resources", "resourceTemplates", "prompts")
_HELP = """\
usage: accord list [options] TARGET
       accord list [options] -- COMMAND ...

Show the tools, resources, resource templates and prompts of a server.

TARGET is a URL, or a Python file or module with a Server (server.py, server.py:name,
package.module:name), or a command line after --. If stdout is not a terminal, every entry
is one line: kind, name and description, separated by tabs. If the server answers one of its lists
with an error, the others are shown, and the error is printed to stderr.

Exit code: 0 something could be listed, 1 every list failed, 2 the server could not be reached.

examples:
  accord list server.py
  accord list https://example.com/mcp --oauth
  accord list --env API_KEY=... -- npx some-server --flag
  accord list server.py --format json | jq '.tools[].name'
"""


class _Row(NamedTuple):
    kind: str
    name: str
    about: str


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    add_command(commands, "list", run, _HELP, f"{TEXT_OR_JSON}\n{target_options()}", format="text")


def run(options: argparse.Namespace) -> int:
    """Print what the server offers."""
    as_json = is_json(options)
    demand_target(options, "list")

    async def work(client: "Client") -> int:
        from accord.testing.catalog import fetch_lists

        lists = await fetch_lists(client)
        if as_json:
            _print_json(client, lists)
        else:
            say(_as_text(client, lists))
            if not any(lists.entries.values()) and not lists.failed:
                note("no tools, resources or prompts")
        for method, error in lists.failed.items():
            complain(f"{method} failed: {error}")
        return 1 if lists.failed and len(lists.failed) == len(lists.entries) else 0

    return run_with_client(options, work)


def _print_json(client: "Client", lists: "Lists") -> None:
    shown: dict[str, Any] = {
        "server": client.server_info,
        "revision": client.revision,
        "instructions": client.instructions,
        **{kind: lists.entries.get(kind, []) for kind in _KINDS},
    }
    if lists.failed:
        shown["failed"] = {method: str(error) for method, error in lists.failed.items()}
    say_json(shown)


# -- text


def _as_text(client: "Client", lists: "Lists") -> str:
    rows = _rows(lists)
    columns = width()
    if columns is None:
        return "".join("\t".join(row) + "\n" for row in rows)
    paint = painter()
    info = client.server_info
    title = paint("bold", _on_one_line(info.title or info.name))
    lines = [f"{title} {_on_one_line(info.version)}, revision {client.revision}"]
    if client.instructions:
        lines += textwrap.wrap(escape_controls(client.instructions), columns)
    for kind in dict.fromkeys(row.kind for row in rows):
        chosen = [row for row in rows if row.kind == kind]
        lines += ["", paint("bold", f"{kind}s"), *_table(chosen, columns, paint)]
    return "".join(f"{line}\n" for line in lines)


def _rows(lists: "Lists") -> list[_Row]:
    tools, resources, templates, prompts = (lists.entries.get(kind, []) for kind in _KINDS)
    entries = [
        *(("tool", _signature(each.name, describe(each.input_schema)), each) for each in tools),
        *(("resource", each.uri, each) for each in resources),
        *(("resource template", each.uri_template, each) for each in templates),
        *(("prompt", _signature(each.name, _prompt_arguments(each)), each) for each in prompts),
    ]
    return [
        _Row(kind, _on_one_line(name), _on_one_line(_describe_entry(entry)))
        for kind, name, entry in entries
    ]


def _signature(name: str, arguments: Sequence[str]) -> str:
    return f"{name}({', '.join(arguments)})"


def _prompt_arguments(prompt: Prompt) -> list[str]:
    return [each.name if each.required else f"{each.name}?" for each in prompt.arguments or ()]


def _describe_entry(entry: Tool | Resource | ResourceTemplate | Prompt) -> str:
    title = entry.title or (entry.name if isinstance(entry, Resource | ResourceTemplate) else "")
    parts = [title, entry.description or ""]
    if isinstance(entry, Resource | ResourceTemplate) and entry.mime_type:
        parts[0] = f"{title} ({entry.mime_type})"
    return ": ".join(part for part in parts if part)


def _on_one_line(text: str) -> str:
    return escape_controls(" ".join(text.split()))


def _table(rows: Sequence[_Row], columns: int, paint: Callable[[str, str], str]) -> list[str]:
    """Put descriptions beside names; a name that is too long for its column has its own line."""
    longest = max(len(row.name) for row in rows)
    size = min(longest, max(20, columns // 2 - 4))
    indent = size + 4
    lines = []
    for row in rows:
        wrapped = textwrap.wrap(row.about, max(20, columns - indent)) or [""]
        if len(row.name) > size:
            lines.append(f"  {paint('cyan', row.name)}")
        else:
            first = wrapped.pop(0)
            lines.append(f"  {paint('cyan', row.name)}{' ' * (size - len(row.name))}  {first}")
        lines += [f"{' ' * indent}{line}" for line in wrapped if line]
    return lines
