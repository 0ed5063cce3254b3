"""`accord fleet prune`: remove old runs from the history."""

import argparse
from typing import Final

from accord.cli.options import Commands, add_command
from accord.cli.terminal import note, say
from accord_tools.fleet.commands.history import HISTORY, history_path

_HELP: Final = """\
usage: accord fleet prune [options]

Remove old runs from the history, with what only they refer to, and make the file smaller.

Exit code: 0 done, also if there was nothing to remove; 2 there is no history, or it cannot be
written.

examples:
  accord fleet prune
  accord fleet prune --keep 50 --history runs.jsonl
"""
_KEEP: Final = 200
_OPTIONS: Final = f"""\
--keep N        how many of the newest runs of each fleet stay (default: {_KEEP})
{HISTORY}"""


def register(kinds: Commands, name: str, help: str) -> None:
    """Add the command to the command line."""
    add_command(kinds, name, run, _HELP, _OPTIONS, help=help, keep=_KEEP)


def run(options: argparse.Namespace) -> int:
    """Remove old runs and say how many."""
    from accord_tools.check.rendering.wording import plural
    from accord_tools.fleet.history import open_history

    path = history_path(options)
    with open_history(path, must_exist=True) as history:
        for each in history.notes:
            note(each)
        done = history.prune(options.keep)
    say(
        f"{path}: {plural(done.removed, 'run')} removed, {done.kept} kept;"
        f" {_describe_size(done.size_before)} before, {_describe_size(done.size_after)} now\n"
    )
    return 0


def _describe_size(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB" if size >= 1_000_000 else f"{size / 1000:.1f} kB"
