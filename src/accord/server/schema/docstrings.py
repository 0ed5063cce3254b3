"""What docstrings say of a function and of its parameters."""

import inspect
import re
from typing import Final, NamedTuple

from accord.server.schema.annotations import unwrap


def doc_of(function: object) -> str | None:
    """Return the docstring of a function; a callable object has that of its class."""
    doc: str | None = unwrap(function).__doc__
    if not doc and not inspect.isroutine(function):
        doc = type(function).__doc__ if not hasattr(function, "func") else None
    return doc


# -- parsing

_PARAMETERS: Final = frozenset(
    {
        "args",
        "arguments",
        "attributes",
        "keyword args",
        "keyword arguments",
        "other parameters",
        "parameters",
        "params",
    }
)
# These do not help the caller of a tool; the output schema describes what it returns.
_DROPPED: Final = frozenset(
    {"return", "returns", "raises", "warns", "yield", "yields", "see also", "references"}
)
_KEPT: Final = frozenset(
    {"example", "examples", "note", "notes", "warning", "warnings", "tip", "todo"}
)
_SECTIONS: Final = _PARAMETERS | _DROPPED | _KEPT

_GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(\w+)[ \t]*(?:\(.*?\))?[ \t]*:(?:[ \t]+|$)(.*)")
_NUMPY_ENTRY: Final = re.compile(r"(\*{0,2}\w+(?:[ \t]*,[ \t]*\*{0,2}\w+)*)[ \t]*(?::.*)?$")
_SPHINX: Final = re.compile(r":(\w+)(?:[ \t]+([^:\n]*?))?:(?:[ \t]+|$)(.*)")
_SPHINX_PARAMETERS: Final = frozenset(
    {"param", "parameter", "arg", "argument", "key", "keyword", "kwarg"}
)
_SPHINX_IGNORED: Final = frozenset(
    {"type", "return", "returns", "rtype", "raises", "raise", "except", "exception", "var", "ivar"}
    | {"cvar", "vartype", "yields", "yield", "ytype", "meta"}
)


class Docstring(NamedTuple):
    """A parsed docstring: prose without the sections, and the text about each parameter."""

    summary: str
    parameters: dict[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Parse a docstring in Google, NumPy or Sphinx style, or in a mixture; it never fails."""
    lines = inspect.cleandoc(text or "").split("\n")
    parser = _DocstringParser()
    position = 0
    while position < len(lines):
        position = parser.take(lines, position)
    return parser.docstring()


class _DocstringParser:
    def __init__(self) -> None:
        self.prose: list[str] = []
        self.parameters: dict[str, str] = {}

    def docstring(self) -> Docstring:
        prose = re.sub(r"\n{3,}", "\n\n", "\n".join(self.prose)).strip()
        return Docstring(prose, self.parameters)

    def take(self, lines: list[str], position: int) -> int:
        """Parse one line or one section; return the position after it."""
        line = lines[position]
        if (field := _sphinx_field(line)) is not None:
            block, after = _indented_block(lines, position + 1, _indent(line) + 1)
            self._add_field(*field, block)
            return after
        if (section := _numpy_heading(lines, position)) is not None:
            block, after = _until_heading(lines, position + 2)
            self._add_section(section, block, lines[position : position + 2], _NUMPY_ENTRY)
            return after
        if (section := _google_heading(lines, position)) is not None:
            block, after = _indented_block(lines, position + 1, _indent(line) + 1)
            self._add_section(section, block, [line], _GOOGLE_ENTRY)
            return after
        self.prose.append(line)
        return position + 1

    def _add_field(self, role: str, subject: str, text: str, block: list[str]) -> None:
        text = _join_lines([text, *block])
        if role in _SPHINX_PARAMETERS and subject:
            # The type may stand before the name: `:param int count:`.
            self.parameters[subject.rsplit(maxsplit=1)[-1].lstrip("*\\")] = text

    def _add_section(
        self, name: str, block: list[str], heading: list[str], entry: re.Pattern[str]
    ) -> None:
        if name in _PARAMETERS:
            self.parameters |= _entries(block, entry)
        elif name in _KEPT:
            self.prose += [*heading, *block]


def _sphinx_field(line: str) -> tuple[str, str, str] | None:
    match = _SPHINX.match(line.strip())
    if match is None:
        return None
    role, subject, text = match[1].lower(), (match[2] or "").strip(), match[3]
    known = role in _SPHINX_PARAMETERS or role in _SPHINX_IGNORED
    return (role, subject, text) if known else None


def _numpy_heading(lines: list[str], position: int) -> str | None:
    name = lines[position].strip().lower()
    if name not in _SECTIONS or position + 1 >= len(lines):
        return None
    rule = lines[position + 1].strip()
    return name if len(rule) >= 3 and not rule.strip("-=") else None


def _google_heading(lines: list[str], position: int) -> str | None:
    """Return the name in `Args:` if an indented line follows; else the line is prose."""
    stripped = lines[position].strip()
    name = stripped[:-1].lower()
    if not stripped.endswith(":") or name not in _SECTIONS:
        return None
    follower = next((line for line in lines[position + 1 :] if line.strip()), "")
    return name if _indent(follower) > _indent(lines[position]) else None


def _indented_block(lines: list[str], position: int, indent: int) -> tuple[list[str], int]:
    """Collect the lines with at least this indent, and the blank ones between them."""
    end = position
    for index in range(position, len(lines)):
        if lines[index].strip():
            if _indent(lines[index]) < indent:
                break
            end = index + 1
    return lines[position:end], end


def _until_heading(lines: list[str], position: int) -> tuple[list[str], int]:
    end = position
    while end < len(lines) and _numpy_heading(lines, end) is None:
        end += 1
    return lines[position:end], end


def _entries(block: list[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """Split a section at the lines of its smallest indent that name a parameter."""
    indent = min((_indent(line) for line in block if line.strip()), default=0)
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in block:
        match = pattern.match(line.strip()) if _indent(line) == indent else None
        if match is not None:
            current = found.setdefault(match[1], [])
            current += match.groups()[1:]
        else:
            current.append(line)
    return {
        name.strip().lstrip("*"): text
        for names, lines in found.items()
        if (text := _join_lines(lines))
        for name in names.split(",")
    }


def _join_lines(lines: list[str]) -> str:
    """Join the lines of each paragraph: clients wrap descriptions themselves."""
    paragraphs = re.split(r"\n\s*\n", "\n".join(line.strip() for line in lines).strip())
    return "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
