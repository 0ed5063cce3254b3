"""What several workers share of one session: taken from a record of the store, and put into it.

A worker has its own `Session` object for a session of the store. It begins with what the record
says, and takes over what other workers change.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from accord.errors import InternalError, LocalProtocolError, MessageTooLarge
from accord.protocol import codec
from accord.protocol.exchange import Exchange
from accord.protocol.party import Peer, capability_paths
from accord.protocol.revisions import REVISIONS, Phase
from accord.server.access import Visibility
from accord.server.hub import (
    LIST_KINDS,
    UPDATED,
    ServerChange,
    decode_change,
    list_change,
    resource_change,
)
from accord.sharing.workers import names
from accord.sharing.workers.session_records import SessionRecord
from accord.types import CallToolParams, Implementation, LoggingLevel, RevisionId

if TYPE_CHECKING:
    from accord.server.core import ServerCore
    from accord.server.session import Session
    from accord.sharing.workers.worker import Worker

log = logging.getLogger("accord.server")

# It is sent to every worker that serves the session, with each change.
_STATE_MOST: Final = 256 * 1024
_replace: Final = msgspec.structs.replace
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_client: Final = msgspec.json.Decoder(Implementation | None).decode
_RELAYED: Final = frozenset({UPDATED, *(list_change(kind).name for kind in LIST_KINDS)})
_SIMPLE: Final = (
    "revision",
    "capabilities",
    "client",
    "is_initialized",
    "log_level",
    "visibility",
)
# No shorter than the outbox of a session that is used lasts.
_DAY: Final = 86_400.0


class SessionSharing:
    """Puts sessions of a server into records, and back."""

    def __init__(self, server: "ServerCore") -> None:
        self._server = server

    # -- from the record

    def restore(self, session: "Session", record: SessionRecord) -> None:
        """Let a new session go on where another worker, or an earlier session object, has left."""
        session.is_shared = True
        self._apply_opening(session, record)
        if record.subscriptions:
            session.subscriptions = set(record.subscriptions)
            session.server.hub.listen(session, [(UPDATED, uri) for uri in record.subscriptions])
        if record.visibility:
            session.visibility = Visibility.decode(record.visibility)
        if record.state:
            session.state_values = _decode_state(record.state)
        session.is_changed = False

    def _apply_opening(self, session: "Session", record: SessionRecord) -> None:
        if not record.revision:
            return
        row = REVISIONS[cast("RevisionId", record.revision)]
        declared = capability_paths(frozenset(record.capabilities))
        conversation = session.endpoint.conversation
        if conversation.phase is not Phase.READY:
            conversation.begin(
                row,
                server=self._server.capability_paths(),
                client=declared,
                ready=record.is_initialized,
            )
        level = self._server.log_level
        if record.log_level:
            level = cast("LoggingLevel", record.log_level)
        peer = session.endpoint.peer
        known = self._server.unknown_peer if peer is None else peer
        if known is self._server.unknown_peer or (known.revision, known.log_level) != (row, level):
            client, settings = _decode_client(record.client), msgspec.json.decode(record.extensions)
            session.endpoint.peer = Peer(row, client, declared, level, settings)

    def apply(self, session: "Session", base: SessionRecord, record: SessionRecord) -> None:
        """Take over what another worker has changed, but for what was changed here meanwhile.

        Args:
            session: the session.
            base: the record that it had before.
            record: the new one.
        """
        if (record.revision, record.is_initialized, record.log_level) != (
            base.revision,
            base.is_initialized,
            base.log_level,
        ):
            self._apply_opening(session, record)
        if record.subscriptions != base.subscriptions:
            self._apply_subscriptions(session, base, record)
        if record.visibility != base.visibility:
            rules = record.visibility
            session.visibility = Visibility.decode(rules) if rules else None
        if record.state != base.state:
            self._apply_state(session, base, record)

    def _apply_subscriptions(
        self, session: "Session", base: SessionRecord, record: SessionRecord
    ) -> None:
        own = session.subscriptions or set()
        gone, new = base.subscriptions - record.subscriptions, record.subscriptions
        session.subscriptions = (own - gone) | (new - base.subscriptions)
        hub = session.server.hub
        hub.ignore(session, [(UPDATED, uri) for uri in gone])
        hub.listen(session, [(UPDATED, uri) for uri in session.subscriptions])

    def _apply_state(self, session: "Session", base: SessionRecord, record: SessionRecord) -> None:
        """Take values of other workers; handlers that run keep the dictionary that they have."""
        kept = session.state if session.state_values is None else session.state_values
        own = {key: _encode_own(value) for key, value in kept.items()}
        for key in base.state.keys() | record.state.keys():
            if own.get(key) != base.state.get(key):
                continue  # changed here, too: this value is saved after the other one
            if key not in record.state:
                kept.pop(key, None)
            elif record.state[key] != base.state.get(key):
                kept[key] = msgspec.msgpack.decode(record.state[key])

    # -- to the record

    def is_changed(self, session: "Session") -> bool:
        """Whether something may have changed here that the record should have."""
        return session.is_changed or session.state_values is not None

    def note_opening(self, session: "Session") -> None:
        """Note that a message may have opened the session, or confirmed that."""
        session.is_changed = True

    def describe(
        self, session: "Session", base: SessionRecord
    ) -> Callable[[SessionRecord], SessionRecord]:
        """Return what puts the present state of a session into a record.

        Args:
            session: the session.
            base: the record that it had before.

        Raises:
            InternalError: a value of `session.state` cannot be kept in a store.
        """
        session.is_changed = False
        peer, conversation = session.peer, session.endpoint.conversation
        is_begun = conversation.phase is not Phase.OPENING and peer.revision.handshake
        is_begun = is_begun and conversation.revision is not None
        level = peer.log_level if peer.log_level != self._server.log_level else ""
        rules = b"" if session.visibility is None else session.visibility.encode()
        values = session.state_values
        state = {} if values is None else encode_state(values, base.state)
        subscriptions = frozenset(session.subscriptions or ())

        def put(record: SessionRecord) -> SessionRecord:
            changes: dict[str, Any] = {
                "log_level": level or "",
                "visibility": rules,
                "state": state,
                "subscriptions": subscriptions,
            }
            if is_begun:
                changes["revision"] = peer.revision.id
                changes["capabilities"] = tuple(sorted(peer.capabilities))
                changes["client"] = msgspec.json.encode(peer.info)
                changes["extensions"] = msgspec.json.encode(peer.extensions)
                is_ready = conversation.phase is Phase.READY
                changes["is_initialized"] = record.is_initialized or is_ready
            return _replace(record, **changes)

        return put

    def merge(
        self, session: "Session", base: SessionRecord
    ) -> Callable[[SessionRecord], SessionRecord | None]:
        """Return what puts into a record that was changed since then what was changed here.

        Args:
            session: the session.
            base: the record that it had before.

        Raises:
            InternalError: a value of `session.state` cannot be kept in a store.
        """
        own = self.describe(session, base)(base)

        def put(record: SessionRecord) -> SessionRecord | None:
            merged = {
                name: getattr(own, name)
                for name in _SIMPLE
                if getattr(own, name) != getattr(base, name)
            }
            state = _merge(record.state, base.state, own.state)
            added = own.subscriptions - base.subscriptions
            removed = base.subscriptions - own.subscriptions
            changed = _replace(
                record,
                **merged,
                state=state,
                subscriptions=(record.subscriptions | added) - removed,
            )
            return None if changed == record else changed

        return put

    # -- while it is served

    def relay(self, session: "Session", body: bytes) -> bytes | None:
        """Return the notification of a change that another worker has published.

        Returns:
            None if the client does not hear of it.
        """
        try:
            return self._encode(session, decode_change(body))
        except ValueError:
            return None

    def relay_everything(self, session: "Session") -> list[bytes]:
        """Return a notification of everything that the client hears of: some may be missed."""
        changes = [list_change(kind) for kind in LIST_KINDS]
        changes += [resource_change(uri) for uri in sorted(session.subscriptions or ())]
        encoded = (self._encode(session, change) for change in changes)
        return [each for each in encoded if each is not None]

    def _encode(self, session: "Session", change: ServerChange) -> bytes | None:
        if change.key is not None and change.key not in (session.subscriptions or ()):
            return None
        if change.name not in _RELAYED or not session.is_ready:
            return None
        try:
            return session.endpoint.notify(change.name, change.params)
        except (LocalProtocolError, MessageTooLarge) as error:
            log.debug("left out %s: %s", change.name, error)
            return None

    def is_repeatable(self, exchange: Exchange) -> bool:
        """Whether a request may be served again by another worker if this one is lost."""
        params = exchange.params
        if exchange.name == "tasks/result":  # it waits, and does nothing itself
            return True
        if not isinstance(params, CallToolParams):
            return False
        entry = self._server.tool_entries.get(params.name)
        return entry is not None and entry.facts.idempotent


def encode_state(kept: dict[str, Any], base: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the values of `session.state` as bytes.

    A value that cannot be kept is replaced by the one before, so that later requests go on.

    Args:
        kept: the values.
        base: those that the record has.

    Raises:
        InternalError: a value cannot be kept in a store, or they are too large; the log says which.
    """
    encoded: dict[str, bytes] = {}
    is_refused = False
    for key, value in [*kept.items()]:
        data = base.get(key)
        found = _encode_value(key, value, data)
        if found is not None:
            encoded[key] = found
            continue
        is_refused = True
        del kept[key]
        if data is not None:
            kept[key] = msgspec.msgpack.decode(data)
    size = sum(map(len, encoded.values()))
    if size > _STATE_MOST:
        log.error(
            "session.state has %d bytes, more than %d: keep large values elsewhere, under a key",
            size,
            _STATE_MOST,
        )
        kept.clear()
        kept.update(_decode_state(base))
        is_refused = True
    if is_refused:
        raise InternalError("internal error")
    return encoded


def _encode_value(key: object, value: object, before: bytes | None) -> bytes | None:
    """Return a value as bytes; None if other workers would not read the same."""
    try:
        data = _encode(value)
        is_same = data == before or msgspec.msgpack.decode(data) == value
    except (TypeError, ValueError, OverflowError, RecursionError):
        is_same = False
    if is_same and isinstance(key, str):
        return data
    log.error(
        "session.state[%r] is a %s, which is not kept: several workers share text, numbers, bytes, "
        "lists and dictionaries",
        key,
        type(value).__name__,
    )
    return None


def _encode_own(value: object) -> bytes | None:
    """Return a value as bytes, to compare it with others; None if it cannot be kept."""
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def _decode_state(state: Mapping[str, bytes]) -> dict[str, Any]:
    return {key: msgspec.msgpack.decode(value) for key, value in state.items()}


def _merge(
    present: Mapping[str, bytes], base: Mapping[str, bytes], own: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return the values of other workers with those that were changed here since `base`."""
    keys: Iterable[str] = present.keys() | own.keys()
    merged = {}
    for key in keys:
        chosen = present if own.get(key) == base.get(key) else own
        if key in chosen:
            merged[key] = chosen[key]
    return merged


async def notify_session(worker: "Worker", session_id: str, name: str, params: Any) -> bool:
    """Send a notification to the client of a session; returns whether there is such a session.

    Args:
        worker: that of this process.
        session_id: as the client sends it.
        name: the method.
        params: those of the notification, in the shape of its revision.

    Raises:
        StoreError: the store does not answer.
    """
    from accord.sharing.sessions.streams import NONCE_BYTES
    from accord.sharing.workers.session_tokens import SessionTokens

    backend, token = worker.backend, SessionTokens(worker.keys).open(session_id.encode())
    if token is None or await backend.get(names.session_of(token.sid)) is None:
        return False
    entry = os.urandom(NONCE_BYTES) + codec.encode_notification(name, params)
    outbox = names.outbox_of(token.sid)
    await backend.append(outbox, [entry], ttl=_DAY, notify=(outbox,))
    return True
