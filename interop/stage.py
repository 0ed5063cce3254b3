"""Where sessions are played, each once, some at a time, while tests already read the first ones."""

import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from http_sessions import House
from sessions import PATIENCE, STDIO, Pairing, Session, play

# Sessions wait for a third of their time.
AT_ONCE: Final = 3


class Stage:
    """Where sessions are played."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._house = House(folder)
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._playing: dict[Pairing, Future[Session]] = {}
        self._lock = threading.Lock()

    def begin(self, pairings: Iterable[Pairing]) -> None:
        """Play sessions in the background."""
        for pairing in pairings:
            self._future(pairing)

    def session(self, pairing: Pairing) -> Session:
        """Return a session that was played."""
        # Those before it in the queue have their own bound.
        return self._future(pairing).result(PATIENCE * (len(self._playing) + 1))

    def close(self) -> None:
        """Play no more."""
        self._pool.shutdown(cancel_futures=True)
        self._house.close()

    def _future(self, pairing: Pairing) -> Future[Session]:
        with self._lock:
            if pairing not in self._playing:
                self._playing[pairing] = self._pool.submit(self._play, pairing)
            return self._playing[pairing]

    def _play(self, pairing: Pairing) -> Session:
        if pairing.form == STDIO:
            return play(pairing, self._folder)
        return self._house.play(pairing)
