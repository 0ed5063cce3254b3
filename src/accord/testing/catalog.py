"""The catalog of a server: everything that it lists, to compare with a file."""

import json
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from accord import Client
from accord.errors import AccordError, RemoteProtocolError, RequestError, RequestTimeout
from accord.types import JsonObject

METHODS: Final = {
    "tools": "tools/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
    "prompts": "prompts/list",
}
"""The method that lists each kind of entry of a catalog."""
# Of all lists together: pages of a list may go on until the memory is full.
_MOST_BYTES: Final = 64 * 1024 * 1024


class CatalogChanged(AssertionError):
    """The catalog of a server differs from the file."""


class Lists(NamedTuple):
    """The lists of a server: entries by kind, and the error of each method that failed.

    A list that failed has the entries before the error.
    """

    entries: dict[str, list[Any]]
    failed: dict[str, AccordError]


async def fetch_lists(client: Client) -> Lists:
    """Fetch every list that a server declares; one that fails does not hide the others.

    Raises:
        ConnectionClosed: the server closed the connection.
    """
    can = client.capabilities
    lists = {
        "tools": (can.tools, client.tools),
        "resources": (can.resources, client.resources),
        "resourceTemplates": (can.resources, client.resource_templates),
        "prompts": (can.prompts, client.prompts),
    }
    found = Lists({}, {})
    size = 0
    for kind, (capability, entries) in lists.items():
        if capability is None:
            continue
        listed = found.entries[kind] = []
        try:
            async for entry in entries():
                size += len(msgspec.json.encode(entry))
                if size > _MOST_BYTES:
                    raise RemoteProtocolError(f"{METHODS[kind]}: more than 64 MB, the list is cut")
                listed.append(entry)
        except (RequestError, RequestTimeout, RemoteProtocolError) as error:
            found.failed[METHODS[kind]] = error
    return found


async def catalog_of(client: Client) -> JsonObject:
    """Return everything that a server lists: instructions, tools, resources and prompts.

    Entries are sorted by name, so that the order of registration does not matter. Versions are left
    out: they change with every release. A list that the server answers with an error is left out;
    the member `failed` then has the code of the error by method.
    """
    lists = await fetch_lists(client)
    catalog: JsonObject = {"server": client.server_info.name}
    if client.instructions is not None:
        catalog["instructions"] = client.instructions
    for kind, listed in lists.entries.items():
        if METHODS[kind] not in lists.failed:
            found = [msgspec.to_builtins(entry) for entry in listed]
            catalog[kind] = sorted(found, key=lambda entry: str(entry["name"]))
    for error in lists.failed.values():
        if not isinstance(error, RequestError):
            raise error
    if lists.failed:
        # Not the message, which may contain a time or an address.
        catalog["failed"] = {
            method: error.code
            for method, error in lists.failed.items()
            if isinstance(error, RequestError)
        }
    return catalog


def check_catalog(catalog: object, path: str | Path, *, update: bool = False) -> None:
    """Compare a catalog with a file; write the file if it does not exist.

    Args:
        catalog: what `catalog_of` returned, or any other JSON.
        path: the file.
        update: overwrite the file, because the change is wanted.

    Raises:
        CatalogChanged: they differ; the message shows the difference.
    """
    file = Path(path)
    now = json.dumps(catalog, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if update or not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(now, "utf-8")
        return
    before = file.read_text("utf-8")
    if before != now:
        lines = unified_diff(
            before.splitlines(), now.splitlines(), str(file), "the server now", lineterm="", n=2
        )
        raise CatalogChanged("the server shows something else:\n" + "\n".join(lines))
