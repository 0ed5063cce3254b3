"""A server whose tools come from a folder: each file there is a plugin.

Drop a file into the folder while the server runs: clients are notified that the list of tools
changed. A plugin that cannot be imported is logged with its line and left out.

    accord list examples/plugins/server.py
    accord call examples/plugins/server.py shout text=hello
    accord list examples/plugins/server.py --env PLUGINS=/another/folder
"""

import os
from pathlib import Path

from accord import Server
from accord.compose import folder

plugins = folder(os.environ.get("PLUGINS") or Path(__file__).with_name("tools"))
server = Server("plugins", instructions="The tools come from a folder and may change.")
server.mount(plugins)


@server.tool
async def reload() -> dict[str, str]:
    """Look for changes in the folder now; returns what is wrong with plugins, by file."""
    await plugins.reload()
    return {file.name: str(error) for file, error in plugins.failures.items()}


if __name__ == "__main__":
    server.run()
