"""Texts of JSON, TOML and YAML drawn by Hypothesis, in any layout."""

import json

import yaml
from hypothesis import strategies as st

from accord_tools.hosts.documents.value_texts import format_key, format_scalar, format_value

KEYS = {
    "jsonc": st.sampled_from(["a", "b", "c c", 'q"', "ä", "//", "}", "", "mcpServers"]),
    "toml": st.sampled_from(["a", "b", "c-c", "q q", 'x"y', "ä", "d.e", "env"]),
    "yaml": st.sampled_from(["a", "b", "c c", "x-y", "yes", "1", 'q"', "ä", "#", "k: v"]),
}
NUMBERS = st.booleans() | st.integers(-99, 99)
SCALARS = {
    "jsonc": NUMBERS | st.none() | st.floats(-9, 9, width=16),
    "toml": NUMBERS,
    "yaml": NUMBERS | st.none(),
}
SIGNS = {"jsonc": 'ab"\\/,:{}[]*é\n\t', "toml": "ab\"'\\#[]\n=", "yaml": "ab \"'\\#:-é\n{,"}


def values_of(format):
    """Draw values that a format can express."""
    return st.recursive(
        SCALARS[format] | st.text(st.sampled_from(SIGNS[format]), max_size=6),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(KEYS[format], inner, max_size=3)
        ),
        max_leaves=6,
    )


VALUES = {format: values_of(format) for format in KEYS}
# What an entry may be; in TOML it is a table.
ENTRIES = VALUES | {"toml": st.dictionaries(KEYS["toml"], VALUES["toml"], max_size=3)}
REMARKS = {
    "toml": st.sampled_from(["", "", "", " # c", " # [x]", "   "]),
    "yaml": st.sampled_from(["", "", "", " # c", "  # x: y"]),
}
GAP = st.sampled_from(["", "", "\n", "\n", "\n\n", "# c\n", "\n# c\n", "# c\n\n", "\n# c\n\n"])
SPACES = st.sampled_from(
    [
        "",
        "",
        " ",
        " ",
        "\n",
        "\n\t",
        "\r\n  ",
        " /* c */ ",
        "/*,*/",
        " // x\n",
        " // {\r\n",
        "\n\n  // y\n  ",
    ]
)


@st.composite
def jsonc(draw, value):
    """Draw a text for a value, with any blanks, comments, line ends and trailing commas."""

    def space():
        return draw(SPACES)

    def write(value):
        if isinstance(value, dict):
            items = [
                f"{json.dumps(key)}{space()}:{space()}{write(each)}" for key, each in value.items()
            ]
            return "{" + join(items) + "}"
        if isinstance(value, list):
            return "[" + join([write(each) for each in value]) + "]"
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    def join(items):
        if not items:
            return space()
        last = draw(st.sampled_from(["", "", ","])) + space()
        return ",".join(f"{space()}{each}{space()}" for each in items) + last

    return space() + write(value) + space()


@st.composite
def toml(draw, tables):
    """Draw a text for tables by their paths, with any comments, blank lines and line ends."""

    def pairs(table):
        lines = [f"{format_key(k)} = {write(v)}{draw(REMARKS['toml'])}\n" for k, v in table.items()]
        return "".join(each + draw(st.sampled_from(["", "", "", "# c\n", "\n"])) for each in lines)

    def write(value):
        if isinstance(value, list) and value and draw(st.booleans()):
            return "[\n" + "".join(f"  {format_value(each)}, # c\n" for each in value) + "]"
        if isinstance(value, str) and "\\" not in value and draw(st.booleans()):
            return f'"""\n{value.replace(chr(34), "")}"""'
        return format_value(value)

    parts = [draw(GAP), draw(st.sampled_from(["", "z = 1\n"]))]
    for path, table in tables:
        header = ".".join(map(format_key, path))
        parts += [draw(GAP), f"[{header}]{draw(REMARKS['toml'])}\n", pairs(table)]
    text = "".join([*parts, draw(GAP)])
    text = text.removesuffix("\n") if draw(st.booleans()) else text
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@st.composite
def tables(draw):
    """Draw tables of servers and others, in any order."""
    names = draw(st.lists(KEYS["toml"], min_size=1, max_size=3, unique=True))
    paths = [("mcp_servers", name) for name in names]
    paths += [("mcp_servers", name, "sub") for name in names if draw(st.booleans())]
    paths += draw(st.sampled_from([[], [("tui",)], [("tui",), ("x", "y")]]))
    tables = [
        (path, draw(st.dictionaries(KEYS["toml"], VALUES["toml"], max_size=3))) for path in paths
    ]
    return names, draw(toml(draw(st.permutations(tables))))


@st.composite
def blocks(draw, value):
    """Draw a text for a value, with any indentation, comments, quotes and brackets."""
    step = draw(st.sampled_from([1, 2, 2, 4]))
    list_step = draw(st.sampled_from([0, step]))

    def above(indent):
        return draw(st.sampled_from(["", "", "", "\n", f"{' ' * indent}# c\n", "# d\n"]))

    def text_of(value, indent):
        lines = value.split("\n") if isinstance(value, str) else [""]
        if draw(st.booleans()) and all(line.strip() == line and line for line in lines):
            pad = " " * (indent + step)
            return "|-\n" + "".join(f"{pad}{line}\n" for line in lines)
        if isinstance(value, str) and "\n" not in value and draw(st.booleans()):
            quoted = value.replace("'", "''")
            return f"'{quoted}'{draw(REMARKS['yaml'])}\n"
        return f"{format_scalar(value)}{draw(REMARKS['yaml'])}\n"

    def flow(value):
        return yaml.safe_dump(value, default_flow_style=True, width=10**6).strip()

    def inner(value, indent):
        """Return what stands behind a colon."""
        if not isinstance(value, dict | list):
            return " " + text_of(value, indent)
        if not value or draw(st.integers(0, 3)) == 0:
            return f" {flow(value)}{draw(REMARKS['yaml'])}\n"
        deeper = indent + (step if isinstance(value, dict) else list_step)
        return f"{draw(REMARKS['yaml'])}\n" + write(value, deeper)

    def write(value, indent):
        pad = " " * indent
        if isinstance(value, dict):
            return "".join(
                f"{above(indent)}{pad}{format_scalar(key)}:{inner(each, indent)}"
                for key, each in value.items()
            )
        parts = []
        for each in value:
            if isinstance(each, dict) and each:
                lines = write(each, indent + 2).lstrip("\n")
                while lines.lstrip(" ").startswith("#"):
                    lines = lines.split("\n", 1)[1]
                parts.append(f"{above(indent)}{pad}- {lines.lstrip()}")
            elif isinstance(each, list) and each:
                parts.append(f"{above(indent)}{pad}- {flow(each)}\n")
            else:
                parts.append(f"{above(indent)}{pad}-" + inner(each, indent))
        return "".join(parts)

    text = draw(st.sampled_from(["", "", "# top\n", "---\n"])) + write(value, 0)
    text += draw(st.sampled_from(["", "", "\n", "# end\n", "...\n"]))
    text = text.removesuffix("\n") if draw(st.booleans()) else text
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@st.composite
def documents(draw, format):
    """Draw a text with servers and other values; returns the names of the servers, too."""
    if format == "toml":
        return draw(tables())
    servers = draw(st.dictionaries(KEYS[format], VALUES[format], min_size=1, max_size=3))
    if format == "yaml":
        order = draw(st.permutations([("x", [1]), ("extensions", servers), ("z", {"y": 1})]))
        return list(servers), draw(blocks(dict(order)))
    return list(servers), draw(jsonc({"x": 1, "mcpServers": servers, "y": {"z": servers}}))
