"""Values given on the command line: found among the known ones, or refused with their list."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from accord.errors import AccordError
from accord.types import REVISION_IDS, RevisionId

if TYPE_CHECKING:
    import argparse


Value = TypeVar("Value", bound=str)


class UsageError(AccordError):
    """The command line asks for something that does not exist."""


def one_of(value: str, known: Sequence[Value], what: str) -> Value:
    """Return the known value that was meant, in any case and with any separator."""
    plain = value.strip().lower().replace("_", "-").replace(" ", "-")
    for each in known:
        if each.lower().replace(" ", "-") == plain:
            return each
    raise UsageError(f"unknown {what} {value!r}; known: {', '.join(known)}")


def spoken_revisions() -> tuple[RevisionId, ...]:
    """Return the revisions in which a server or client can be spoken to."""
    from accord.protocol.revisions import SPOKEN

    return tuple(SPOKEN)


def spoken_revision(named: str, *, done: str = "spoken") -> RevisionId:
    """Return the revision that the user named, one that accord speaks.

    Args:
        named: what the user wrote.
        done: what cannot be done in other revisions, for the message.

    Raises:
        UsageError: the revision is unknown, or accord does not speak it.
    """
    spoken = spoken_revisions()
    if named.strip() in REVISION_IDS and named.strip() not in spoken:
        raise UsageError(
            f"{named.strip()} opens without a handshake, and cannot be {done} yet; "
            "accord check trace judges recordings of it"
        )
    return one_of(named, spoken, "revision")


def did_you_mean(
    given: str, known: Iterable[str], shown: Callable[[str], str] = lambda name: name
) -> str:
    """Return a question to end a complaint with; empty where nothing known is close."""
    # Imported late, as all that only mistakes need: hosts wait for `accord run`.
    from difflib import get_close_matches

    close = get_close_matches(given, list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(map(shown, close))}?" if close else ""


def seconds(text: str) -> float:
    """Read a time in seconds, for argparse."""
    import argparse

    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def output_file(text: str) -> Path:
    """Read the name of a file that is written in the end, for argparse.

    That nothing can be written there is said before the work, not after it.
    """
    import argparse

    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: Is a directory")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: there is no folder {path.parent}")
    return path


def port(text: str) -> int:
    """Read the number of a port, for argparse."""
    import argparse

    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, expected 0 to 65535")
    return int(text)


def add_header(parser: "argparse.ArgumentParser") -> None:
    """Add what every HTTP request carries."""
    parser.add_argument(
        "--header",
        metavar="'NAME: VALUE'",
        action="append",
        default=[],
        type=_header,
        help="a header of every HTTP request; may be repeated",
    )


def add_env(parser: "argparse.ArgumentParser", whose: str) -> None:
    """Add the variables of what is launched."""
    parser.add_argument(
        "--env",
        metavar="K=V",
        action="append",
        default=[],
        type=_variable,
        help=f"a variable for the {whose}, which also gets ours; may be repeated",
    )


def add_bearer(parser: "argparse.ArgumentParser") -> None:
    """Add the token that the server is shown."""
    parser.add_argument(
        "--bearer", metavar="TOKEN", help="a token for the server; - reads it from ACCORD_BEARER"
    )


def add_only(parser: "argparse.ArgumentParser") -> None:
    """Add which requirements are checked."""
    parser.add_argument(
        "--only",
        metavar="ID",
        action="append",
        default=[],
        help="check this requirement or area alone; may be repeated",
    )


def add_tools(parser: "argparse.ArgumentParser", default_calls: str) -> None:
    """Add which tools may be called, and how often."""
    parser.add_argument(
        "--tool",
        metavar="NAME",
        action="append",
        default=[],
        help="call this tool whatever it does, and no others; may be repeated",
    )
    parser.add_argument(
        "--allow-writes",
        action="store_true",
        help="also call tools that change something, short of destroying it",
    )
    parser.add_argument(
        "--calls",
        metavar="N",
        type=_number_of_calls,
        help=f"call each tool at most so often in all; 0 calls none (default: {default_calls})",
    )
    parser.add_argument(
        "--plan",
        action="store_true",
        help="only tell which tools would be called and which not, and call none;"
        " --format json for programs",
    )


def _number_of_calls(text: str) -> int:
    import argparse

    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of calls, expected 0 or more")
    return int(text)


def given_token(options: "argparse.Namespace") -> str | None:
    """Return the token of `--bearer`, wherever it stands.

    Raises:
        UsageError: it is to be read from a variable that is not set.
    """
    if options.bearer != "-":
        given: str | None = options.bearer
        return given
    token = os.environ.get("ACCORD_BEARER", "")
    if not token:
        raise UsageError("--bearer - reads the variable ACCORD_BEARER, which is not set")
    return token


def _header(text: str) -> tuple[str, str]:
    import argparse

    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not a header, expected 'Name: value'")
    return name.strip().lower(), value.strip()


def _variable(text: str) -> tuple[str, str]:
    import argparse

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not a variable, expected K=V")
    return name, value
