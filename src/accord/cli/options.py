"""Options of the commands: tables of them, and functions that read their values."""

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, TypeVar

from accord.errors import AccordError
from accord.types import REVISION_IDS, RevisionId

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Value = TypeVar("Value", bound=str)


class UsageError(AccordError):
    """The command line is wrong: a name or value is unknown, missing or does not fit."""


def one_of(value: str, known: Sequence[Value], what: str) -> Value:
    """Return the known value that equals the given one, ignoring case and separators."""
    plain = value.strip().lower().replace("_", "-").replace(" ", "-")
    for each in known:
        if each.lower().replace(" ", "-") == plain:
            return each
    raise UsageError(f"unknown {what} {value!r}; known: {', '.join(known)}")


def spoken_revisions() -> tuple[RevisionId, ...]:
    """Return the revisions that accord speaks."""
    from accord.protocol.revisions import SPOKEN

    return tuple(SPOKEN)


def spoken_revision(named: str, *, done: str = "spoken") -> RevisionId:
    """Return the revision that the user named, which must be one that accord speaks.

    Args:
        named: the text given by the user.
        done: the verb for the error message, as in "cannot be checked yet".

    Raises:
        UsageError: the revision is unknown, or accord does not speak it.
    """
    spoken = spoken_revisions()
    if named.strip() in REVISION_IDS and named.strip() not in spoken:
        raise UsageError(
            f"{named.strip()} has no handshake and cannot be {done} yet; "
            "accord check trace judges recordings of it"
        )
    return one_of(named, spoken, "revision")


def did_you_mean(
    given: str, known: Iterable[str], shown: Callable[[str], str] = lambda name: name
) -> str:
    """Return a suggestion to append to an error message; empty if no known name is close."""
    # Imported late, because only mistakes need it: hosts wait for `accord run`.
    from difflib import get_close_matches

    close = get_close_matches(given, list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(map(shown, close))}?" if close else ""


def seconds(text: str) -> float:
    """Read a time in seconds, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def output_file(text: str) -> Path:
    """Read the name of a file to write, for argparse.

    A file that cannot be written is reported before the work, not after it.
    """
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: there is no folder {path.parent}")
    return path


def port(text: str) -> int:
    """Read a port number, for argparse."""
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, expected 0 to 65535")
    return int(text)


def _number_of_calls(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of calls, expected 0 or more")
    return int(text)


def bearer_token(options: argparse.Namespace) -> str | None:
    """Return the token of `--bearer`, read from ACCORD_BEARER if the option says so.

    Raises:
        UsageError: the variable is not set.
    """
    if options.bearer != "-":
        given: str | None = options.bearer
        return given
    token = os.environ.get("ACCORD_BEARER", "")
    if not token:
        raise UsageError("--bearer - reads the variable ACCORD_BEARER, which is not set")
    return token


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not a header, expected 'Name: value'")
    return name.strip().lower(), value.strip()


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not a variable, expected K=V")
    return name, value


# -- tables


class Option(NamedTuple):
    """One option or argument of a command; without a metavar it is a flag."""

    name: str
    metavar: str | None
    help: str
    type: Callable[[str], object] | None = None
    default: object = None
    nargs: str | None = None
    is_repeated: bool = False


def add_options(parser: argparse.ArgumentParser, options: Iterable[Option]) -> None:
    """Add a table of options to a parser."""
    for each in options:
        if each.metavar is None:
            parser.add_argument(each.name, action="store_true", help=each.help)
            continue
        parser.add_argument(
            each.name,
            metavar=each.metavar,
            action="append" if each.is_repeated else "store",
            default=[] if each.is_repeated else each.default,
            type=each.type or str,
            nargs=each.nargs,
            help=each.help,
        )


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    options: Iterable[Option],
    *,
    help: str,
    about: str,
    examples: str,
    usage: str | None = None,
) -> None:
    """Add a command to the command line; `run` returns its exit code."""
    parser = commands.add_parser(name, help=help, usage=usage, description=about, epilog=examples)
    add_options(parser, options)
    parser.set_defaults(run=run)


REST: Final = Option("rest", "WORD", argparse.SUPPRESS, nargs="*")
TARGET: Final = (
    Option(
        "target",
        "TARGET",
        "the server: a URL, or a Python file or module with a Server",
        default="",
        nargs="?",
    ),
    REST,
)
TARGET_USAGE: Final = "%(prog)s [options] TARGET\n       %(prog)s [options] -- COMMAND ..."
TEXT_OR_JSON: Final = Option("--format", "F", "text or json (default: text)", default="text")
HEADER: Final = Option(
    "--header",
    "'NAME: VALUE'",
    "a header of every HTTP request; may be repeated",
    _header,
    is_repeated=True,
)
BEARER: Final = Option("--bearer", "TOKEN", "a token for the server; - reads it from ACCORD_BEARER")
ONLY: Final = Option(
    "--only", "ID", "check only this requirement or area; may be repeated", is_repeated=True
)


def env_option(party: str) -> Option:
    """Return the option for variables of the server or client that is launched."""
    text = f"a variable for the {party}, in addition to those of this shell; may be repeated"
    return Option("--env", "K=V", text, _variable, is_repeated=True)


def call_options(default_calls: str) -> tuple[Option, ...]:
    """Return the options that choose which tools may be called, and how often."""
    return (
        Option(
            "--tool",
            "NAME",
            "call this tool whatever it does, and no others; may be repeated",
            is_repeated=True,
        ),
        Option(
            "--allow-writes", None, "also call tools that change something, unless they destroy it"
        ),
        Option(
            "--calls",
            "N",
            f"the most calls of each tool; 0 calls none (default: {default_calls})",
            _number_of_calls,
        ),
        Option(
            "--plan",
            None,
            "only show which tools would be called and which not, and call none;"
            " --format json for programs",
        ),
    )
