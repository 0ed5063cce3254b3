"""`accord fleet run`: check all servers of a file."""

import argparse
from typing import Final

from accord.cli.options import Commands, UsageError, add_command

_HELP: Final = """\
usage: accord fleet [run] [options] [FILE]

Check all servers of a fleet file.

Exit code: 0 all servers are as expected, 1 at least one is not, 2 the run could not be made.

examples:
  accord fleet
"""
_OPTIONS: Final = """\
file? FILE  the fleet file (default: accord-fleet.toml)
"""


def register(kinds: Commands, name: str, help: str) -> None:
    """Add the command to the command line."""
    add_command(kinds, name, run, _HELP, _OPTIONS, help=help)


def run(options: argparse.Namespace) -> int:
    """Check all servers and report."""
    raise UsageError(f"{options.file}: not built yet")
