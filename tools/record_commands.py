"""Record anew what the command lines of tests/commands/cases.toml do, and show the differences.

    .venv/bin/python tools/record_commands.py             # all groups
    .venv/bin/python tools/record_commands.py call fleet  # these groups
    .venv/bin/python tools/record_commands.py --check     # only show the differences
    .venv/bin/python tools/record_commands.py --full DIR  # with all outputs in full, into a folder

Two folders of --full, made of two commits, show what has changed within a long output.
The exit code of --check is 1 if there is a difference.
"""

import argparse
import difflib
import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from commands.recording import GROUPS, RECORDED, record, serving


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--full", metavar="DIR", type=Path, help="write full outputs there")
    options = parser.parse_args()
    folder = options.full or RECORDED
    folder.mkdir(exist_ok=True, parents=True)
    differs = False
    logging.disable()
    with serving() as port:
        for group in options.groups or GROUPS:
            text = record(group, port, is_full=options.full is not None)
            path = folder / f"{group}.txt"
            earlier = path.read_text() if path.exists() else ""
            differs |= earlier != text
            name = path.name
            lines = difflib.unified_diff(earlier.splitlines(1), text.splitlines(1), name, name)
            if earlier:
                sys.stdout.writelines(lines)
            if not options.check:
                path.write_text(text)
    return int(options.check and differs)


if __name__ == "__main__":
    sys.exit(main())
