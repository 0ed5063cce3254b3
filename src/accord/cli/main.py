"""The `accord` command: parses the arguments and runs the command that they name.

Exit codes: 0 success, 1 the server, client or recording failed, 2 the command could not run, 130
interrupted.
"""

import argparse
import signal
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import groupby
from threading import current_thread, main_thread
from typing import Any, Final, NoReturn

from accord.cli.commands import (
    HEADINGS,
    OTHERS,
    BrokenCommand,
    Command,
    find_command,
    find_commands,
)
from accord.cli.options import UsageError, did_you_mean, given_filter
from accord.cli.terminal import complain, escape_unencodable, hide_in_errors, say, show_warnings
from accord.errors import AccordError
from accord.types import REVISION_IDS
from accord.version import __version__

# Longer lines are hard to read, however wide the terminal is.
_WIDEST: Final = 100
_ABOUT = """\
The Model Context Protocol for Python: serve, call, check, look at the rules.

Exit code: 0 success, 1 a call or check failed, 2 the command could not run, 130 interrupted.
"""
_EXAMPLES = f"""\
examples:
  accord run server.py
  accord proxy https://example.com/mcp --oauth
  accord list server.py
  accord call server.py add a=1 b=2
  accord inspect server.py
  accord check server server.py
  accord check trace session.jsonl
  accord watch --record session.jsonl -- python server.py
  accord test server.py
  accord fleet --output fleet.html
  accord add server.py --host cursor
  accord hosts check
  accord doctor https://example.com/mcp
  accord auth forget https://example.com/mcp
  accord store stats redis://10.0.0.9:6379/0 --namespace desk
  accord requirements --revision {REVISION_IDS[2]} --level must
"""


class Parser(argparse.ArgumentParser):
    """Reports mistakes in one line on stderr, with suggestions, and exits with code 2."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": _Layout, **settings})

    def _print_message(self, message: str, file: object = None) -> None:
        say(message)  # a closed pipe is not an error

    def error(self, message: str) -> NoReturn:
        complain(f"{message} (see {self.prog} --help)")
        sys.exit(2)

    def parse_known_args(  # type: ignore[override]  # only the overload that is used
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        found, rest = super().parse_known_args(args, namespace)
        unknown = next((each.partition("=")[0] for each in rest if each.startswith("-")), None)
        if unknown is not None:
            names = (each.lstrip("-") for each in self._option_string_actions)
            hint = did_you_mean(unknown.lstrip("-"), names, lambda name: f"--{name}")
            self.error(f"there is no option {unknown}{hint}")
        return found, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        known = list(action.choices or ())
        if known and value not in known:
            hint = did_you_mean(value, known) or f"; there are {', '.join(known)}"
            if "server" in known and any(each in value for each in "./:"):
                hint = f"; did you mean {self.prog} server {value}?"
            raise argparse.ArgumentError(None, f"there is no {action.metavar} {value}{hint}")


class _Layout(argparse.RawDescriptionHelpFormatter):
    """Fills paragraphs to the width of the terminal; those with indented lines stay as they are."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self._width = min(self._width, _WIDEST)

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            # argparse measures the names of commands without their indentation.
            self._action_max_length += self._indent_increment

    def _format_action(self, action: argparse.Action) -> str:
        if not isinstance(action, argparse._SubParsersAction):
            return super()._format_action(action)
        if action.dest != "named":
            return super()._format_action(action)
        parts = []
        for heading, listed in groupby(
            action._get_subactions(), lambda each: vars(each)["heading"]
        ):
            parts.append(f"{'':{self._current_indent}}{heading}:\n")
            self._indent()
            parts += [self._format_action(each) for each in listed]
            self._dedent()
        return "".join(parts)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(
            each if "\n  " in f"\n{each}" else textwrap.fill(each, width, break_on_hyphens=False)
            for each in paragraphs
        )

    def _split_lines(self, text: str, width: int) -> list[str]:
        # Options and names of files have hyphens, and are copied as a whole.
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


def _make_parser(asked: Command | None) -> argparse.ArgumentParser:
    """Return the parser; only with the command asked for, so that `accord run` starts quickly."""
    parser = Parser(prog="accord", description=_ABOUT, epilog=_EXAMPLES)
    parser.add_argument(
        "--version",
        action="version",
        version=f"accord {__version__}",
        help="show the version and exit",
    )
    commands: Any = parser.add_subparsers(metavar="COMMAND", dest="named", title="commands")
    if asked is not None:
        asked.register(commands)
    else:
        _list_commands(commands)
    return parser


def _list_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add all commands by name, in the order of the help."""
    shown = {
        name: (OTHERS, f"cannot be loaded, see the package {each.package}: {each.reason}")
        if isinstance(each, BrokenCommand)
        else (each.heading, each.help)
        for name, each in find_commands().items()
    }
    for heading in HEADINGS:
        for name, (place, help) in shown.items():
            if place == heading or (heading == OTHERS and place not in HEADINGS):
                commands.add_parser(name, help=help.replace("%", "%%"))
                commands._choices_actions[-1].heading = heading  # type: ignore[attr-defined]  # ours


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    hide_in_errors(None)
    try:
        escape_unencodable()
        options = _parse(sys.argv[1:] if args is None else args)
        hide_in_errors(None if options.named == "run" else lambda: given_filter(options).hide_any)
        # Not for servers: they configure logging themselves, and start sooner without this.
        with (
            nullcontext() if options.named == "run" else show_warnings(),
            _end_as_interrupted(_ending_signals(options)),
        ):
            code: int = options.run(options)
    except KeyboardInterrupt:
        return 130
    except AccordError as error:
        complain(str(error))
        return 2
    except OSError as error:
        place = f"{error.filename}: " if isinstance(error.filename, str) else ""
        complain(f"{place}{error.strerror or error}")
        return 2
    except Exception as error:
        # Not exit code 1, which means that a check failed: this is a fault in accord.
        complain(f"internal error, please report it: {_describe_fault(error)}")
        return 2
    return code


def _ending_signals(options: argparse.Namespace) -> tuple[str, ...]:
    """Name the signals that end a command as Ctrl-C does.

    A server handles them itself, and a watch passes them on to the server.
    """
    handles_signals = getattr(options, "handles_signals", None)
    if handles_signals is not None and handles_signals(options):
        return ()
    return ("SIGTERM", "SIGHUP")


@contextmanager
def _end_as_interrupted(names: Sequence[str]) -> Iterator[None]:
    """Let SIGTERM, or a terminal that is closed, stop a command as Ctrl-C does.

    Processes that the command launched end with it. Signals that are ignored, as nohup ignores
    SIGHUP, stay ignored.
    """
    if current_thread() is not main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {
        number: signal.signal(number, _interrupt)
        for number in numbers
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _interrupt(*_: object) -> None:
    # Shells make background jobs ignore Ctrl-C; this exception is never ignored.
    if not callable(signal.getsignal(signal.SIGINT)):
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def _parse(args: Sequence[str]) -> argparse.Namespace:
    asked = _find_asked(args)
    words, command = _split(args, asked)
    if asked is not None:
        words = asked.complete(words)
    parser = _make_parser(asked)
    options, rest = parser.parse_known_args(words)
    if options.named is None:
        parser.error(f"accord needs a COMMAND: {', '.join(find_commands())}")
    options.command = command
    # argparse does not take words after an option when there were words before it.
    if hasattr(options, "words"):
        options.words += rest
    elif hasattr(options, "rest"):
        options.rest += rest
    elif rest:
        parser.error(f"unexpected {' '.join(rest)}")
    return options


def _find_asked(args: Sequence[str]) -> Command | None:
    """Return the command that the first word names; None if no package has it."""
    if not args or args[0].startswith("-"):
        return None
    found = find_command(args[0])
    if isinstance(found, BrokenCommand):
        raise UsageError(
            f"the command {args[0]} of the package {found.package} cannot be loaded: {found.reason}"
        )
    return found


def _split(args: Sequence[str], asked: Command | None) -> tuple[Sequence[str], Sequence[str]]:
    """Split at `--`: our own words, and the command line to launch, if the command takes one."""
    if "--" not in args or asked is None or not asked.takes_command:
        return args, ()
    at = args.index("--")
    return args[:at], args[at + 1 :]


def _describe_fault(error: Exception) -> str:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" at {place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
    return f"{type(error).__name__}: {error}{where}"


if __name__ == "__main__":
    sys.exit(main())
