"""List the workers and sessions of a store for an operator, and ask workers to drain.

Reads only what is there, and takes part in nothing: it has no lease and holds no copies.
"""

import asyncio
from typing import Any, Final

import msgspec

from accord.errors import StoreError
from accord.sharing.backends.backend import Backend
from accord.sharing.workers import names
from accord.sharing.workers.messages import encode_message
from accord.sharing.workers.metrics import read_reports
from accord.sharing.workers.names import WorkerFacts
from accord.sharing.workers.session_records import decode_record

__all__ = [
    "SeenSession",
    "SeenWorker",
    "count_sessions",
    "drain_workers",
    "read_sessions",
    "read_workers",
]

# Records that are read at the same time.
_AT_ONCE: Final = 64
_WORKERS_MOST: Final = 10_000
_MESSAGE_TTL: Final = 3600.0
_MESSAGES_MOST: Final = 10_000


class SeenWorker(msgspec.Struct):
    """A worker as the store has it.

    Attributes:
        id: its name among the others.
        state: "alive"; "draining" if it takes no more requests; "lost" if its lease has run out and
            no other worker has taken over yet; "unreadable" if what it says of itself cannot be
            read.
        host: the machine it runs on.
        pid: its process there.
        started: in seconds since 1970; None if it is not known.
        version: of accord.
        counts: what it has counted, by the names of metrics; those without labels.
    """

    id: str
    state: str
    host: str = ""
    pid: int = 0
    started: float | None = None
    version: str = ""
    counts: dict[str, int | float] = {}


class SeenSession(msgspec.Struct):
    """A session as the store has it.

    Attributes:
        id: the beginning of its name in the store; not enough to use the session.
        principal: the caller that opened it; empty for an anonymous one.
        client: name and version, as the client gave them.
        revision: of the protocol; empty before `initialize`.
        age: in seconds.
        workers: how many have a copy.
        listeners: connections on which its client listens.
        subscriptions: resources that its client has subscribed to.
        fault: why it cannot be read; empty if it can.
    """

    id: str
    principal: str = ""
    client: str = ""
    revision: str = ""
    age: float = 0.0
    workers: int = 0
    listeners: int = 0
    subscriptions: int = 0
    fault: str = ""


async def read_workers(backend: Backend) -> list[SeenWorker]:
    """Return the workers, the longest running first.

    Raises:
        StoreError: the store does not answer.
    """
    ids = await backend.members(names.WORKERS, limit=_WORKERS_MOST)
    try:
        reports = await read_reports(backend)
    except StoreError:  # sealed with keys that we do not have
        reports = []
    counts = {
        report.worker: {
            family.name: value
            for family in report.families
            for labels, value in family.samples
            if not labels
        }
        for report in reports
    }
    found = []
    for start in range(0, len(ids), _AT_ONCE):
        part = ids[start : start + _AT_ONCE]
        found += await asyncio.gather(*(_read_worker(backend, each) for each in part))
    for worker in found:
        worker.counts = counts.get(worker.id, {})
        if worker.state == "alive" and worker.counts.get("stopping"):
            worker.state = "draining"
    return sorted(found, key=lambda each: (each.started is None, each.started or 0.0, each.id))


async def _read_worker(backend: Backend, id: str) -> SeenWorker:
    try:
        lease = await backend.get(names.lease_of(id))
        if lease is None:
            return SeenWorker(id, "lost")
        facts = msgspec.json.decode(lease.value, type=WorkerFacts)
    except msgspec.DecodeError:
        return SeenWorker(id, "unreadable")
    return SeenWorker(id, "alive", facts.host, facts.pid, facts.started, facts.version)


async def count_sessions(backend: Backend) -> int:
    """Return how many sessions are open.

    Raises:
        StoreError: the store does not answer.
    """
    return await backend.count(names.SESSIONS)


async def read_sessions(backend: Backend, *, limit: int) -> list[SeenSession]:
    """Return open sessions, the oldest first; any of them, if there are more than the limit.

    Raises:
        StoreError: the store does not answer, or has been sealed with other keys.
    """
    sids = await backend.members(names.SESSIONS, limit=limit)
    now = await backend.now()
    found: list[SeenSession] = []
    for start in range(0, len(sids), _AT_ONCE):
        part = sids[start : start + _AT_ONCE]
        seen = await asyncio.gather(*(_read_session(backend, each, now) for each in part))
        found += [each for each in seen if each is not None]
    return sorted(found, key=lambda each: -each.age)


async def _read_session(backend: Backend, sid: str, now: float) -> SeenSession | None:
    stored = await backend.get(names.session_of(sid))
    if stored is None:
        return None
    shown = sid[:8]
    try:
        record = decode_record(stored.value, stored.version).record
    except StoreError as error:
        return SeenSession(shown, fault=str(error))
    if record.is_ended:
        return None
    return SeenSession(
        shown,
        principal=record.principal,
        client=_describe_client(record.client),
        revision=record.revision,
        age=max(0.0, now - record.created),
        workers=len(record.holders),
        listeners=len(record.listeners),
        subscriptions=len(record.subscriptions),
    )


def _describe_client(encoded: bytes) -> str:
    try:
        said: Any = msgspec.json.decode(encoded)
    except msgspec.DecodeError:
        return ""
    if not isinstance(said, dict):
        return ""
    return " ".join(str(said[each]) for each in ("name", "version") if said.get(each))


async def drain_workers(backend: Backend, ids: list[str]) -> None:
    """Ask workers to drain: to report that they are not ready, and to end streams.

    Raises:
        StoreError: the store does not answer.
    """
    message = encode_message("drain", b"")
    for id in ids:
        inbox = names.inbox_of(id)
        await backend.append(
            inbox, [message], ttl=_MESSAGE_TTL, keep=_MESSAGES_MOST, notify=(inbox,)
        )
