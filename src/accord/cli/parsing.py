"""The parser of every command: help that fits the terminal, and mistakes in one line."""

import argparse
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from accord.cli.options import did_you_mean
from accord.cli.terminal import complain

# Longer lines are hard to read, however wide the terminal is.
_WIDEST: Final = 100


class Parser(argparse.ArgumentParser):
    """Complains in one line, on stderr, with exit code 2, and says what may have been meant."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": _Layout, **settings})

    def error(self, message: str) -> NoReturn:
        complain(f"{message} (see {self.prog} --help)")
        sys.exit(2)

    def parse_known_args(  # type: ignore[override]  # one of its overloads, the one in use
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
            raise argparse.ArgumentError(None, f"there is no {action.metavar} {value}{hint}")


class _Layout(argparse.RawDescriptionHelpFormatter):
    """Fills paragraphs to the width of the terminal; those with indented lines stay as they are."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self._width = min(self._width, _WIDEST)

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            # The names of commands stand further in than they are measured.
            self._action_max_length += self._indent_increment

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(
            each if "\n  " in f"\n{each}" else textwrap.fill(each, width) for each in paragraphs
        )
