"""The command line by the name of the package: `python -m accord`."""

import sys
from importlib import import_module
from typing import Final

import accord

_EXEC: Final = "accord_tools.hosts.commands.exec"


def main() -> int:
    """Run the command line and return its exit code."""
    if sys.argv[1:2] == ["exec"]:
        # Hosts wait for it at every start of a server: without the parser, and without a look at
        # installed packages, it takes half the time.
        code: int | None = import_module(_EXEC).run_at_once(sys.argv[2:])
        if code is not None:
            return code
    return int(accord._load("accord.cli.main").main())


if __name__ == "__main__":
    sys.exit(main())
