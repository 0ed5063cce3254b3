"""Write the diagrams of docs/design.md that follow from tables: layers, phases, revisions.

    .venv/bin/python tools/diagrams.py     rewrites the parts between their markers

tests/test_design.py fails when a part is out of date.
"""

import re
import tomllib
from pathlib import Path

from accord.protocol.revisions import REVISIONS, Revision
from accord.protocol.transitions import TRANSITIONS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "design.md"
JOBS = {
    "accord.cli": "the commands",
    "accord_tools.inspector": "a page to explore and debug a server, behind a key",
    "accord_tools.fleet": "many servers in one file: runs, history, comparisons, pages",
    "accord_tools.hosts": "configurations of hosts: read, changed, checked, repaired",
    "accord_tools.check": "checks of servers, clients and recordings; contract tests; reports",
    "accord.testing": "a client with a monitor on the wire; pytest plugin; virtual clock",
    "accord.compose": "sources to mount: proxies, OpenAPI documents, folders of plugins",
    "accord.middleware": "logs, limits, caches, retries and OpenTelemetry around requests",
    "accord.auth": "tokens: protect a server, issue them, obtain them",
    "accord.client": "connect() and Client",
    "accord.server": "Server, Context, tools, resources, prompts, types to schemas",
    "accord.stdio": "stdio, child processes, memory, HTTP: thin, no protocol decisions",
    "accord.sharing.workers": "processes that serve together: leases, inboxes, shared sessions and streams",
    "accord.runtime": "handlers, replies, deadlines, cancellation around an endpoint, on asyncio",
    "accord.http.rules": "framing, headers, status codes, event streams: pure",
    "accord.stores": "state that may live outside the process",
    "accord.protocol": "codec, revisions, conversation, rules, endpoint, monitor: pure",
    "accord.json_schema": "the one reader of JSON Schema: references, validation, cost, samples",
    "accord.trace": "recordings",
    "accord.types": "what travels, as typed data with lifetimes",
    "accord.errors": "every exception, as one tree",
    "accord.keywords": "misspelt keywords and what was meant",
    "accord.principal": "the authenticated caller",
    "accord.private_files": "files that only their owner may use",
}


def layers() -> str:
    """The import contract, top first: each layer imports only what stands below it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = project["tool"]["importlinter"]["contracts"][0]
    rows = [
        f"{name.removeprefix('accord.'):12} {JOBS[name]}"
        for layer in contract["layers"]
        for name in layer.split(" | ")
    ]
    return "```\n" + "\n".join(rows) + "\n```"


def phases() -> str:
    """The phases of a conversation with a handshake."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> opening"]
    for (phase, sender, method, kind), after in TRANSITIONS.items():
        lines.append(
            f"    {_name(phase)} --> {_name(after)}: {sender}, {method.split('/')[-1]} {kind}"
        )
    return "\n".join([*lines, "```"])


def _name(phase: object) -> str:
    return str(getattr(phase, "name", phase)).lower()


def revisions() -> str:
    """The feature row of every revision."""
    flags = [name for name in Revision.__struct_fields__ if name not in ("id", "methods")]
    lines = [f"| feature | {' | '.join(REVISIONS)} |", "|---" * (len(REVISIONS) + 1) + "|"]
    for flag in flags:
        cells = [_cell(getattr(row, flag)) for row in REVISIONS.values()]
        lines.append(f"| `{flag}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(value: object) -> str:
    return {True: "yes", False: "-"}[value] if isinstance(value, bool) else str(value)


def render(page: str) -> str:
    """Return the page with its generated parts as the tables have them now."""
    for name, make in (("layers", layers), ("phases", phases), ("revisions", revisions)):
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page = pattern.sub(lambda found, make=make: f"{found[1]}{make()}\n{found[2]}", page)
    return page


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text()))
