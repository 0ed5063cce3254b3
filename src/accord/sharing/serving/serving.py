"""A server in several processes on one machine."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from accord.server.serving import announce, build_app, http_server, run_http
from accord.server.serving_logs import log_in_background

if TYPE_CHECKING:
    from accord.server.core import ServerCore
    from accord.server.http_settings import ListenSettings
    from accord.server.listen_place import ListenPlace
    from accord.sharing.serving.worker_process import Work, WorkerEnd


def run_in_workers(
    server: "ServerCore",
    place: "ListenPlace",
    grace: float,
    options: "ListenSettings",
    *,
    count: int,
) -> None:
    """Serve over HTTP in several processes, which are forked from this one.

    Raises:
        ValueError: a setting is invalid.
        TransportError: the address cannot be listened on, or the certificate cannot be used.
        SystemExit: no worker has become ready.
    """
    http_server()
    server.was_run = True
    with provide_store(options) as store:
        # Built here and not in the workers: a wrong setting is reported before anything starts.
        app = build_app(server, grace, options)
        place.load_tls()

        def work(worker: "WorkerEnd") -> int:
            with log_in_background(), store.removed_by_orphans():
                run_http(server, app, place, worker=worker)
            return 0

        code = supervise(work, place, grace=grace, count=count)
    if code:
        raise SystemExit(code)


def supervise(work: "Work", place: "ListenPlace", *, grace: float, count: int) -> int:
    """Run workers on the sockets of a place until a signal arrives; return the exit code.

    Raises:
        TransportError: the address cannot be listened on.
    """
    from accord.http.server.sockets import close_all
    from accord.sharing.serving.worker_processes import WorkerProcesses

    sockets = place.open_sockets()
    try:
        say = partial(announce, workers=count)
        return WorkerProcesses(work, sockets, count=count, grace=grace, announce=say).run()
    finally:
        close_all(sockets)


class _TemporaryStore:
    """A store in a private folder; None for the folder if the user has named a store."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._parent = os.getpid()

    def remove(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def removed_by_orphans(self) -> Iterator[None]:
        """Remove the folder at the end of a block in a worker, if its parent was killed."""
        try:
            yield
        finally:
            if os.getppid() != self._parent:
                self.remove()


@contextmanager
def provide_store(options: Any) -> Iterator[_TemporaryStore]:
    """Set a store in a private folder, with keys of its own, unless the options name one.

    The folder is removed at the end: nothing of it outlives the workers.
    """
    if options.get("store") is not None:
        yield _TemporaryStore(None)
        return
    folder = tempfile.mkdtemp(prefix="accord-")  # for this user alone
    store = _TemporaryStore(folder)
    try:
        options["store"] = f"sqlite:///{quote(folder)}/store.db"
        if options.get("store_keys") is None and find_spec("cryptography") is not None:
            # Only the workers have them: what a killed parent leaves behind cannot be read.
            options["store_keys"] = [secrets.token_hex(32)]
        yield store
    finally:
        store.remove()
