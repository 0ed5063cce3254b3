"""A server that loads its tools from a folder: every public function of every file there.

Drop a file into the folder and call `reload`: clients are notified that the list of tools changed.
A plugin that cannot be imported is logged and left out.

    accord list examples/plugins/server.py
    accord call examples/plugins/server.py shout text=hello
    accord list examples/plugins/server.py --env PLUGINS=/another/folder
"""

import importlib.util
import inspect
import logging
import os
from pathlib import Path

from accord import Server

FOLDER = Path(os.environ.get("PLUGINS") or Path(__file__).with_name("tools"))

log = logging.getLogger("plugins")
server = Server("plugins", instructions="The tools come from a folder and may change.")
loaded: dict[Path, list[str]] = {}


def load(file: Path) -> list[str]:
    """Offer every public function of a file as a tool; returns their names."""
    spec = importlib.util.spec_from_file_location(f"plugins_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = []
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if not name.startswith("_") and function.__module__ == module.__name__:
            server.tool(function)
            names.append(name)
    return names


@server.tool
def reload() -> dict[str, list[str]]:
    """Load what is new in the folder and drop what is gone; returns the tools by file."""
    files = sorted(FOLDER.glob("*.py"))
    for file in loaded.keys() - files:
        for name in loaded.pop(file):
            server.tool_entries.remove(name)
    for file in files:
        if file not in loaded:
            try:
                loaded[file] = load(file)
            except Exception:
                log.exception("%s is left out", file.name)
    return {file.name: names for file, names in loaded.items()}


reload()

if __name__ == "__main__":
    server.run()
