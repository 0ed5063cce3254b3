"""Hosts, machines and files for checks of configurations."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from accord_tools.hosts.checking.entries import check_entry, inspect_entry
from accord_tools.hosts.checking.files import check_file
from accord_tools.hosts.definition import ConfigFile, EntryShape, Host, LaunchModel, Machine
from support.waiting import run

COMMAND = EntryShape(members={"command": "program", "args": "args", "env": "env", "cwd": "cwd"})
URL = EntryShape(members={"url": "url", "headers": "headers"})
DESKTOP = Host(
    id="desk",
    name="Desk",
    checked="2026-11",
    source="made up",
    format="json",
    key=("mcpServers",),
    stdio=COMMAND,
    http=URL,
    sse=URL,
)
TERMINAL = Host(
    id="term",
    name="Term",
    checked="2026-11",
    source="made up",
    format="json",
    key=("mcpServers",),
    stdio=COMMAND,
    http=URL,
    sse=URL,
    launch=LaunchModel(path="shell", cwd="project"),
)

# A server of a few lines that needs nothing but the standard library, so that it starts fast.
TINY = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {}
    if asked["method"] == "initialize":
        answer = {
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": os.environ.get("TINY_NAME", "tiny"), "version": "1.2"},
        }
    if asked["method"] == "tools/list":
        answer = {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""
PYTHON = (sys.executable, "-S", "-E")


def machine_at(folder: Path, **environ: str) -> Machine:
    """A machine whose home is in a folder, and whose temporary files are elsewhere."""
    home, project = folder / "home", folder / "project"
    home.mkdir(exist_ok=True)
    project.mkdir(exist_ok=True)
    given = {"HOME": str(home), "PATH": os.defpath, "TMPDIR": "/no/such/folder"} | environ
    return Machine(system="linux", environ=given, home=home, project=project)


def config_at(
    folder: Path, entries: Any, host: Host = DESKTOP, *, scope: Any = "user", **members: Any
) -> ConfigFile:
    """A file of a host with these entries, or with this text."""
    path = folder / "mcp.json"
    text = entries
    if not isinstance(entries, str):
        text = json.dumps({".".join(host.key): entries}, indent=2) + "\n"
    path.write_text(text)
    return ConfigFile(
        host=host, scope=scope, path=path, key=host.key, format=host.format, **members
    )


def inspect(folder: Path, entry: Any, host: Host = DESKTOP, **options: Any) -> dict[str, Any]:
    """The findings about one entry without a launch, by code."""
    machine = options.pop("machine", None) or machine_at(folder)
    file = config_at(folder, {"desk": entry}, host, **options)
    found = check_file(file, machine).entries["desk"]
    return {each.code: each for each in inspect_entry(file, found, machine).findings}


def check(folder: Path, entry: Any, host: Host = DESKTOP, **options: Any) -> Any:
    """The report about one entry, whose server is launched."""
    machine = options.pop("machine", None) or machine_at(folder)
    scope = options.pop("scope", "user")
    file = config_at(folder, {"desk": entry}, host, scope=scope)
    options.setdefault("seconds", 30.0)
    return run(check_entry(file, "desk", (*file.key, "desk"), entry, machine, **options))
