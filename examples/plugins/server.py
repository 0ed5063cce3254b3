"""A server whose tools come from a folder: each file there is a plugin.

Drop a file into the folder while the server runs: clients are notified that the list of tools
changed. A plugin that cannot be imported is logged with its line and left out.

    accord list examples/plugins/server.py
    accord call examples/plugins/server.py shout text=hello
    accord list examples/plugins/server.py --env PLUGINS=/another/folder
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from accord import Server
from accord.compose import folder
from accord.types import ToolAnnotations

STARTED = time.monotonic()

plugins = folder(os.environ.get("PLUGINS") or Path(__file__).with_name("tools"))
server = Server(
    "plugins", version="1.0.0", instructions="The tools come from a folder and may change."
)
server.mount(plugins)


@dataclass
class Health:
    version: str
    uptime_seconds: int
    failed_plugins: dict[str, str]


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def plugin_health() -> Health:
    """Report the version, how long the server has run, and the plugins that failed, by file."""
    return Health(server.info.version, int(time.monotonic() - STARTED), failures())


@server.tool(annotations=ToolAnnotations(destructive_hint=False, idempotent_hint=True))
async def reload() -> dict[str, str]:
    """Look for changes in the folder now; returns what is wrong with plugins, by file."""
    await plugins.reload()
    return failures()


def failures() -> dict[str, str]:
    return {file.name: str(error) for file, error in plugins.failures.items()}


if __name__ == "__main__":
    server.run()
