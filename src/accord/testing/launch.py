"""Runs a server that a test module defines: `python -m accord.testing.launch FILE NAME`.

NAME is a `Server` at the top of the file, or a function without arguments that returns one.
"""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from accord.transports.stdio import claim


def main(arguments: list[str]) -> None:
    """Load the file and serve its server over stdin and stdout."""
    claim()  # stdio.server.stdout-only-messages: before any code of the file runs
    path, name = arguments
    spec = spec_from_file_location("accord_launched", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part)
    server = found if hasattr(found, "connect_memory") else found()
    server.run()


if __name__ == "__main__":
    main(sys.argv[1:])
