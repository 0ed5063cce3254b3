"""Threads and file descriptors that a piece of work leaves behind in this process."""

import os
import threading


class Leftovers:
    """Threads and file descriptors that came since this was made, and stayed.

    Others that end meanwhile, those of an earlier test for example, do not count here.
    """

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._descriptors = len(os.listdir("/proc/self/fd"))

    def threads(self) -> set[threading.Thread]:
        return set(threading.enumerate()) - self._threads

    def descriptors(self) -> int:
        return max(0, len(os.listdir("/proc/self/fd")) - self._descriptors)

    def __bool__(self) -> bool:
        return bool(self.threads() or self.descriptors())

    def __repr__(self) -> str:
        return f"{self.threads() or 'no threads'} and {self.descriptors()} descriptors"
