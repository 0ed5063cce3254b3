"""What a server shows of itself, as a file under version control that tests hold it to."""

import json
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from accord import Client
from accord.errors import AccordError, RemoteProtocolError, RequestError, RequestTimeout

METHODS: Final = {
    "tools": "tools/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
    "prompts": "prompts/list",
}
"""The method that lists each kind of entry of a surface."""


class SurfaceChanged(AssertionError):
    """A server shows something else than the file says."""


class Lists(NamedTuple):
    """What a server lists: the entries by kind, and by method the error of each list that failed.

    Of a list that failed the entries that came before the error are there.
    """

    entries: dict[str, list[Any]]
    failed: dict[str, AccordError]


async def fetch_lists(client: Client) -> Lists:
    """Fetch every list that a server declares; one that fails does not hide the others.

    Raises:
        ConnectionClosed: the server has ended.
    """
    can = client.capabilities
    lists = {
        "tools": (can.tools, client.tools),
        "resources": (can.resources, client.resources),
        "resourceTemplates": (can.resources, client.resource_templates),
        "prompts": (can.prompts, client.prompts),
    }
    found = Lists({}, {})
    for kind, (capability, entries) in lists.items():
        if capability is None:
            continue
        listed = found.entries[kind] = []
        try:
            async for entry in entries():
                listed.append(entry)  # noqa: PERF401  # what came before an error is kept
        except (RequestError, RequestTimeout, RemoteProtocolError) as error:
            found.failed[METHODS[kind]] = error
    return found


async def surface_of(client: Client) -> dict[str, Any]:
    """Return all that a client sees of a server: instructions, tools, resources and prompts.

    Entries are sorted by name, so that the order of registration does not matter. Versions are left
    out: they change with every release. A list that the server answers with an error is left out;
    the member `failed` then has the code of the error by method.
    """
    lists = await fetch_lists(client)
    surface: dict[str, Any] = {"server": client.server_info.name}
    if client.instructions is not None:
        surface["instructions"] = client.instructions
    for kind, listed in lists.entries.items():
        if METHODS[kind] not in lists.failed:
            found = [msgspec.to_builtins(entry) for entry in listed]
            surface[kind] = sorted(found, key=lambda entry: str(entry["name"]))
    for error in lists.failed.values():
        if not isinstance(error, RequestError):
            raise error
    if lists.failed:
        # Not the message: it may hold a time or an address, and change every time.
        surface["failed"] = {
            method: error.code
            for method, error in lists.failed.items()
            if isinstance(error, RequestError)
        }
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
