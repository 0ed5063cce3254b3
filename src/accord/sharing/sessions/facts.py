"""What the record and the id of a session say, made from each other."""

from typing import TYPE_CHECKING

import msgspec

from accord.principal import Principal
from accord.sharing.workers.session_records import SessionRecord
from accord.sharing.workers.session_tokens import FORMAT, SessionToken, identify_caller

if TYPE_CHECKING:
    from accord.sharing.sessions.session import SharedSession


def make_token(session: "SharedSession", record: SessionRecord, epoch: str) -> SessionToken:
    """Return what the id of a new session says."""
    peer = session.session.endpoint.peer
    info = None if peer is None else peer.info
    return SessionToken(
        FORMAT,
        session.sid,
        epoch,
        record.created,
        identify_caller(session.principal),
        record.revision,
        record.capabilities,
        ("", "") if info is None else (info.name, info.version),
        record.is_older_form,
    )


def make_record(
    token: SessionToken, principal: Principal | None, *, broadcasts: int = 0
) -> SessionRecord:
    """Return a record for a session of which only the id is left."""
    name, version = token.client
    client = msgspec.json.encode({"name": name, "version": version}) if name else b"null"
    return SessionRecord(
        created=token.issued,
        revision=token.revision,
        capabilities=token.capabilities,
        client=client,
        principal=describe_caller(principal),
        is_initialized=True,
        broadcasts=broadcasts,
    )


def describe_caller(principal: Principal | None) -> str:
    """Return the name of a caller, for operators."""
    return "" if principal is None else principal.subject


def mark_ended(record: SessionRecord) -> SessionRecord | None:
    """Return the record of a session that has ended; None if it says so already."""
    return None if record.is_ended else msgspec.structs.replace(record, is_ended=True)
