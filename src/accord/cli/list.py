"""`accord list`: what a server offers."""

import argparse
import json
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from accord.cli.arguments import described
from accord.cli.connection import add_options, talk
from accord.cli.options import one_of
from accord.cli.target import add_target, demand_target
from accord.cli.terminal import harmless, painter, say, width
from accord.types import Prompt, Resource, ResourceTemplate, Tool

if TYPE_CHECKING:
    from accord.client import Client

__all__ = ["register"]

_FORMATS = ("text", "json")
_ABOUT = """\
Show the tools, resources, resource templates and prompts of a server.

TARGET is a URL, or a Python file or module with a Server (server.py, server.py:name,
package.module:name); a command line stands after --. Where stdout is no terminal, every entry is
one line: kind, name and description with tabs between them.

Exit code: 0 fine, 1 the server answered with an error, 2 it could not be reached.
"""
_EXAMPLES = """\
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


class _Offer(NamedTuple):
    tools: list[Tool]
    resources: list[Resource]
    templates: list[ResourceTemplate]
    prompts: list[Prompt]


def register(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "list",
        help="show what a server offers",
        description=_ABOUT,
        epilog=_EXAMPLES,
    )
    add_target(parser)
    parser.add_argument(
        "--format", metavar="F", default="text", help="text or json (default: text)"
    )
    add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what the server offers."""
    form = one_of(options.format, _FORMATS, "format")
    demand_target(options, "list")

    async def work(client: "Client") -> int:
        offer = await _fetch(client)
        say(_as_json(client, offer) if form == "json" else _as_text(client, offer))
        return 0

    return talk(options, options.target, options.rest, work)


async def _fetch(client: "Client") -> _Offer:
    can = client.capabilities
    return _Offer(
        [each async for each in client.tools()] if can.tools else [],
        [each async for each in client.resources()] if can.resources else [],
        [each async for each in client.resource_templates()] if can.resources else [],
        [each async for each in client.prompts()] if can.prompts else [],
    )


def _as_json(client: "Client", offer: _Offer) -> str:
    import msgspec

    shown = {
        "server": client.server_info,
        "revision": client.revision,
        "instructions": client.instructions,
        "tools": offer.tools,
        "resources": offer.resources,
        "resourceTemplates": offer.templates,
        "prompts": offer.prompts,
    }
    return json.dumps(msgspec.to_builtins(shown), indent=2, ensure_ascii=False) + "\n"


# -- text


def _as_text(client: "Client", offer: _Offer) -> str:
    rows = [_Row(*map(_on_one_line, row)) for row in _rows(offer)]
    columns = width()
    if columns is None:
        return "".join("\t".join(row) + "\n" for row in rows)
    paint = painter()
    info = client.server_info
    title = paint("bold", _on_one_line(info.title or info.name))
    lines = [f"{title} {_on_one_line(info.version)}, revision {client.revision}"]
    if client.instructions:
        lines += textwrap.wrap(harmless(client.instructions), columns)
    for kind in dict.fromkeys(row.kind for row in rows):
        chosen = [row for row in rows if row.kind == kind]
        lines += ["", paint("bold", f"{kind}s"), *_table(chosen, columns, paint)]
    if not rows:
        lines += ["", "it offers nothing"]
    return "".join(f"{line}\n" for line in lines)


def _rows(offer: _Offer) -> list[_Row]:
    return [
        *(
            _Row("tool", _called(each.name, described(each.input_schema)), _about(each))
            for each in offer.tools
        ),
        *(_Row("resource", each.uri, _about(each)) for each in offer.resources),
        *(_Row("resource template", each.uri_template, _about(each)) for each in offer.templates),
        *(_Row("prompt", _called(each.name, _texts(each)), _about(each)) for each in offer.prompts),
    ]


def _called(name: str, arguments: Sequence[str]) -> str:
    return f"{name}({', '.join(arguments)})"


def _texts(prompt: Prompt) -> list[str]:
    return [each.name if each.required else f"{each.name}?" for each in prompt.arguments or ()]


def _about(entry: Tool | Resource | ResourceTemplate | Prompt) -> str:
    title = entry.title or (entry.name if isinstance(entry, Resource | ResourceTemplate) else "")
    parts = [title, entry.description or ""]
    if isinstance(entry, Resource | ResourceTemplate) and entry.mime_type:
        parts[0] = f"{title} ({entry.mime_type})"
    return ": ".join(part for part in parts if part)


def _on_one_line(text: str) -> str:
    return harmless(" ".join(text.split()))


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
