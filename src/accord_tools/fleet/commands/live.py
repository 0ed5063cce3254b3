"""What a person sees while a fleet is checked: a table on a terminal, else a line per server."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from accord.cli.terminal import escape_controls, is_rich, note

if TYPE_CHECKING:
    from accord_tools.fleet.results import ServerResult

# A terminal shows about so many lines; more servers than that are counted.
_MOST_ROWS: Final = 30
_SIGNS: Final = {
    "ok": ("green", "ok"),
    "failed": ("bold red", "FAILED"),
    "unreachable": ("bold red", "UNREACHABLE"),
    "timed-out": ("bold red", "TIMED OUT"),
    "skipped": ("dim", "skipped"),
}


class LiveDisplay(Protocol):
    """Shows how far the run is."""

    def advance(self, name: str, stage: str, share: float, now: str) -> None:
        """Show what is done at the moment."""

    def finish(self, result: "ServerResult") -> None:
        """Show the result of a server."""


def describe_result(result: "ServerResult") -> str:
    """Return a result in one line."""
    from accord.cli.terminal import escape_unprintable
    from accord_tools.fleet.history.comparison import short_time
    from accord_tools.fleet.rendering.wording import tests_text

    words = [_SIGNS[result.state][1]]
    if result.applicable:
        words.append(
            f"{result.failures} failed, {result.warnings} warned,"
            f" {result.exercised} of {result.applicable} exercised"
        )
        words.append("no score" if result.score is None else f"score {result.score:g}")
    if result.tests.is_wanted:
        words.append(f"tests {tests_text(result)}")
    if result.reused_from:
        words.append(f"reused, of {short_time(result.reused_from)}")
    line = f"{result.name}: {', '.join(words)} ({result.seconds:.1f} s)"
    # One line, whatever a server says: others would look like lines of ours.
    return escape_unprintable(f"{line}: {result.reasons[0]}" if result.reasons else line)


class _Lines:
    """Prints a line when a server is finished."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    def advance(self, name: str, stage: str, share: float, now: str) -> None:
        pass

    def finish(self, result: "ServerResult") -> None:
        self._done += 1
        note(f"[{self._done}/{self._total}] {describe_result(result)}")


class _Silence(_Lines):
    def finish(self, result: "ServerResult") -> None:
        pass


class _Table:
    """Rewrites a table with the servers that are worked on, below the lines of finished ones."""

    def __init__(self, total: int, console: Any) -> None:
        self._total = total
        self._console = console
        self._done = 0
        self._wrong = 0
        self._working: dict[str, tuple[str, float, str]] = {}
        self._began = monotonic()

    def advance(self, name: str, stage: str, share: float, now: str) -> None:
        self._working[name] = (stage, share, now)

    def finish(self, result: "ServerResult") -> None:
        from rich.text import Text

        self._working.pop(result.name, None)
        self._done += 1
        self._wrong += not result.is_as_expected
        style, _ = _SIGNS[result.state]
        self._console.print(
            Text(describe_result(result), style=style, no_wrap=True, overflow="ellipsis")
        )

    def __rich__(self) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=30)
        table.add_column(no_wrap=True, width=8)
        table.add_column(width=16)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for name, (stage, share, now) in list(self._working.items())[:_MOST_ROWS]:
            shown = escape_controls(now).replace("\n", " ")
            bar = ProgressBar(total=1.0, completed=share, width=16)
            table.add_row(Text(escape_controls(name)), stage, bar, Text(shown, style="dim"))
        wrong = f", {self._wrong} not as expected" if self._wrong else ""
        passed = monotonic() - self._began
        table.add_row(
            Text(f"{self._done} of {self._total} servers{wrong}", style="bold"),
            f"{passed:.0f} s",
            ProgressBar(total=max(self._total, 1), completed=self._done, width=16),
            "",
        )
        return table


@contextmanager
def live_display(total: int, *, is_quiet: bool = False) -> Iterator[LiveDisplay]:
    """Show the progress of a run on stderr: a table on a terminal, else lines.

    Args:
        total: how many servers there are.
        is_quiet: show nothing.
    """
    if is_quiet:
        yield _Silence(total)
        return
    if not is_rich(sys.stderr):
        yield _Lines(total)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    table = _Table(total, console)
    with Live(table, console=console, refresh_per_second=4, transient=True):
        yield table
