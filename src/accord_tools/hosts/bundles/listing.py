"""What a server offers, for the manifest of its bundle: it is started for that."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.cli.installation import import_folders, python_words
from accord.errors import AccordError, ConnectFailed
from accord_tools.hosts.bundles.contents import ServerSource
from accord_tools.hosts.bundles.manifest import BundlePrompt, BundleSetting, BundleTool
from accord_tools.hosts.definition import HostsError

if TYPE_CHECKING:
    from accord.client import Client

_STARTING: Final = 60.0
_LONGEST: Final = 500


class ListedServer(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says about itself.

    Attributes:
        title: its name for people.
        version: of the server.
        description: the first sentence of its instructions.
        tools: what it offers.
        prompts: those whose text is known.
        are_tools_generated: whether there may be other tools.
        are_prompts_generated: whether there are other prompts.
        remarks: what could not be listed.
    """

    title: str = ""
    version: str = ""
    description: str = ""
    tools: tuple[BundleTool, ...] = ()
    prompts: tuple[BundlePrompt, ...] = ()
    are_tools_generated: bool = False
    are_prompts_generated: bool = False
    remarks: tuple[str, ...] = ()


def list_server(
    files: Mapping[str, bytes] | None, source: ServerSource, settings: Mapping[str, BundleSetting]
) -> ListedServer:
    """Start a server, and list what it offers.

    Args:
        files: those of its bundle, with its packages: it is started from them alone.
        source: started with this Python and its packages, if `files` is None.
        settings: variables that it gets; those of this process, or stand-ins.

    Raises:
        HostsError: it does not start.
    """
    env = {name: os.environ.get(name) or _stand_in(each) for name, each in settings.items()}
    if files is None:
        target = f"{source.file}:{source.object}" if source.object else str(source.file)
        folders = import_folders()
        env |= {"PYTHONPATH": os.pathsep.join(folders)} if folders else {}
        return _run([*python_words(), "run", "--stdio", target], env, "the server")
    with tempfile.TemporaryDirectory(prefix="accord-bundle-") as place:
        for name, data in files.items():
            path = Path(place, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        library = str(Path(place, "server", "lib"))
        # -S: the packages of this Python are not there for the host's one.
        command = [sys.executable, "-S", str(Path(place, "server", "main.py"))]
        return _run(command, {**env, "PYTHONPATH": library}, "the server in the bundle")


def _stand_in(setting: BundleSetting) -> str:
    if setting.default is not None and not isinstance(setting.default, list):
        return str(setting.default)
    return {"number": "1", "boolean": "false", "directory": ".", "file": "."}.get(
        setting.type, "none"
    )


def _run(command: list[str], env: dict[str, str], what: str) -> ListedServer:
    from accord.client import connect

    async def ask() -> ListedServer:
        async with connect(command, env=env, timeout=_STARTING) as client:
            return await _list(client)

    try:
        return asyncio.run(ask())
    except ConnectFailed as error:
        lines = [line for line in error.stderr.splitlines() if line.strip()]
        last = f": {lines[-1].strip()[:_LONGEST]}" if lines else f": {error}"
        raise HostsError(f"{what} does not start{last}") from None
    except AccordError as error:
        raise HostsError(f"{what} cannot be listed: {error}") from None


async def _list(client: "Client") -> ListedServer:
    from accord.testing.catalog import fetch_lists

    lists = await fetch_lists(client)
    prompts, unknown = [], []
    for each in lists.entries.get("prompts", []):
        text = await _prompt_text(client, each)
        names = tuple(one.name for one in each.arguments or ())
        if text is None:
            unknown.append(each.name)
        else:
            prompts.append(
                BundlePrompt(
                    name=each.name, description=each.description, arguments=names, text=text
                )
            )
    info = client.server_info
    sentence = (client.instructions or "").strip().partition("\n")[0]
    remarks = [f"{method} failed: {error}" for method, error in lists.failed.items()]
    if unknown:
        remarks.append(f"the text of these prompts depends on more: {', '.join(unknown)}")
    return ListedServer(
        title=info.title or info.name,
        version=info.version,
        description=sentence[:_LONGEST],
        tools=tuple(
            BundleTool(name=each.name, description=each.description)
            for each in lists.entries.get("tools", [])
        ),
        prompts=tuple(prompts),
        are_tools_generated=bool(lists.failed),
        are_prompts_generated=bool(unknown),
        remarks=tuple(remarks),
    )


async def _prompt_text(client: "Client", prompt: Any) -> str | None:
    """Return the text of a prompt with placeholders for its arguments; None if it has another."""
    given = {each.name: f"${{arguments.{each.name}}}" for each in prompt.arguments or ()}
    try:
        found = await client.get_prompt(prompt.name, given)
    except AccordError:
        return None
    texts = [getattr(each.content, "text", None) for each in found.messages]
    if len(texts) != 1 or not isinstance(texts[0], str):
        return None
    return texts[0]
