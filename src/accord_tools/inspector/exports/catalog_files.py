"""What a server offers as a file: a lock file, or a list in Markdown."""

from collections.abc import Iterator
from typing import Any

from accord.types import JsonObject
from accord_tools.check.rendering.text import code_span, escape_markdown

_TITLES = {
    "tools": ("Tools", "name"),
    "resources": ("Resources", "uri"),
    "resourceTemplates": ("Resource templates", "uriTemplate"),
    "prompts": ("Prompts", "name"),
}


def catalog_as_markdown(catalog: JsonObject, revision: str) -> str:
    """Return the list of everything that a server offers, in Markdown."""
    return "\n".join(_lines(catalog, revision)) + "\n"


def _lines(catalog: JsonObject, revision: str) -> Iterator[str]:
    yield f"# {escape_markdown(str(catalog.get('server', 'server')))}"
    yield ""
    yield f"Protocol revision {revision}."
    for kind, (title, name) in _TITLES.items():
        entries = catalog.get(kind)
        if not isinstance(entries, list) or not entries:
            continue
        yield ""
        yield f"## {title}"
        for entry in entries:
            yield ""
            yield f"### {code_span(str(entry.get(name, '')))}"
            yield from _describe(entry)


def _describe(entry: JsonObject) -> Iterator[str]:
    for key in ("title", "description"):
        text = entry.get(key)
        if isinstance(text, str) and text.strip():
            yield ""
            yield escape_markdown(" ".join(text.split()))
    arguments = list(_arguments(entry))
    if arguments:
        yield ""
        yield from arguments


def _arguments(entry: JsonObject) -> Iterator[str]:
    schema: Any = entry.get("inputSchema")
    if isinstance(schema, dict):
        properties, required = schema.get("properties"), schema.get("required")
        named = properties.items() if isinstance(properties, dict) else ()
        for name, part in named:
            is_required = isinstance(required, list) and name in required
            yield _argument(name, part, is_required=is_required)
    listed: Any = entry.get("arguments")
    for part in listed if isinstance(listed, list) else ():
        if isinstance(part, dict):
            yield _argument(str(part.get("name")), part, is_required=part.get("required") is True)


def _argument(name: str, part: object, *, is_required: bool) -> str:
    known = part if isinstance(part, dict) else {}
    kind, said = known.get("type"), known.get("description")
    facts = [str(kind)] if isinstance(kind, str) else []
    if is_required:
        facts.append("required")
    line = f"- {code_span(name)}"
    if facts:
        line += f" ({escape_markdown(', '.join(facts))})"
    if isinstance(said, str) and said.strip():
        line += f": {escape_markdown(' '.join(said.split()))}"
    return line
