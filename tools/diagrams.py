"""Write the diagrams of docs/design.md that follow from tables: layers, phases, revisions.

    .venv/bin/python tools/diagrams.py     rewrites the parts between their markers

tests/test_design.py fails when a part is out of date.
"""

import re
import tomllib
from pathlib import Path

from accord.protocol.conversation import TRANSITIONS
from accord.protocol.revisions import REVISIONS, Revision

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "design.md"
JOBS = {
    "accord_tools.inspector": "a page to explore and debug a server, behind a key",
    "accord_tools.targets": "what TARGET means: entries of hosts, files, packages, fleets",
    "accord_tools.fleet": "many servers in one file: runs, history, comparisons, pages",
    "accord_tools.doctor": "the way to a server step by step, from DNS to the first list",
    "accord_tools.hosts": "configurations of hosts: read, changed, checked, repaired",
    "accord_tools.contract": "tests of servers from their schemas and from cases; lock files",
    "accord_tools.watch": "between a real client and server, judging live",
    "accord_tools.check": "checks of servers, clients and recordings",
    "accord_tools.arguments": "values made from JSON Schemas: plain, at limits, wrong, generated",
    "accord_tools.diagnosis": "the way to a token, step by step, for three tools",
    "accord_tools.reports": "results of checks, and their forms: text, JSON, pages and others",
    "accord.cli": "the commands of the library, and how further ones are found",
    "accord.testing": "a client with a monitor on the wire; pytest plugin; virtual clock",
    "accord.compose": "sources to mount: proxies, OpenAPI documents, folders of plugins",
    "accord.middleware": "logs, limits, caches, retries and OpenTelemetry around requests",
    "accord.sharing": "what exists only with a store: sessions and streams of all workers",
    "accord.auth": "tokens: protect a server, issue them, obtain them",
    "accord.client": "connect() and Client",
    "accord.server": "Server, Context, tools, resources, prompts, types to schemas",
    "accord.http.server": "the listener, ASGI, endpoints, sessions, streams",
    "accord.http.client": "requests, streams, both forms of HTTP",
    "accord.stdio.server": "a server on stdin and stdout",
    "accord.stdio.client": "a client of a child process",
    "accord.runtime": "handlers, replies, deadlines, cancellation, threads, on asyncio",
    "accord.secrets": "what is secret: names, forms, masks, one filter",
    "accord.http.rules": "headers, status codes, event streams: pure",
    "accord.stdio.lines": "messages as lines: pure",
    "accord.protocol": "codec, revisions, conversation, rules, endpoint, monitor: pure",
    "accord.json_schema": "the one reader of JSON Schema: references, validation, cost, samples",
    "accord.trace": "recordings",
    "accord.types": "what travels, as typed data with lifetimes",
    "accord.errors": "every exception, as one tree",
    "accord.principal": "the authenticated caller",
    "accord.private_files": "files that only their owner may use",
}


def layers() -> str:
    """The import contracts, top first: each layer imports only what stands below it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    library, _, tools = project["tool"]["importlinter"]["contracts"][:3]
    rows = [
        f"{name:28} {JOBS[name]}"
        for layer in (*tools["layers"][:-1], *library["layers"])
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
