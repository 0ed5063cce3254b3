"""Options of the commands, as the lines of their help, and functions that read their values."""

import argparse
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from accord.errors import AccordError
from accord.types import REVISION_IDS, RevisionId

if TYPE_CHECKING:
    from accord.secrets.filter import SecretFilter

LOG_LEVELS: Final = ("debug", "info", "warning", "error", "critical")

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Work: TypeAlias = Callable[[argparse.Namespace], int]
Value = TypeVar("Value", bound=str)


class UsageError(AccordError):
    """The command line is wrong: a name or value is unknown, missing or does not fit.

    Whatever reads the command line may raise it; it ends every command with exit code 2.
    """


def one_of(value: str, known: Sequence[Value], what: str) -> Value:
    """Return the known value that equals the given one, ignoring case and separators."""
    plain = value.strip().lower().replace("_", "-").replace(" ", "-")
    for each in known:
        if each.lower().replace(" ", "-") == plain:
            return each
    raise UsageError(f"unknown {what} {value!r}; known: {', '.join(known)}")


def known_revision(named: str) -> RevisionId:
    """Return the revision that the user named."""
    return one_of(named, REVISION_IDS, "revision")


def did_you_mean(
    given: str, known: Iterable[str], shown: Callable[[str], str] = lambda name: name
) -> str:
    """Return a suggestion to append to an error message; empty if no known name is close."""
    # Imported late, because only mistakes need it: hosts wait for `accord run`.
    from difflib import get_close_matches

    close = get_close_matches(given, list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(map(shown, close))}?" if close else ""


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def _output_file(text: str) -> Path:
    # A file that cannot be written is reported before the work, not after it.
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: there is no folder {path.parent}")
    return path


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, expected 0 to 65535")
    return int(text)


def _address(text: str) -> str:
    from accord.http.server.sockets import split_address

    try:
        split_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("listen: ")) from None
    return text


def _number_of(what: str, least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or int(text) < least:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a number of {what}, expected {least} or more"
            )
        return int(text)

    return read


def _workers(text: str) -> int | str:
    if text.strip().lower() == "auto":
        return "auto"
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of workers, expected 1 or more, or auto"
        )
    return int(text)


def read_keys(path: Path) -> list[str]:
    """Return the keys of a file that has one on each line.

    Raises:
        UsageError: it cannot be read, or is empty.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"the keys of the store: {path}: {why}") from None
    keys = [each.strip() for each in lines if each.strip()]
    if not keys:
        raise UsageError(f"the keys of the store: {path} is empty, expected one key on each line")
    return keys


def bearer_token(options: argparse.Namespace) -> str | None:
    """Return the token of `--bearer`, read from ACCORD_BEARER if the option says so."""
    if options.bearer != "-":
        given: str | None = options.bearer
        return given
    token = os.environ.get("ACCORD_BEARER", "")
    if not token:
        raise UsageError("--bearer - reads the variable ACCORD_BEARER, which is not set")
    return token


def headers_of(options: argparse.Namespace) -> dict[str, str]:
    """Return the headers of `--header` and `--bearer`."""
    token = bearer_token(options)
    return {**dict(options.header), **({"authorization": f"Bearer {token}"} if token else {})}


def given_secrets(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the credentials that the options and the variables of this process give."""
    from accord.secrets.filter import find_given

    given, spec = vars(options), getattr(options, "spec", None)
    tokens = [given.get(f"{each}bearer") or "" for each in ("", "other_", "foreign_")]
    url = str(given.get("target") or "")
    found = find_given(
        [*tokens, os.environ.get("ACCORD_BEARER", "")],
        headers=_pairs(given.get("header")),
        env={**os.environ, **_pairs(given.get("env"))},
        url=url if "://" in url else "",
        command=given.get("command") or (),
    )
    if spec is None:
        return found
    return find_given(
        [*found, *spec.secrets],
        headers=spec.headers,
        env=spec.env,
        url=spec.url,
        command=spec.command,
    )


def _pairs(given: Any) -> dict[str, str]:
    """Return the pairs of an option; one without a value gives no secret."""
    return {each[0]: each[1] for each in given or () if isinstance(each, tuple) and each[1]}


def given_filter(options: argparse.Namespace) -> "SecretFilter":
    """Return what hides the credentials that the options give."""
    from accord.secrets.filter import filter_of

    return filter_of(given_secrets(options))


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


def _variable_or_name(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    if not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not a variable, expected K=V or K")
    return name, value if equals else None


def _exact_header(text: str) -> tuple[str, str]:
    _, value = _header(text)
    return text.partition(":")[0].strip(), value


def _url_path(text: str) -> str:
    if not text.startswith("/") or "?" in text or "#" in text:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a path of a URL, expected one that begins with /, such as /mcp"
        )
    return text


def _public_url(text: str) -> str:
    _guard_for(public_url=text)
    return text


def _allowed_host(text: str) -> str:
    _guard_for(hosts=[text])
    return text


def _allowed_origin(text: str) -> str:
    _guard_for(origins=[text])
    return text


def _guard_for(**settings: Any) -> None:
    # Imported late: hosts wait for `accord run`.
    from accord.http.rules.gate import guard_for

    try:
        guard_for(**settings)
    except ValueError as error:
        (given,) = settings.values()
        value = given if isinstance(given, str) else given[0]
        expected = str(error).partition(", expected ")[2] or str(error)
        raise argparse.ArgumentTypeError(f"{value!r} is invalid, expected {expected}") from None


def _log_level(text: str) -> str:
    if text.lower() not in LOG_LEVELS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a level, expected {', '.join(LOG_LEVELS[:-1])} or {LOG_LEVELS[-1]}"
        )
    return text.lower()


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder")
    return Path(text)


# -- help pages

READERS: Final[dict[str, Callable[[str], object]]] = {
    "--allowed-host": _allowed_host,
    "--allowed-origin": _allowed_origin,
    "--calls": _number_of("calls", 0),
    "--cases": Path,
    "--env": _variable,
    "--env K[=V]": _variable_or_name,
    "--env NAME": str,
    "--examples": _number_of("examples", 1),
    "--grace": _seconds,
    "--file": Path,
    "--header": _header,
    "--header HEADER": _exact_header,
    "--header-from": _header,
    "--history": Path,
    "--hosts FILE": Path,
    "--jobs": _number_of("jobs", 1),
    "--keys-file": Path,
    "--keep": _number_of("runs", 1),
    "--keep MB": _number_of("megabytes", 1),
    "--limit": _number_of("runs", 1),
    "--limit COUNT": _number_of("sessions", 1),
    "--listen": _port,
    "--listen ADDRESS": _address,
    "--lock": Path,
    "--log": Path,
    "--log-level": _log_level,
    "--output": _output_file,
    "--output PATH": str,
    "--path": _url_path,
    "--port": _port,
    "--public-url": _public_url,
    "--record": Path,
    "--reload-dir": _folder,
    "--seed": int,
    "--time": _seconds,
    "--timeout": _seconds,
    "--trace": Path,
    "--workers": _workers,
}
"""How the values of options are read, in all commands; others are texts.

A name with its value has a reader of its own.
"""


_HEADING: Final = re.compile(r"[a-z ]+:")


def add_options(parser: argparse.ArgumentParser, options: str) -> None:
    """Add options to a parser, from the lines that the help shows.

    A line is `--name VALUE  help`, or `--name  help` for a flag; an indented line continues it. A
    value in brackets may be missing; it is `text` then. An option whose help says so may be
    repeated. Arguments are `name VALUE  help`, with `?` after the name of one that may be missing,
    and `*` if there may be any number. Without a help, an option is not shown. A line that is a
    name and a colon is the heading of those that follow, and may be repeated.
    """
    groups: dict[str, argparse._ArgumentGroup] = {}
    group: argparse._ActionsContainer = parser
    for line in filter(None, options.replace("\n ", " ").splitlines()):
        if _HEADING.fullmatch(line):
            if line not in groups:
                groups[line] = parser.add_argument_group(line.removesuffix(":"))
            group = groups[line]
            continue
        spec, _, text = line.partition("  ")
        name, _, metavar = spec.partition(" ")
        shown = " ".join(text.split()) or argparse.SUPPRESS
        if not name.startswith("-"):
            nargs = name[-1] if name[-1] in "?*" else None
            default = "" if nargs == "?" else None
            parser.add_argument(
                name.rstrip("?*"), metavar=metavar, nargs=nargs, default=default, help=shown
            )
        elif not metavar:
            group.add_argument(name, action="store_true", help=shown)
        else:
            is_repeated = "may be repeated" in shown
            if metavar.startswith("["):
                group.add_argument(
                    name, metavar=metavar.strip("[]"), nargs="?", const="text", help=shown
                )
                continue
            group.add_argument(
                name,
                metavar=metavar,
                action="append" if is_repeated else "store",
                default=[] if is_repeated else None,
                type=READERS.get(spec) or READERS.get(name, str),
                help=shown,
            )


def add_command(
    commands: Commands,
    name: str,
    run: Work,
    page: str,
    options: str,
    *,
    help: str | None = None,
    **defaults: object,
) -> None:
    """Add a command to the command line; `run` returns its exit code.

    `page` is its help without the options: usage, what it does, and examples. `help` says it in a
    few words, for a list of commands. `defaults` are the values of options that are not given.
    """
    usage, _, rest = page.removeprefix("usage: ").partition("\n\n")
    about, heading, examples = rest.partition("\nexamples:\n")
    parser = commands.add_parser(
        name, help=help, usage=usage, description=about, epilog=heading + examples
    )
    add_options(parser, options)
    parser.set_defaults(run=run, **defaults)


# The help of each kind of work of a command, its options, and their values that are not given.
_PAGES: Final[dict[Work, tuple[str, str, dict[str, object]]]] = {}


def kind_of_work(page: str, options: str, **defaults: object) -> Callable[[Work], Work]:
    """Return a decorator for a function that does a kind of work of a command, see `add_kind`.

    The arguments are those of `add_command`.
    """

    def decorate(run: Work) -> Work:
        _PAGES[run] = page, options, defaults
        return run

    return decorate


def add_kind(kinds: Commands, name: str, run: Work, help: str) -> None:
    """Add a kind of work of a command to the command line."""
    page, options, defaults = _PAGES[run]
    add_command(kinds, name, run, page, options, help=help, **defaults)


TARGET: Final = """\
target? TARGET  the server: a URL, a Python file or module, a file such as mcp.json#NAME or x.mcpb,
                or a package such as npm:NAME
rest* WORD
"""
CONFIG: Final = """\
--config FILE  the configuration of a host, such as mcp.json; TARGET is the name of a server in it
--yes         launch without a question what others may have written
"""
ENTRY: Final = f"""\
{CONFIG}\
--host HOST   the host whose configuration has the server that TARGET names, such as cursor
"""
TEXT_OR_JSON: Final = "--format F  text or json (default: text)"
ENV: Final = """\
--env K=V  a variable for the server, in addition to those of this shell; may be repeated
"""
CWD: Final = "--cwd DIR  the folder the server runs in\n"
HEADER: Final = "--header 'NAME: VALUE'  a header of every HTTP request; may be repeated\n"
CREDENTIALS: Final = f"""\
{HEADER}\
--bearer TOKEN  a token for the server; - reads it from ACCORD_BEARER
"""
CALLS: Final = """\
--tool NAME     call this tool whatever it does, and no others; may be repeated
--allow-writes  also call tools that change something, unless they destroy it
--calls N       the most calls of each tool; 0 calls none (default: {})
--plan          only show which tools would be called and which not, and call none;
                --format json for programs
"""


def is_json(options: argparse.Namespace) -> bool:
    """Whether the result is wanted as JSON; refuses other formats than text and JSON."""
    return one_of(options.format, ("text", "json"), "format") == "json"


_MASKED: Final = {"bearer": "$TOKEN", "other_bearer": "$OTHER", "foreign_bearer": "$FOREIGN"}


def without_secrets(options: argparse.Namespace, *names: str) -> list[str]:
    """Return the named options as they were typed, without the values of secrets."""
    from shlex import quote

    words = []
    for name in names:
        value = getattr(options, name)
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif name in _MASKED and value:
            words.append(f'{option} "{_MASKED[name]}"')
        elif name == "env":
            words += [f"{option} {quote(variable)}=..." for variable, _ in value]
        elif name == "header":
            words += [f"{option} {quote(f'{header}: ...')}" for header, _ in value]
        elif value is not None and value is not False:
            each = value if isinstance(value, list) else [value]
            words += [f"{option} {quote(str(one))}" for one in each]
    return words
