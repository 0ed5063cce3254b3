"""`accord store`: look at the store of several workers, and ask workers to drain."""

import argparse
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from accord.cli.options import (
    TEXT_OR_JSON,
    Commands,
    UsageError,
    add_command,
    is_json,
    read_keys,
)
from accord.cli.terminal import complain, escape_controls, painter, say, say_json, width

if TYPE_CHECKING:
    from accord.sharing.backends.backend import Backend
    from accord.sharing.workers.overview import SeenSession, SeenWorker

_ABOUT: Final = """\
Look at the store in which several workers keep what they share, and ask workers to drain.

Exit code: 0 done, 1 there is no such worker, 2 the store could not be reached or read.
"""
_PLACE: Final = """\
URL is that of the store, as --store of `accord run` takes it: sqlite:///FILE or
redis://HOST:PORT/DATABASE. It is read from ACCORD_STORE if it is not given, where a password is
safer than in an option. The namespace is the name of the server, unless the URL has another one.
Values that are sealed need the keys: --keys-file, or ACCORD_STORE_KEYS.
"""
_STATS: Final = f"""\
usage: accord store stats [options] [URL]

Show what the store is, how much it holds, and the workers that use it: whether each is alive, where
it runs, and some of what it has counted.

{_PLACE}
If stdout is not a terminal, there is one line for each fact, and one for each worker, with tabs
between the parts: "worker", id, state, host, process, start, version.

examples:
  accord store stats redis://10.0.0.9:6379/0 --namespace desk --keys-file keys.txt
  accord store stats --namespace desk --format json
"""
_SESSIONS: Final = f"""\
usage: accord store sessions [options] [URL]

Show the open sessions, the oldest first: the beginning of the id, the principal, the client, the
revision, the age, how many workers have a copy, and how many connections listen.

{_PLACE}
If stdout is not a terminal, every session is one line, with tabs between the parts.

examples:
  accord store sessions sqlite:////run/desk/store.db --namespace desk --keys-file keys.txt
  accord store sessions --namespace desk --limit 20
"""
_DRAIN: Final = f"""\
usage: accord store drain [options] [URL]

Ask workers to drain: they report at /readyz that they are not ready, so that a balancer sends new
requests elsewhere, and end the streams of clients that only listen, which connect again. Calls go
on. A worker does not end by itself; end its process when its calls have finished.

Without --worker, all workers are asked.

{_PLACE}
examples:
  accord store drain redis://10.0.0.9:6379/0 --namespace desk --worker 98308eb46b
  accord store drain --namespace desk
"""
_OPTIONS: Final = f"""\
url? URL  the store (default: that of ACCORD_STORE)
--namespace N   the name of the server (default: accord)
--keys-file F   the file with the keys of the store, one on each line
{TEXT_OR_JSON}
"""
_LIMIT: Final = 100
# Of all that workers count: what an operator looks for first.
_SHOWN_COUNTS: Final = ("sessions_open", "requests_open", "streams_open", "store_errors")


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("store", description=_ABOUT, epilog=_examples())
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    add_command(
        kinds, "stats", _run(_show_stats), _STATS, _OPTIONS, help="show the store and its workers"
    )
    add_command(
        kinds,
        "sessions",
        _run(_show_sessions),
        _SESSIONS,
        f"{_OPTIONS}--limit COUNT  how many to show (default: {_LIMIT})\n",
        help="show open sessions",
    )
    add_command(
        kinds,
        "drain",
        _run(_drain),
        _DRAIN,
        f"{_OPTIONS}--worker ID  the worker, or the beginning of its id\n",
        help="ask workers to take no more requests",
    )
    for kind in kinds.choices.values():
        kind.set_defaults(format="text")


def _examples() -> str:
    found = [each[each.index("examples:\n") :].splitlines()[1:] for each in (_STATS, _SESSIONS)]
    lines = [each[0] for each in found] + _DRAIN.splitlines()[-2:-1]
    return "examples:\n" + "\n".join(lines) + "\n"


Work = Callable[["Backend", argparse.Namespace], Awaitable[int]]


def _run(work: Work) -> Callable[[argparse.Namespace], int]:
    """Return a command that does something with an open store."""

    def run(options: argparse.Namespace) -> int:
        import asyncio

        is_json(options)  # a format that does not exist is refused before anything is opened
        return asyncio.run(_with_store(work, options))

    return run


async def _with_store(work: Work, options: argparse.Namespace) -> int:
    store = _find_store(options)
    await store.open()
    try:
        return await work(store, options)
    finally:
        await store.close()


def _find_store(options: argparse.Namespace) -> "Backend":
    """Return the store that the options name; values are opened with the keys, if there are any."""
    from accord.sharing.backends.sealed_backend import read_keys as make_ring
    from accord.sharing.backends.urls import open_backend

    url = options.url or os.environ.get("ACCORD_STORE", "").strip()
    if not url:
        raise UsageError("the URL of the store is missing; or set ACCORD_STORE")
    _refuse_missing_file(url)
    store = open_backend(url, namespace=options.namespace or "accord")
    keys = None if options.keys_file is None else read_keys(options.keys_file)
    given = os.environ.get("ACCORD_STORE_KEYS", "").strip().lower()
    ring = None if keys is None and given == "none" else make_ring(keys)
    if ring is None:
        return store
    from accord.sharing.backends.sealed_backend import SealedBackend

    return SealedBackend(store, ring)


def _refuse_missing_file(url: str) -> None:
    """Refuse a SQLite file that does not exist: it would be made, and be empty."""
    from pathlib import Path
    from urllib.parse import unquote

    place = url.removeprefix("sqlite:///").partition("?")[0]
    if place != url and not Path(unquote(place)).is_file():
        raise UsageError(f"there is no file {unquote(place)}")


# -- the store and its workers


async def _show_stats(store: "Backend", options: argparse.Namespace) -> int:
    from accord.sharing.workers.overview import count_sessions, read_workers

    facts = {"url": store.url, **await store.describe(), "sessions": await count_sessions(store)}
    workers = await read_workers(store)
    if is_json(options):
        say_json({"store": facts, "workers": workers})
        return 0
    if width() is None:
        lines = [(name, str(value)) for name, value in facts.items()]
        say(_lines([*lines, *(("worker", *_worker_row(each)) for each in workers)]))
    else:
        say(_describe_store(facts, workers))
    _explain(options, "workers", [each.state == "unreadable" for each in workers])
    return 0


def _describe_store(facts: dict[str, Any], workers: "Sequence[SeenWorker]") -> str:
    paint = painter()
    longest = max(map(len, facts))
    lines = [f"{name:{longest}}  {_one_line(str(value))}" for name, value in facts.items()]
    if workers:
        counts = (each.replace("_", " ").upper() for each in _SHOWN_COUNTS)
        head = ("WORKER", "STATE", "HOST", "PROCESS", "UP", "VERSION", *counts)
        rows = [_shown_worker(each) for each in workers]
        lines += ["", *_table([head, *rows], paint)]
    return "".join(f"{line}\n" for line in lines)


def _worker_row(worker: "SeenWorker") -> tuple[str, ...]:
    started = "" if worker.started is None else f"{worker.started:.0f}"
    pid = str(worker.pid) if worker.pid else ""
    return worker.id, worker.state, worker.host, pid, started, worker.version


def _shown_worker(worker: "SeenWorker") -> tuple[str, ...]:
    id, state, host, pid, _, version = _worker_row(worker)
    up = "" if worker.started is None else _duration(time.time() - worker.started)
    counts = (worker.counts.get(each) for each in _SHOWN_COUNTS)
    return id, state, host, pid, up, version, *("" if n is None else f"{n:g}" for n in counts)


# -- sessions


async def _show_sessions(store: "Backend", options: argparse.Namespace) -> int:
    from accord.sharing.workers.overview import count_sessions, read_sessions

    limit = options.limit or _LIMIT
    sessions = await read_sessions(store, limit=limit)
    count = await count_sessions(store)
    if is_json(options):
        say_json({"sessions": sessions, "count": count})
        return 0
    rows = [_session_row(each, is_exact=width() is None) for each in sessions]
    if width() is None:
        say(_lines(rows))
    elif rows:
        head = ("ID", "PRINCIPAL", "CLIENT", "REVISION", "AGE", "WORKERS", "LISTENING")
        say("".join(f"{line}\n" for line in _table([head, *rows], painter())))
    if count > len(sessions):
        complain(f"{len(sessions)} of {count} sessions are shown; --limit shows more")
    _explain(options, "sessions", [bool(each.fault) for each in sessions])
    return 0


def _session_row(session: "SeenSession", *, is_exact: bool) -> tuple[str, ...]:
    if session.fault:
        return session.id, "", session.fault, "", "", "", ""
    age = f"{session.age:.0f}" if is_exact else _duration(session.age)
    return (
        session.id,
        session.principal,
        session.client,
        session.revision,
        age,
        str(session.workers),
        str(session.listeners),
    )


# -- draining


async def _drain(store: "Backend", options: argparse.Namespace) -> int:
    from accord.sharing.workers.overview import drain_workers, read_workers

    alive = [each for each in await read_workers(store) if each.state != "lost"]
    chosen = [each for each in alive if each.id.startswith(options.worker or "")]
    if options.worker and len(chosen) != 1:
        known = ", ".join(each.id for each in alive) or "none"
        how = "several workers have an id that begins with" if chosen else "there is no worker"
        complain(f"{how} {options.worker}; there are {known}")
        return 1
    await drain_workers(store, [each.id for each in chosen])
    if is_json(options):
        say_json({"drained": [each.id for each in chosen]})
    else:
        say(_lines([(f"worker {each.id} on {each.host} was asked to drain",) for each in chosen]))
        _explain(options, "workers", [False for _ in chosen])
    return 0


# -- text


def _explain(options: argparse.Namespace, what: str, faults: Sequence[bool]) -> None:
    """Say what may be wrong with the options if nothing was found, or nothing can be read."""
    if not faults and not options.namespace:
        complain(
            f"there are no {what} in the namespace accord; --namespace is the name of the server"
        )
    if any(faults):
        complain(f"some {what} cannot be read; sealed ones need --keys-file or ACCORD_STORE_KEYS")


def _lines(rows: Sequence[tuple[str, ...]]) -> str:
    return "".join("\t".join(map(_one_line, row)) + "\n" for row in rows)


def _table(rows: Sequence[tuple[str, ...]], paint: Callable[[str, str], str]) -> list[str]:
    """Return lines with columns below a head, as wide as the terminal."""
    texts = [[_one_line(each) for each in row] for row in rows]
    sizes = [max(map(len, column)) for column in zip(*texts, strict=True)]
    room = width() or 100
    lines = []
    for number, row in enumerate(texts):
        cells = (f"{text:{size}}" for text, size in zip(row, sizes, strict=True))
        line = "  ".join(cells).rstrip()
        line = line if len(line) <= room else f"{line[: room - 3]}..."
        lines.append(paint("bold", line) if number == 0 else line)
    return lines


def _one_line(text: str) -> str:
    return escape_controls(" ".join(text.split()))


def _duration(seconds: float) -> str:
    """Return a duration in the two largest units that it has.

    >>> _duration(3725)
    '1h 2m'
    """
    left = int(seconds)
    parts: list[str] = []
    for name, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or (name == "s" and not parts):
            parts.append(f"{count}{name}")
    return " ".join(parts[:2])
