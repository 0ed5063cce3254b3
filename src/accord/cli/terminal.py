"""The terminal of the commands: results and errors, with colours there only; consent, signals."""

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from math import inf
from time import monotonic
from typing import Final, Protocol, TextIO

# Seconds until a lost interruption is repeated.
_AGAIN: Final = 0.05
# Seconds between two lines of progress where there is no terminal.
_PAUSE: Final = 10.0
# Unicode's category Cf without signs that are seen: they hide text, or turn its direction.
_HIDDEN: Final = (
    r"\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
# Those that are seen or that emoji and scripts need: joiners, and signs around numbers.
_JOINERS: Final = r"\u200c\u200d\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
_FORMATS: Final = re.compile(f"[{_HIDDEN}{_JOINERS}]")
# The flags of England, Scotland and Wales have tags.
_FLAG: Final = r"\U0001f3f4[\U000e0061-\U000e007a]{5}\U000e007f"
_CONTROLS: Final = re.compile(rf"({_FLAG})|[\x00-\x08\x0b-\x1f\x7f-\x9f{_HIDDEN}]")
# Characters that JSON does not escape; colours do not use them.
_LATE_CONTROLS: Final = re.compile(rf"({_FLAG})|[\x7f-\x9f{_HIDDEN}]")


def say(text: str) -> None:
    r"""Print to stdout; a closed pipe is ignored.

    On a terminal, controls beyond ASCII and hidden characters are escaped as in JSON, such as
    `\u009b`. Text of a server that is not JSON has to pass through `escape_controls` first.
    """
    if sys.stdout is not None and sys.stdout.isatty():
        text = _LATE_CONTROLS.sub(lambda found: found[1] or _in_json(found), text)
    _print(sys.stdout, text)


def say_json(value: object) -> None:
    """Print a value to stdout as JSON."""
    import json

    import msgspec

    text = json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False)
    say(escape_in_json(text) + "\n")


def escape_in_json(text: str) -> str:
    r"""Escape characters of a JSON text that are hidden, or change how other text is shown.

    >>> print(escape_in_json('"a\u202eb"'))
    "a\u202eb"
    """
    return _FORMATS.sub(_in_json, text)


def _in_json(found: re.Match[str]) -> str:
    import json

    return json.dumps(found[0])[1:-1]


# Hides what the command line gives as credentials; made for the first text that is printed.
_HIDING: list[Callable[[], Callable[[str], str]]] = []


def hide_in_errors(make: "Callable[[], Callable[[str], str]] | None") -> None:
    """Hide secrets in what is printed to stderr from now on.

    Args:
        make: returns the function that hides them in a text; None hides nothing.
    """
    _HIDING[:] = [] if make is None else [cache(make)]


def _hide(text: str) -> str:
    return _HIDING[0]()(text) if _HIDING else text


def complain(text: str) -> None:
    """Print an error as one line to stderr, with control characters escaped."""
    _print(sys.stderr, f"accord: {escape_controls(' '.join(_hide(text).split()))}\n")


def note(text: str) -> None:
    """Print a text to stderr, with control characters escaped."""
    _print(sys.stderr, f"{escape_controls(_hide(text))}\n")


def escape_controls(text: str) -> str:
    r"""Escape control and hidden characters, which change what a terminal shows; line breaks stay.

    >>> print(escape_controls("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    return _CONTROLS.sub(
        lambda found: found[1] or ascii(found[0])[1:-1], text.replace("\r\n", "\n")
    )


@contextmanager
def show_warnings() -> Iterator[None]:
    """Print the library's warnings as errors of the command; they may quote a server."""
    import logging

    class Complaints(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said = record.getMessage()
            hint = "; a server must print other output to stderr" if "not JSON" in said else ""
            complain(f"{said}{hint}")

    logger, handler = logging.getLogger("accord"), Complaints(logging.WARNING)
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def _print(stream: TextIO | None, text: str) -> None:
    # None if the stream was closed when the interpreter started.
    if stream is None:
        return
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        # Otherwise the buffered rest would raise again when the interpreter closes the stream.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        # EIO: the terminal was closed.
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise


def escape_unprintable(text: str) -> str:
    """Escape every character that could control a terminal or break a document."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def escape_unencodable() -> None:
    """Escape characters that the terminal's encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def is_rich(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal that may show colours."""
    return (
        stream is not None
        and stream.isatty()
        and not os.environ.get("NO_COLOR")
        and find_spec("rich") is not None
    )


def width() -> int | None:
    """Return the columns of the terminal; None if stdout is not a terminal."""
    from shutil import get_terminal_size

    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return get_terminal_size().columns if is_terminal else None


def painter() -> Callable[[str, str], str]:
    """Return a function that adds a style to a text; without colours it adds nothing."""
    if not is_rich(sys.stdout):
        return lambda _style, text: text
    from rich.console import Console
    from rich.style import Style

    colours = Console(file=sys.stdout)._color_system
    return lambda style, text: Style.parse(style).render(text, color_system=colours)


@contextmanager
def interruptible() -> Iterator[None]:
    """Repeat a Ctrl-C that Python drops, as it does in callbacks of the garbage collector.

    Hypothesis, which generates arguments, has such a callback.
    """
    from _thread import interrupt_main
    from threading import Timer

    before = sys.unraisablehook

    def try_again(lost: "sys.UnraisableHookArgs") -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            timer = Timer(_AGAIN, interrupt_main)
            timer.daemon = True
            timer.start()
        else:
            before(lost)

    sys.unraisablehook = try_again
    try:
        yield
    finally:
        sys.unraisablehook = before


class Advance(Protocol):
    """Updates a progress bar: the amount done, and a text about the current step."""

    def __call__(self, done: int, now: str = "", /) -> None: ...


def _progress_lines(what: str, total: int | None, pause: float) -> Advance:
    """Return a function that prints a line of progress, at most one in so many seconds."""
    due = monotonic() + pause

    def advance(done: int, now: str = "", /) -> None:
        nonlocal due
        if monotonic() < due:
            return
        due = monotonic() + pause
        share = f" {100 * done // total} %" if total else ""
        note(f"{what}{share} {now}".rstrip())

    return advance


@contextmanager
def progress(
    what: str, total: int | None, *, quiet: bool = False, pause: float = _PAUSE
) -> Iterator[Advance]:
    """Show a progress bar on stderr; if stderr is not a terminal, a line now and then.

    Args:
        what: what is done.
        total: the amount of work; None if it is unknown.
        quiet: print no lines.
        pause: seconds between two lines.
    """
    if not is_rich(sys.stderr):
        yield _progress_lines(what, total, inf if quiet else pause)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        # Cut to fit, so that the display stays one line.
        TextColumn(
            "{task.fields[now]}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
        ),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, expand=True) as bar:
        task = bar.add_task(what, total=total, now="")
        yield lambda done, now="": bar.update(task, completed=done, now=escape_controls(now))


def confirm(question: str, *, instead: str = "") -> bool:
    """Ask on the terminal; without one, say what to do instead.

    Args:
        question: it ends with the answers.
        instead: another way than `--yes`, such as an option that makes the question needless.

    Raises:
        UsageError: there is no terminal to ask on.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        from accord.cli.options import UsageError

        other = f", {instead}" if instead else ""
        raise UsageError(f"there is no terminal to ask on; --yes answers the question{other}")
    try:
        return input(escape_unprintable(question)).strip().lower() in ("y", "yes")
    except EOFError:
        return False


_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP")


def end_by_signals() -> None:
    """Let signals cancel this task; those that are ignored, by nohup for example, stay ignored.

    Raised as an exception in whatever runs, a signal may be lost: in a callback, or in code that
    survives all exceptions.
    """
    import asyncio
    import signal

    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            with suppress(NotImplementedError):  # on Windows, where Ctrl-C raises
                loop.add_signal_handler(number, task.cancel)
