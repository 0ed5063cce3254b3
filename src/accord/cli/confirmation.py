"""Questions that a command asks before it does something."""

import sys

from accord.cli.options import UsageError
from accord.cli.terminal import escape_unprintable


def confirm(question: str, *, instead: str = "") -> bool:
    """Ask on the terminal; without one, say what to do instead.

    Args:
        question: it ends with the answers.
        instead: another way than `--yes`, such as an option that makes the question needless.

    Raises:
        UsageError: there is no terminal to ask on.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        other = f", {instead}" if instead else ""
        raise UsageError(f"there is no terminal to ask on; --yes answers the question{other}")
    try:
        return input(escape_unprintable(question)).strip().lower() in ("y", "yes")
    except EOFError:
        return False
