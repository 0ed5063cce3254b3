"""Signals that end a command from within its event loop."""

import asyncio
import signal
from contextlib import suppress
from typing import Final

_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP")


def end_by_signals() -> None:
    """Let signals cancel this task; those that are ignored, by nohup for example, stay ignored.

    Raised as an exception in whatever runs, a signal may be lost: in a callback, or in code that
    survives all exceptions.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            with suppress(NotImplementedError):  # on Windows, where Ctrl-C raises
                loop.add_signal_handler(number, task.cancel)
