"""One process among those that serve together: its lease, its inbox, and the loss of others.

A worker is alive while it renews its lease in the store. When a lease runs out, one of the others
takes over what the lost worker was doing. A worker that was only stalled finds out that it was
taken over, and goes on under a new id.
"""

import asyncio
import logging
import math
import os
import random
import re
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec

from accord.errors import AccordError, Conflict, DamagedRecord, StoreError, StoreUnavailable
from accord.http.server.metrics import MetricFamily
from accord.sharing.backends.backend import Backend
from accord.sharing.backends.sealed_backend import SEALED, KeyRing
from accord.sharing.workers import names
from accord.sharing.workers.messages import Broadcasts, Inbox, TakeMessage, encode_message
from accord.sharing.workers.metrics import MeasuredBackend, WorkerMetrics, WorkerReports
from accord.sharing.workers.names import WorkerFacts
from accord.version import __version__

__all__ = ["Worker"]

log = logging.getLogger("accord.sharing.workers")

OnLost: TypeAlias = Callable[[str], Awaitable[None]]

_ID_BYTES: Final = 5
_DAY: Final = 86_400.0
_EPOCH: Final = re.compile(rb"[0-9a-f]{1,12}-[0-9a-f]{12}")
_EPOCH_TTL: Final = 90 * _DAY
# How many of the workers after this one, in the order of their ids, it looks after.
_NEIGHBOURS: Final = 2
# Seconds between two looks at them.
_WATCH: Final = 0.7
# How often things are renewed that live for a day or more, in beats.
_RENEWED_EVERY: Final = 200
_INBOX_TTL: Final = 3600.0


class Worker:
    """One process among those that serve together.

    Args:
        backend: the store; opened by `start`.
        keys: seal what clients carry; from the store if they are not given.
        lease: seconds of silence after which a worker counts as lost.
        patience: seconds after which a store that does not answer is reported.

    Attributes:
        id: names it among the others; a new one after it was taken over.
        epoch: says whether the store is still the same one.
        losses: how often it was found to have lost its data.
        valid_until: when the lease runs out, by the clock of the loop.
        is_connected: whether the store answered when it was last asked.
        metrics: counts what happens.
        is_draining: whether an operator has asked it to end.
    """

    def __init__(
        self, backend: Backend, keys: KeyRing | None, *, lease: float = 5.0, patience: float = 5.0
    ) -> None:
        self.metrics = WorkerMetrics()
        self.backend: Backend = MeasuredBackend(backend, self.metrics, patience=patience)
        self._given_keys = keys
        self._secret = b""
        self.keys: KeyRing
        self.lease = lease
        self.patience = patience
        self.broadcasts = Broadcasts(self)
        self.inbox = Inbox(self)
        self.id = ""
        self.epoch = ""
        self.losses = 0
        self.is_connected = False
        self.is_draining = False
        self._on_lost: list[OnLost] = []
        self._on_late: list[Callable[[], None]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._taking: dict[str, asyncio.Task[None]] = {}
        self._version = 0
        self.valid_until = 0.0
        self._silent_since: float | None = None
        self._clock: Callable[[], float] = time.monotonic
        self._offset = 0.0
        self._started = 0.0
        self._reap_after = 0.0
        self._beats = 0
        self._known: list[str] = []
        self._listed = -math.inf
        self._renewing: asyncio.Task[bool] | None = None
        self.on("drain", self._drain)

    # -- what the layers above use

    def on(self, kind: str, take: TakeMessage) -> None:
        """Call something with the body of each message of a kind to this worker."""
        self.inbox.on(kind, take)

    def reports_of(self, collect: Callable[[], list[MetricFamily]]) -> WorkerReports:
        """Return what writes the counts of this worker to the store, and reads those of others."""
        return WorkerReports(self.backend, collect)

    async def send(self, worker: str, kind: str, body: bytes) -> None:
        """Send a message to a worker; returns once the store has it."""
        self.metrics.messages_sent += 1
        inbox = names.inbox_of(worker)
        message = encode_message(kind, body, self.id)
        await self.backend.append(inbox, [message], ttl=_INBOX_TTL, keep=10_000, notify=(inbox,))

    def on_worker_lost(self, callback: OnLost) -> None:
        """Call something with the id of a lost worker, on the worker that takes over from it.

        It may be called again for the same id if this worker is lost, too, before it returns.
        """
        self._on_lost.append(callback)

    def on_late(self, callback: Callable[[], None]) -> None:
        """Call something when the lease has run out: nothing that is cached can be relied on.

        The id of the worker may be a new one.
        """
        self._on_late.append(callback)

    async def is_alive(self, worker: str) -> bool:
        """Whether a worker has a lease."""
        return worker == self.id or await self.backend.get(names.lease_of(worker)) is not None

    async def publish(self, kind: str, body: bytes) -> None:
        """Send a message to all workers, this one too."""
        await self.broadcasts.publish(kind, body)

    def on_broadcast(self, kind: str, hear: Callable[[bytes], None]) -> None:
        """Call something with the body of each message of a kind to all workers."""
        self.broadcasts.on(kind, hear)

    def now(self) -> float:
        """Return the time of the store, as exactly as it was last heard of."""
        return self._clock() + self._offset

    def is_valid(self, now: float) -> bool:
        """Whether the lease has not run out, so that what is cached here can be relied on."""
        return now < self.valid_until

    @property
    def unready_reason(self) -> str | None:
        """Why no new requests should be sent here; None if they may."""
        if self.is_draining:
            return "the worker is draining"
        since = self._silent_since
        if since is not None and self._clock() - since > self.patience:
            return "the store does not answer"  # everyone may ask; the log says which store
        if since is None and self._clock() >= self.valid_until + self.patience:
            return "the lease of the worker has run out"
        if not self._tasks:
            return "the worker has not started"
        return None

    async def keep_recovery_record(self, record: str) -> None:
        """Note something that another worker has to end or to go on with if this one is lost."""
        await self.backend.add(names.recovery_records_of(self.id), [record], ttl=_DAY)

    async def drop_recovery_record(self, *records: str, worker: str | None = None) -> None:
        """Forget what is done."""
        await self.backend.remove(names.recovery_records_of(worker or self.id), records)

    # -- starting and stopping

    async def start(self) -> None:
        """Open the store, and join the other workers.

        Raises:
            ConfigurationError: the store is remote, and no keys are given.
            StoreUnavailable: the store cannot be reached.
        """
        loop = asyncio.get_running_loop()
        self._clock = loop.time
        await self.backend.open()
        self._offset = await self.backend.now() - self._clock()
        self._started = self.now()
        if self._given_keys is None:
            self._secret = await self._shared_secret()
        self.keys = self._given_keys or KeyRing([self._secret])
        await self.renew_epoch()
        await self._seal_epoch_anew()
        await self._join()
        await self.broadcasts.start()
        self._reap_after = self._clock() + self.lease
        self._tasks = [
            loop.create_task(self._supervise(work), name=f"accord-{name}")
            for name, work in (
                ("lease", self._beat_forever),
                ("watch", self._watch_forever),
                ("inbox", self.inbox.follow_forever),
                ("broadcasts", self.broadcasts.follow_forever),
            )
        ]

    async def stop(self) -> None:
        """Leave the other workers: there is nothing to take over."""
        taking = dict(self._taking)
        for task in (*self._tasks, *taking.values()):
            task.cancel()
        if self._tasks:
            await asyncio.wait([*self._tasks, *taking.values()])
        self._tasks = []
        with suppress(StoreError):
            for lost in taking:  # others go on with it
                await self._give_claim_up(lost)
            if not await self.backend.count(names.recovery_records_of(self.id)):
                await self.backend.remove(names.WORKERS, [self.id])
            await self.backend.delete(names.lease_of(self.id))
        await self.backend.close()

    async def _shared_secret(self) -> bytes:
        """Return the key that workers share if none is given."""
        made = os.urandom(32).hex().encode()
        try:
            await self.backend.put(names.SECRET, made, ttl=_EPOCH_TTL, expect=0)
        except Conflict as error:
            await self.backend.touch(names.SECRET, ttl=_EPOCH_TTL)
            return bytes(error.record.value)
        return made

    async def renew_epoch(self) -> str:
        """Return the epoch of the store; a store that has lost its data begins another one."""
        before = self.epoch
        self.epoch = await self._find_epoch() or await self._replace_epoch()
        if before and self.epoch != before:
            await self._note_lost_data()
        return self.epoch

    async def _find_epoch(self) -> str | None:
        """Return the epoch, a new one in a new store; None if its record is damaged."""
        made = f"{int(self.now()):x}-{os.urandom(6).hex()}"
        try:
            await self.backend.put(names.EPOCH, made.encode(), ttl=_EPOCH_TTL, expect=0)
        except Conflict as error:
            found = bytes(error.record.value)
            if found.startswith(SEALED):
                raise StoreError(
                    "the store is sealed: give the keys that its other workers have"
                ) from None
            return found.decode() if _EPOCH.fullmatch(found) else None
        except DamagedRecord:
            return None
        return made

    async def _replace_epoch(self) -> str:
        """Begin another epoch, as if the store had lost its data: otherwise no worker could serve.

        Raises:
            StoreError: the record is damaged again.
        """
        log.error("the record %r of the store is damaged; another epoch begins", names.EPOCH)
        await self.backend.delete(names.EPOCH)
        found = await self._find_epoch()
        if found is None:
            raise StoreError(f"the record {names.EPOCH!r} of the store is damaged, time and again")
        return found

    @property
    def epoch_began(self) -> float:
        """When the store began, or had lost its data, in seconds since 1970."""
        return float(int(self.epoch.partition("-")[0], 16))

    async def _seal_epoch_anew(self) -> None:
        """Seal the record that outlives all others with the first key, so that others can go."""
        stored = await self.backend.get(names.EPOCH)
        if stored is not None:
            with suppress(Conflict):
                await self.backend.put(
                    names.EPOCH, stored.value, ttl=_EPOCH_TTL, expect=stored.version
                )

    async def _note_lost_data(self) -> None:
        """Go on with a store that is empty, or has what others have written since then."""
        log.warning("the store has lost its data")
        self.losses += 1
        self.inbox.begin_anew()
        self.broadcasts.begin_anew()
        self.distrust()
        if self._given_keys is None:
            # Sessions keep their ids, which those that join later must be able to open.
            with suppress(Conflict):
                await self.backend.put(names.SECRET, self._secret, ttl=_EPOCH_TTL, expect=0)

    async def is_same_store(self) -> bool:
        """Whether the store has kept its data since this worker was last late or started."""
        before = self.epoch
        return await self.renew_epoch() == before

    async def _join(self) -> None:
        """Take a new id, with a lease and an inbox."""
        id, began = os.urandom(_ID_BYTES).hex(), self._clock()
        # Whatever fails on the way, another id is tried: one without a lease is not in use.
        await self.inbox.open(id)
        await self.backend.add(names.WORKERS, [id], ttl=_DAY)
        lease = names.lease_of(id)
        version = await self.backend.put(lease, self._facts(id), ttl=self.lease, expect=0)
        self.id, self._version = id, version
        self._note_beat(began)

    def _facts(self, id: str | None = None) -> bytes:
        host = socket.gethostname()
        facts = WorkerFacts(id or self.id, host, os.getpid(), self._started, __version__)
        return msgspec.json.encode(facts)

    async def _supervise(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run something for ever: what fails is logged, and begun again."""
        while True:
            try:
                await work()
            except StoreUnavailable as error:
                self.note_silence(error)
            except Exception:
                log.exception("a part of the worker failed, and is begun again")
            await asyncio.sleep(min(0.5, self.lease / 6) * random.uniform(0.5, 1.0))  # noqa: S311

    # -- the lease

    def note_silence(self, error: AccordError) -> None:
        """Note that the store does not answer."""
        if self._silent_since is None:
            log.warning("the store does not answer: %s", error)
            self._silent_since = self._clock()
        self.is_connected = False
        # When it is back, the leases of all the others may have run out while it was away.
        self._reap_after = self._clock() + 2 * self.lease

    def _note_beat(self, began: float) -> None:
        self.valid_until = began + self.lease
        if self._silent_since is not None:
            seconds = self._clock() - self._silent_since
            log.warning("the store answers again, after %.1f s", seconds)
            self._silent_since = None
        self.is_connected = True

    async def _beat_forever(self) -> None:
        pause = self.lease / 3
        while True:
            await self.renew_lease()
            self._beats += 1
            if self._beats % _RENEWED_EVERY == 0:
                await self._renew_rest()
            self.metrics.lease_margin = self.valid_until - self._clock()
            await asyncio.sleep(pause * random.uniform(0.8, 1.0))  # noqa: S311

    async def _watch_forever(self) -> None:
        """Look for lost workers: they are found within a second after their lease has ended."""
        pause = min(_WATCH, self.lease / 3)
        while True:
            await asyncio.sleep(pause * random.uniform(0.8, 1.0))  # noqa: S311
            if self._clock() >= self._reap_after:
                await self._look_after_neighbours()

    async def renew_lease(self) -> bool:
        """Renew the lease; return whether what is cached here may be relied on.

        Callers at the same time share one renewal.
        """
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew_lease())
        return await asyncio.shield(self._renewing)

    async def _renew_lease(self) -> bool:
        began = self._clock()
        was_valid = self.is_valid(began)
        # Others wait for an acknowledgement no longer than a lease: what they sent is taken first.
        await self.inbox.take_all()
        lease = names.lease_of(self.id)
        try:
            version = await self.backend.put(
                lease, self._facts(), ttl=self.lease, expect=self._version
            )
        except Conflict as error:
            if error.record is not None:  # an earlier attempt was carried out after all
                self._version = error.record.version
                return await self._renew_lease()
            return await self._return_late(began)
        self._version = version
        self._note_beat(began)
        return was_valid

    async def _return_late(self, began: float) -> bool:
        """Go on after the lease has run out: as before, or under a new id if it was taken over."""
        takeover = names.takeover_of(self.id)
        is_lost = await self.backend.get(takeover) is not None
        if not is_lost:
            with suppress(Conflict):
                self._version = await self.backend.put(
                    names.lease_of(self.id), self._facts(), ttl=self.lease, expect=0
                )
            is_lost = await self.backend.get(takeover) is not None
        await self.renew_epoch()
        if is_lost:
            lost = self.id
            log.warning("worker %s was taken over while it was stalled, and begins anew", lost)
            await self.backend.delete(names.lease_of(lost))
            await self._join()
            # What it began under the old id is not waited for any more, also if the other worker
            # found that it was only late.
            work = self._take_over(lost)
            self._taking[lost] = asyncio.create_task(work, name="accord-takeover")
        else:
            await self.backend.add(names.WORKERS, [self.id], ttl=_DAY)
            self._note_beat(began)
        self.distrust()  # others do not wait for the acknowledgements of a worker without a lease
        return False

    def distrust(self) -> None:
        """Rely on nothing that is cached here: messages of other workers may have been missed."""
        for callback in self._on_late:
            callback()

    async def _renew_rest(self) -> None:
        await self.backend.add(names.WORKERS, [self.id], ttl=_DAY)
        await self.backend.touch(names.EPOCH, ttl=_EPOCH_TTL)
        await self.backend.touch(names.SECRET, ttl=_EPOCH_TTL)
        await self.broadcasts.extend()
        self._offset = await self.backend.now() - self._clock()

    # -- the others

    async def _look_after_neighbours(self) -> None:
        """Find the lost among the workers that follow this one in the order of their ids."""
        now = self._clock()
        if now - self._listed > self.lease:
            self._known = sorted(await self.backend.members(names.WORKERS, limit=10_000))
            self._listed = now
        others = [id for id in self._known if id != self.id]
        following = [id for id in others if id > self.id] + [id for id in others if id < self.id]
        alive = 0
        for id in following:
            if alive >= _NEIGHBOURS:
                return
            if await self.backend.get(names.lease_of(id)) is not None:
                alive += 1
            elif await self._claim(id):
                self._known = [each for each in self._known if each != id]
                work = self._take_over(id)
                self._taking[id] = asyncio.create_task(work, name="accord-takeover")

    async def _claim(self, lost: str) -> bool:
        """Return whether this worker is the one that takes over from a lost one."""
        if lost in self._taking:
            return False
        takeover, ttl = names.takeover_of(lost), max(60.0, 10 * self.lease)
        own = self.id.encode()
        try:
            await self.backend.put(takeover, own, ttl=ttl, expect=0)
        except Conflict as error:
            claimed = error.record
            if claimed is None:
                return False
            # An earlier attempt of ours may have been carried out after all. And if the one that
            # was to take over is lost itself, another one has to do it.
            if claimed.value != own and await self.is_alive(claimed.value.decode()):
                return False
            try:
                await self.backend.put(takeover, own, ttl=ttl, expect=claimed.version)
            except Conflict:
                return False
        if await self.backend.get(names.lease_of(lost)) is not None:  # it was late, not lost
            await self._give_claim_up(lost)
            return False
        return True

    async def _has_claim(self, lost: str) -> int:
        """Return the version of this worker's claim to take over from a lost one; 0 without it."""
        claimed = await self.backend.get(names.takeover_of(lost))
        is_own = claimed is not None and claimed.value == self.id.encode()
        return claimed.version if claimed is not None and is_own else 0

    async def _give_claim_up(self, lost: str) -> None:
        version = await self._has_claim(lost)
        if version:
            with suppress(Conflict):
                await self.backend.delete(names.takeover_of(lost), expect=version)

    async def _take_over(self, lost: str) -> None:
        log.warning("worker %s is lost; its work is taken over", lost)
        self.metrics.takeovers += 1
        try:
            await self._call_lost(lost)
            # A stalled worker may begin something before it notices that it was taken over.
            await asyncio.sleep(2 * self.lease)
            await self._call_lost(lost)
            # If this one was stalled itself, another one may have had the claim since then, or the
            # lost worker may have come back.
            if await self._has_claim(lost):
                await self.backend.remove(names.WORKERS, [lost])
                await self.backend.drop(names.inbox_of(lost))
        except StoreError as error:
            log.warning("the work of worker %s is taken over later: %s", lost, error)
            with suppress(StoreError):
                await self._give_claim_up(lost)
        except Exception:
            log.exception("the work of worker %s could not be taken over", lost)
        finally:
            self._taking.pop(lost, None)
            self._known = [each for each in self._known if each != lost]

    async def _call_lost(self, lost: str) -> None:
        for callback in self._on_lost:
            await callback(lost)

    def _drain(self, body: bytes) -> None:
        log.warning("an operator has asked this worker to drain")
        self.is_draining = True
