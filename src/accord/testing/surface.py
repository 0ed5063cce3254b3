"""What a server shows of itself, as a file under version control that tests hold it to."""

import json
from difflib import unified_diff
from pathlib import Path
from typing import Any

import msgspec

from accord import Client

__all__ = ["SurfaceChanged", "check_surface", "surface_of"]


class SurfaceChanged(AssertionError):
    """A server shows something else than the file says."""


async def surface_of(client: Client) -> dict[str, Any]:
    """Return all that a client sees of a server: instructions, tools, resources and prompts.

    Entries are sorted by name, so that the order of registration does not matter. Versions are left
    out: they change with every release.
    """
    can = client.capabilities
    lists = {
        "tools": (can.tools is not None, client.tools()),
        "resources": (can.resources is not None, client.resources()),
        "resourceTemplates": (can.resources is not None, client.resource_templates()),
        "prompts": (can.prompts is not None, client.prompts()),
    }
    surface: dict[str, Any] = {"server": client.server_info.name}
    if client.instructions is not None:
        surface["instructions"] = client.instructions
    for kind, (is_offered, entries) in lists.items():
        if is_offered:
            found = [msgspec.to_builtins(entry) async for entry in entries]
            surface[kind] = sorted(found, key=lambda entry: str(entry["name"]))
    return surface


def check_surface(surface: Any, path: str | Path, *, update: bool = False) -> None:
    """Compare a surface with the file that says what it should be; the first time, write it.

    Args:
        surface: what `surface_of` returned, or any other JSON.
        path: the file.
        update: write the file anew, because the change is wanted.

    Raises:
        SurfaceChanged: they differ; the message is the difference.
    """
    file = Path(path)
    now = json.dumps(surface, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if update or not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(now, "utf-8")
        return
    before = file.read_text("utf-8")
    if before != now:
        lines = unified_diff(
            before.splitlines(), now.splitlines(), str(file), "the server now", lineterm="", n=2
        )
        raise SurfaceChanged("the server shows something else:\n" + "\n".join(lines))
