"""Questions that a command asks before it does something."""

import sys

from accord.cli.options import UsageError


def confirm(question: str) -> bool:
    """Ask on the terminal; without one, say what to do instead.

    Raises:
        UsageError: there is no terminal to ask on.
    """
    from accord.check.rendering.wording import escape_unprintable

    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on; --yes answers the question")
    try:
        return input(escape_unprintable(question)).strip().lower() in ("y", "yes")
    except EOFError:
        return False
