"""Writes docs/targets.md: what a TARGET can be, command by command and form by form.

`tests/cli/test_target_forms.py` proves each cell, and that the page is up to date.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "targets.md"
FORMS = {
    "url": ("`https://host/mcp`", "a server at a URL"),
    "file": ("`desk.py`, `desk.py:name`", "a Python file with a `Server`, or one of it"),
    "module": ("`package.module:name`", "a Python module with a `Server`"),
    "command": ("`-- COMMAND ...`", "a command that launches a server over stdio"),
    "host": ("`--host HOST NAME`", "a server in the configuration of a host, such as `cursor`"),
    "config": ("`--config FILE NAME`", "a server of a file of a host, such as `mcp.json`"),
    "member": ("`FILE#NAME`", "the same; `#NAME` may be missing if the file has one server"),
    "server.json": ("`server.json#NAME`", "a package or a remote of a `server.json`"),
    "bundle": ("`desk.mcpb`", "a bundle (`.mcpb`, `.dxt`), unpacked into a folder of this user"),
    "plugin": ("`FOLDER`", "an Agent Plugin: a folder with `plugin.json` and `mcp.json`"),
    "fleet": ("`accord-fleet.toml#NAME`", "a server of a fleet file"),
    "npm": ("`npm:NAME`, `@scope/name`", "a package of npm, launched by `npx -y`"),
    "pypi": ("`pypi:NAME`", "a package of PyPI, launched by `uvx`"),
}
COMMANDS = (
    *("list", "call", "test", "lock", "verify", "check server", "doctor", "watch", "inspect"),
    *("proxy", "run", "add", "fleet add", "auth forget"),
)
_PROXY = "another server is served by: accord proxy"
_LAUNCHED = "only servers at a URL have tokens"
_LISTENS = ("--host is for HTTP", "`--host` says where to listen: name the file of the host")
# What cannot make sense: the message of the command, and what the page says beyond it.
REFUSED = {
    **{("run", form): (_PROXY, "") for form in FORMS if form not in ("file", "module")},
    ("run", "command"): ("run serves a Python file or module, not a command", ""),
    ("run", "config"): (
        "there is no option --config",
        "`accord run FILE` serves all of them",
    ),
    ("run", "host"): _LISTENS,
    ("proxy", "host"): _LISTENS,
    ("add", "host"): ("there is no module desk", "`--host` says where to add it: `hosts sync`"),
    **{
        ("auth forget", form): (_LAUNCHED, "")
        for form in ("file", "module", "command", "bundle", "npm", "pypi")
    },
}
_HEAD = """\
# Targets

`tools/target_table.py` writes this page, and a test proves each cell of the table.

Every command that connects to a server takes a TARGET. It can have these forms:

| TARGET | what it is |
|---|---|
"""
_OPTIONS = """
The options are the same, too: `--env K=V`, `--cwd DIR`, `--header 'NAME: VALUE'`, `--bearer TOKEN`,
`--oauth` with what belongs to it, `--timeout S`, `--revision R`, `--config FILE`, `--host HOST` and
`--yes`. They come before what a file says. A command leaves out what it has no use for, such as
`--revision` in `doctor`.

**Files** are JSON (comments are allowed), TOML or YAML, in the form of any [host](host-table.md).
Relative paths are those of the file's folder, or of the project around a folder such as `.vscode`.
`${NAME}`, `${env:NAME}` and `${input:name}` are filled in from the shell or from `--env`.

**What others wrote** is launched or contacted only after a question that shows it: a file
that is named without `--config`, a file of a project that `--host` found, a `server.json`, a
bundle, a plugin, a package, a fleet file that is not [trusted](fleet.md). `--yes` answers it; then
the server gets the variables of `--env`, and no others that the file names.

## Commands

"""
_TAIL = """
- `run` serves all servers of a configuration as one: `accord run mcp.json`.
- `watch` needs `--listen PORT` for a URL.
- `auth forget` takes what has a URL: an entry that is launched has no tokens.
- `inspect` takes several targets, and the bare name of a server of any host.
- `add` and `fleet add` write placeholders as they are, and launch nothing for that.
- `--host` of `run` and `proxy` says where they listen, that of `add` where the server is added.
"""


def _cell(command: str, form: str) -> str:
    said, more = REFUSED[command, form]
    return f"`{command}`: {more or said}"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |\n"


def render() -> str:
    """Return the page."""
    parts = [_HEAD, *(_row(*each) for each in FORMS.values()), _OPTIONS]
    names = ", ".join(f"`{each}`" for each in COMMANDS)
    parts.append(f"{names} take all forms but these:\n\n")
    parts += [_row("TARGET", "refused by"), "|---|---|\n"]
    for form, (shown, _) in FORMS.items():
        refused = [_cell(each, form) for each in COMMANDS if (each, form) in REFUSED]
        parts.append(_row(shown, "; ".join(refused)))
    return "".join([*parts, _TAIL])


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text() != render())
    PAGE.write_text(render())
