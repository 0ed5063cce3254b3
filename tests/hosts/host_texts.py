"""Files of hosts as people and programs leave them, and files that are broken."""

from accord_tools.hosts.definition import ConfigFile

SERVER = '''\
from accord import Server

server = Server("desk")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''

OTHER = {"command": "/opt/other/run", "args": ["--fast", "a b"]}


def json_texts(keys: tuple[str, ...]) -> dict[str, str]:
    """Return texts of JSON that hold another server below the keys, in many styles."""

    def nest(inner: str, step: str, comma: str = "", gap: str = "\n") -> str:
        text = inner
        for depth in range(len(keys), 0, -1):
            margin = step * depth
            text = f'{{{gap}{margin}"{keys[depth - 1]}": {text}{comma}{gap}{step * (depth - 1)}}}'
        return text

    def entry(step: str, depth: int, comma: str = "") -> str:
        pad = step * (depth + 1)
        return (
            f'{{\n{pad}"other": {{\n{pad}{step}"command": "/opt/other/run",\n'
            f'{pad}{step}"args": ["--fast", "a b"]{comma}\n{pad}}}{comma}\n{step * depth}}}'
        )

    depth = len(keys)
    usual = nest(entry("  ", depth), "  ") + "\n"
    tabs = nest(entry("\t", depth), "\t") + "\n"
    commented = usual.replace('"other": {', '// the other one\n    "other": { // here', 1)
    return {
        "missing": "",
        "empty object": "{}",
        "empty object, two lines": "{\n}\n",
        "empty container": nest("{}", "  ") + "\n",
        "two spaces": usual,
        "four spaces": nest(entry("    ", depth), "    ") + "\n",
        "tabs": tabs,
        "one line": nest('{"other": {"command": "/opt/other/run"}}', "", gap=""),
        "crlf": usual.replace("\n", "\r\n"),
        "mark": "\ufeff" + usual,
        "mark and crlf": "\ufeff" + tabs.replace("\n", "\r\n"),
        "no final newline": usual.rstrip("\n"),
        "unicode": usual.replace("a b", "Grüße 😀 \\u00e9 \\ud83d\\ude00"),
        "other settings": usual.replace(
            "{\n", '{\n  "theme": "dark",\n  "list": [1, 2, [3]],\n', 1
        ),
        "commented": commented,
        "comment at the end": usual[:-2] + "  /* the end */\n}\n// after\n",
        "trailing commas": nest(entry("  ", depth, ","), "  ", ",") + "\n",
        "deep": usual.replace("{\n", '{\n  "deep": ' + '{"a": ' * 50 + "1" + "}" * 50 + ",\n", 1),
    }


WITH_COMMENTS = ("commented", "comment at the end")
BROKEN_JSON = {
    "cut off": '{"a": {"b": 1',
    "comma missing": '{"a": 1 "b": 2}',
    "colon missing": '{"a" 1}',
    "single quotes": "{'a': 1}",
    "string without end": '{"a": "b}\n',
    "comment without end": '{"a": 1} /* b',
    "two values": '{"a": 1}{"b": 2}',
    "key without quotes": "{a: 1}",
    "wrong bracket": '{"a": [1}',
    "half escape": '{"a": "\\u12"}',
    "a key twice": '{"a": 1, "a": 2}',
    "merge conflict": '{\n<<<<<<< HEAD\n"a": 1\n=======\n"a": 2\n>>>>>>> b\n}\n',
}
_CODEX = """\
# my settings
model = "o5"
notify = ["a",
  "b"] # two

[mcp_servers.other] # the other one
command = "/opt/other/run"
args = ["--fast", "a b"]
"""
_GOOSE = """\
# my settings
GOOSE_MODE: smart_approve
extensions:
  # the other one
  other:
    cmd: /opt/other/run  # here
    args:
    - --fast
    - a b
    enabled: true
    type: stdio
last: 1
"""
_CONTINUE = """\
name: mine  # a name
version: 0.0.1
schema: v1
mcpServers:
  # the other one
  - name: other
    command: /opt/other/run
    args: ["--fast", "a b"]

models:
  - name: x
"""


def toml_texts(keys: tuple[str, ...], container: str) -> dict[str, str]:
    header = f"[{'.'.join(keys)}.other]"
    usual = _CODEX.replace("[mcp_servers.other]", header)
    if container == "list":
        listed = f'[[{".".join(keys)}]]\nname = "other"'
        usual = _CODEX.replace("[mcp_servers.other] # the other one", listed)
    return {
        "missing": "",
        "only a comment": "# nothing yet\n",
        "usual": usual,
        "crlf": usual.replace("\n", "\r\n"),
        "mark": "\ufeff" + usual,
        "no final newline": usual.rstrip("\n"),
        "table after it": usual + '\n[tui]\ntheme = "dark"\n',
        "no blank lines": usual.replace("\n\n", "\n") + "[tui]\na = 1\n",
        "texts with brackets": 'a = """\n[x]\n"""\n' + usual + "b = '''\n[[y]]\n'''\n",
        "tabs": usual.replace("command", "\tcommand"),
    }


BROKEN_TOML = {
    "cut off": 'a = "b',
    "value missing": "a =\n",
    "a table twice": "[a]\nb = 1\n[a]\nc = 1\n",
    "a key twice": "a = 1\na = 2\n",
    "not a value": "a = yes\n",
    "header without end": "[a\nb = 1\n",
    "array without end": "a = [1,\n",
    "two values": "a = 1 2\n",
    "key missing": "= 1\n",
    "merge conflict": "<<<<<<< HEAD\na = 1\n",
}


def yaml_texts(keys: tuple[str, ...], container: str) -> dict[str, str]:
    usual = _CONTINUE if container == "list" else _GOOSE
    usual = usual.replace("extensions:", f"{keys[-1]}:").replace("mcpServers:", f"{keys[-1]}:")
    return {
        "missing": "",
        "only a comment": "# nothing yet\n",
        "usual": usual,
        "crlf": usual.replace("\n", "\r\n"),
        "mark": "\ufeff" + usual,
        "no final newline": usual.rstrip("\n"),
        "document start": "---\n" + usual,
        "container at the end": usual.replace("last: 1\n", "").replace(
            "models:\n  - name: x\n", ""
        ),
        "comment at the end": usual + "# the end\n",
    }


BROKEN_YAML = {
    "tab": "a:\n\tb: 1\n",
    "quote without end": 'a: "b\n',
    "bracket without end": "a: [1, 2\n",
    "indentation": "a:\n    b: 1\n  c: 2\n",
    "two values": "a: b: c\n",
    "unknown alias": "a: *b\n",
    "a key twice": "a: 1\na: 2\n",
    "not a mapping": "- a\n- b\nc: 1\n",
    "brace without end": "a: {b: 1\n",
    "control character": "a: \x01\n",
}


def texts_for(file: ConfigFile) -> dict[str, str]:
    """Return texts that a file of a host may have, by what is special about them."""
    if file.format == "toml":
        return toml_texts(file.key, file.host.container)
    if file.format == "yaml":
        return yaml_texts(file.key, file.host.container)
    return json_texts(file.key)


def broken_texts(file: ConfigFile) -> dict[str, str]:
    """Return texts that do not fit the format of a file."""
    if file.format == "toml":
        return BROKEN_TOML
    return BROKEN_YAML if file.format == "yaml" else BROKEN_JSON
