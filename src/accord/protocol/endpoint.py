"""One party of a conversation: bytes in, events out; intentions in, bytes out.

A message of ours that would break a rule raises before a byte leaves. One of the peer is answered,
ignored or accepted, as the rule says. An endpoint never reads or writes by itself, and decodes
every body once.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from accord.errors import (
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    MethodNotFound,
    RemoteProtocolError,
    RequestError,
    UnsupportedRevision,
    lower_first,
)
from accord.protocol import bodies, codec, shape
from accord.protocol.bodies import BY_NAME, READERS, decode_params, decode_result, second_reading
from accord.protocol.conversation import Conversation
from accord.protocol.exchange import (
    META_VERSION,
    BatchReply,
    Event,
    Exchange,
    FaultReceived,
    NotificationReceived,
    Refused,
    RequestReceived,
    ResultReceived,
)
from accord.protocol.jsonrpc import (
    FAULT,
    NOTIFICATION,
    REQUEST,
    RESULT,
    Batch,
    BeyondLimits,
    ErrorBody,
    Frame,
    MalformedMessage,
    id_to_answer,
)
from accord.protocol.party import NOBODY, Peer, RawMeta, read_introduction
from accord.protocol.revisions import REVISIONS, Revision
from accord.protocol.violation import (
    CLIENT,
    OTHER,
    SERVER,
    Party,
    Violation,
    find_refusal,
    refuse_for_code,
    refuse_for_reaction,
)
from accord.types._base import JsonObject, RequestId, RevisionId

if TYPE_CHECKING:
    from accord.protocol.unknown import UnknownMembers


NO_ROWS: Final[dict[str, Revision]] = {}
_PAGES_MOST: Final = 16
# The codes of errors that differ between revisions.
_NOT_FOUND: Final = -32002
_INTERNAL_ERROR: Final = -32603
_UNDEFINED: Final = frozenset(range(-32099, -32019)) - {-32020, -32021, -32022}


class EndpointSettings:
    """What the endpoints of all sessions of a server share; see `Endpoint` for the arguments."""

    __slots__ = (
        "check_size",
        "codec",
        "enforce",
        "only_row",
        "pages_within_limits",
        "refuse_own",
        "result_meta",
        "result_meta_text",
        "revisions",
        "role",
        "stateless_rows",
        "surely_fine",
    )

    def __init__(
        self,
        role: Party,
        *,
        revisions: Sequence[RevisionId] | None = None,
        limits: codec.Limits | None = None,
        enforce: bool = True,
        result_meta: JsonObject | None = None,
    ) -> None:
        self.role: Party = role
        self.revisions = tuple(revisions or [row.id for row in REVISIONS.values()])
        self.enforce = enforce
        self.result_meta = result_meta or None
        # Nearly all results have no other, so that it need not be encoded with each of them.
        self.result_meta_text = msgspec.Raw(msgspec.json.encode(result_meta))
        self.refuse_own = _refuse_all if enforce else None
        rows = [REVISIONS[id] for id in self.revisions]
        self.stateless_rows = {str(row.id): row for row in rows if not row.handshake}
        # The revision of requests that name none, if there is no handshake to agree on one.
        is_only = len(self.stateless_rows) == len(rows) and role == SERVER
        self.only_row = rows[0] if is_only else None
        self.codec = codec.codec_for(limits or codec.Limits())
        self.surely_fine = self.codec.surely_fine
        # Pages are encoded once, and are the same bytes for every client.
        self.pages_within_limits: set[bytes] = set()
        self.check_size = self.codec.check_size if enforce else codec.skip_size_check

    def keep_page(self, page: bytes) -> None:
        """Remember a page whose values and levels are within the limits."""
        if len(self.pages_within_limits) >= _PAGES_MOST:
            self.pages_within_limits.clear()
        self.pages_within_limits.add(page)

    def refuse_revision(self, named: object) -> UnsupportedRevision:
        """Return the error for a request of a revision that is not spoken here."""
        return UnsupportedRevision(
            f"revision {named!r:.100} is not supported",
            data={"supported": list(self.revisions), "requested": named},
        )


def _refuse_all(violations: Sequence[Violation]) -> bool:
    return True


class Endpoint:
    """One party using the conversation.

    Args:
        role: which party we are.
        revisions: the ids of those we speak; all of them by default.
        limits: how large a message may be.
        enforce: whether our own breaches raise; a checker that misbehaves on purpose says no.
        request_meta: what revisions without handshake need in the `_meta` of each request.
        result_meta: the same for results.
        settings: all of these but `request_meta`, where other endpoints have the same.
    """

    __slots__ = (
        "_codec",
        "_latest",
        "_settings",
        "_stateless_rows",
        "conversation",
        "next_id",
        "other",
        "peer",
        "request_meta",
        "role",
    )

    def __init__(
        self,
        role: Party,
        *,
        revisions: Sequence[RevisionId] | None = None,
        limits: codec.Limits | None = None,
        enforce: bool = True,
        request_meta: JsonObject | None = None,
        result_meta: JsonObject | None = None,
        settings: EndpointSettings | None = None,
    ) -> None:
        self._settings = settings = settings or EndpointSettings(
            role, revisions=revisions, limits=limits, enforce=enforce, result_meta=result_meta
        )
        self.role: Party = settings.role
        self.other: Party = OTHER[role]
        self.request_meta = request_meta
        self.conversation = Conversation()
        self.peer: Peer | None = None
        """The facts about the other side for the next request; set by the driver."""
        self._codec = settings.codec
        self._stateless_rows = settings.stateless_rows
        self.next_id = 0
        # The client of the last request that stood on its own: nearly always that of the next.
        self._latest = NOBODY

    @property
    def revision(self) -> Revision:
        """The revision of messages that do not name one."""
        return self.conversation.current

    def serve_session_only(self) -> None:
        """Serve no request that names its own revision; transports may serve those elsewhere."""
        self._stateless_rows = NO_ROWS

    # -- receiving

    def receive(self, data: bytes) -> Sequence[Event]:
        """Receive one message of the peer; returns one event, for a batch several."""
        try:
            decoded = self._codec.decode(data)
        except MalformedMessage as malformed:
            return (self._refuse_malformed(malformed, None),)
        if type(decoded) is Batch:
            return self._receive_batch(decoded)
        name, id = decoded.method, decoded.id
        if name is UNSET:
            return (self._receive_reply(decoded),)
        if id is UNSET:
            return (self._receive_notification(decoded),)
        return (self._receive_request(decoded, id, name, None),)

    def receive_request(self, frame: Frame) -> Event:
        """Receive a request of the peer that is decoded already."""
        assert frame.method is not UNSET
        return self._receive_request(frame, frame.id, frame.method, None)

    def receive_malformed(self, malformed: MalformedMessage) -> Sequence[Event]:
        """Receive a message that the transport had to drop."""
        return (self._refuse_malformed(malformed, None),)

    def _receive_batch(self, batch: Batch) -> Sequence[Event]:
        parts = [part for part, _ in batch.parts]
        if any(isinstance(part, Frame) and part.method == "initialize" for part in parts):
            why = "initialize may not be part of a batch"
            return self._refuse_batch(parts, "lifecycle.initialize.not-in-batch", why)
        if not self.revision.batching:
            why = f"batches are not part of {self.revision.id}"
            return self._refuse_batch(parts, "jsonrpc.batch.removed", why)
        reply = BatchReply()
        events = [self._receive_part(part, reply) for part in parts]
        whole = reply.release()
        if whole is not None:
            # So far nothing but refusals can have been answered.
            next(event for event in reversed(events) if isinstance(event, Refused)).reply = whole
        return events

    def _receive_part(self, part: Frame | MalformedMessage, batch: BatchReply) -> Event:
        if isinstance(part, MalformedMessage):
            return self._refuse_malformed(part, batch)
        if part.method is UNSET:
            return self._receive_reply(part)
        if part.id is UNSET:
            return self._receive_notification(part)
        batch.waiting += 1
        return self._receive_request(part, part.id, part.method, batch)

    def _refuse_batch(
        self, parts: Sequence[Frame | MalformedMessage], requirement: str, why: str
    ) -> Sequence[Event]:
        violations = [Violation(requirement, self.other, why)]
        refused: list[Event] = [Refused(why, None, violations)]
        if self.role == SERVER:
            # One message for each: where there are no batches, the answer cannot be one either.
            ids = [id for part in parts if (id := id_to_answer(part)) is not None]
            error = InvalidRequest(why)
            refused = [self._refuse(error, id, violations) for id in ids]
            refused = refused or [self._refuse(error, None, violations)]
        answers = [part.id for part in parts if isinstance(part, Frame) and part.method is UNSET]
        refused += [self._lose(id, why, violations) for id in answers if self._is_waiting(id)]
        return refused

    def _refuse_malformed(
        self, malformed: MalformedMessage, batch: BatchReply | None
    ) -> Refused | FaultReceived:
        why, id = str(malformed), malformed.id
        violations = [
            Violation(malformed.requirement, self.other, f"sends a malformed message: {why}")
        ]
        if malformed.kind not in (REQUEST, NOTIFICATION) and self._is_waiting(id):
            if isinstance(malformed, BeyondLimits):
                why = self._explain_loss(id, malformed)
            return self._lose(id, why, violations)
        # A client does not answer malformed input: the server is not waiting for anything, unless
        # it has asked more than we take. Nor does the sender of a reply, whose id would name some
        # other request over there.
        is_asked = malformed.kind == REQUEST and isinstance(malformed, BeyondLimits)
        if malformed.kind in (RESULT, FAULT) or (
            self.role != SERVER and not (is_asked and id is not None)
        ):
            return Refused(why, None, violations)
        if batch is not None:
            batch.waiting += 1
        return self._refuse(RequestError(why, code=malformed.code), id, violations, batch)

    def _explain_loss(self, id: Any, answer: BeyondLimits) -> str:
        name = self.conversation.party(self.role).open[id].name
        raised_by = "connect" if self.role == CLIENT else "Server"
        return (
            f"{name}: the answer {answer.excess}; "
            f"{raised_by}(..., limits=Limits({answer.setting}=...)) raises it"
        )

    def _is_waiting(self, id: Any) -> bool:
        return id in self.conversation.party(self.role).open

    def _lose(self, id: Any, why: str, violations: Sequence[Violation]) -> FaultReceived:
        """Fail a request of ours whose answer cannot be used."""
        exchange = self.conversation.party(self.role).open[id]
        self.conversation.lose(exchange)
        return FaultReceived(exchange, RemoteProtocolError(why, violations))

    def _refuse(
        self,
        error: RequestError,
        id: RequestId | None,
        violations: Sequence[Violation],
        batch: BatchReply | None = None,
    ) -> Refused:
        if self.role == CLIENT and not self.revision.server_requests:
            return Refused(error.message, None, violations)  # jsonrpc.client-no-responses
        data = UNSET if error.data is None else error.data
        reply = codec.encode_error(id, ErrorBody(error.code, error.message, data))
        return Refused(error.message, reply if batch is None else batch.add(reply), violations)

    def _receive_request(self, frame: Frame, id: Any, name: str, batch: BatchReply | None) -> Event:
        conversation = self.conversation
        only = self._settings.only_row if name != "initialize" else None
        revision, peer, raw = only or conversation.current, self.peer, frame.params
        fault: RequestError | None = None
        token = None
        try:
            params = READERS[name](raw)  # type: ignore[arg-type]  # UNSET raises TypeError
            meta = params.meta
            if meta is not None:
                params.meta = None  # only the exchange has all of it, and reads it when asked
        except (KeyError, TypeError, ValueError, RecursionError):
            params, meta, fault = second_reading(frame, name, conversation)
        if meta is not None:
            token = meta.token
            if token is not None:
                meta.token = None
                if token.__class__ not in (int, str):
                    why = "progressToken is neither a string nor an integer"
                    token, fault = None, fault or InvalidParams(why)
            version = meta.version
            # versioning.modern-error-is-not-legacy: an endpoint without a revision of this
            # kind must not answer as if, or clients would not fall back to initialize.
            if version is not UNSET and self._stateless_rows:
                row = self._stateless_rows.get(version) if version.__class__ is str else None
                if row is None:
                    return self._refuse(self._settings.refuse_revision(version), id, (), batch)
                revision, peer = row, self._latest.peer
                if meta != self._latest.words or batch is not None:
                    peer, meta_fault = self._read_peer(meta, row, name, batch)
                    fault = meta_fault or fault
        if not revision.handshake and (meta is None or meta.version is UNSET):
            fault = InvalidParams(f"{name}: _meta has no {META_VERSION}")
        method = revision.requests[self.other].get(name)
        exchange = Exchange(id, name, self.other, revision, method, token, peer, raw, params, batch)
        if fault is None and method is not None:
            violations = conversation.request(exchange, params, refuse_for_code)
            if not violations:
                return RequestReceived(exchange, params)
        else:
            step = conversation.step(self.other, frame, params, exchange=exchange)
            violations = conversation.judge(step)
        return self._receive_faulty(exchange, params, fault, violations)

    def _receive_faulty(
        self,
        exchange: Exchange,
        params: Any,
        fault: RequestError | None,
        violations: Sequence[Violation],
    ) -> Event:
        """Refuse a request, unless its violations have no answer."""
        name = exchange.name
        if exchange.method is None and not isinstance(fault, InvalidRequest):
            # Params mean nothing where the revision lacks the method.
            why = f"method {name!r:.100} does not exist in {exchange.revision.id}"
            fault = MethodNotFound(why)
        fault = find_refusal(name, violations) or fault
        if fault is not None:
            return self._refuse(fault, exchange.id, violations, exchange.batch)
        return RequestReceived(exchange, params, violations)

    def _read_peer(
        self, meta: RawMeta, revision: Revision, name: str, batch: BatchReply | None
    ) -> tuple[Peer | None, InvalidRequest | InvalidParams | None]:
        """Return the peer that a request without a handshake introduces, or the fault."""
        if batch is not None:
            why = f"{name}: a request that names its revision may not be part of a batch"
            return None, InvalidRequest(why)
        try:
            self._latest = read_introduction(meta, revision)
        except ValueError as error:
            return None, InvalidParams(f"{name}: {error}")
        return self._latest.peer, None

    def _receive_notification(self, frame: Frame) -> Event:
        name = frame.method
        assert name is not UNSET
        conversation = self.conversation
        method = BY_NAME.get(name)
        if method is None:
            return Refused(f"notification {name!r:.100} does not exist", is_ignored=True)
        params = None
        if not method.is_request:
            try:
                params = decode_params(frame, method, conversation.current)
            except RequestError as error:
                return Refused(error.message)
        step = conversation.step(self.other, frame, params)
        exchange = step.exchange
        if exchange is None and conversation.find_crossed(self.other, name, params):
            return Refused(f"{name}: the request was cancelled", is_ignored=True)
        violations = conversation.apply(step, refuse_for_reaction)
        for violation in violations:
            if violation.reaction is not None:
                return Refused(f"{name}: the {violation.party} {violation.why}", None, violations)
        event = NotificationReceived(name, params, exchange, violations)
        if name == "notifications/cancelled" and exchange is not None and exchange.batch:
            event.reply = exchange.batch.release()
        return event

    def _receive_reply(self, frame: Frame) -> Event:
        conversation = self.conversation
        id = None if frame.id is UNSET else frame.id
        asked = conversation.client if self.role == CLIENT else conversation.server
        exchange = asked.open.get(id)  # type: ignore[arg-type]  # no request has the id None
        if exchange is None:
            exchange = conversation.find_answered(self.other, id)
        if id is not None and (exchange is None or exchange.cancelled):
            violations = conversation.apply(conversation.step(self.other, frame))
            late = exchange is not None
            why = "was cancelled" if late else "no open request has"
            return Refused(f"answers id {id!r}, which {why}", None, violations, is_ignored=late)
        if frame.error is not UNSET:
            conversation.apply(conversation.step(self.other, frame))
            body = frame.error
            data = None if body.data is UNSET else body.data
            fault = RequestError(body.message, code=body.code, data=data)
            fault.is_received = True
            return FaultReceived(exchange, fault)
        assert exchange is not None  # a result has an id
        try:
            result = decode_result(frame, exchange)
        except (ValueError, RecursionError) as error:
            violations = conversation.judge(conversation.step(self.other, frame))
            misfit = lower_first(error)
            why = f"result of {exchange.name} does not fit {exchange.revision.id}: {misfit}"
            return self._lose(id, why, violations)
        exchange.raw = frame.result
        return ResultReceived(exchange, result, conversation.reply(exchange, result))

    # -- sending

    def request(
        self,
        name: str,
        params: Any = None,
        *,
        revision: Revision | None = None,
        unknown: "UnknownMembers | None" = None,
    ) -> tuple[Exchange, bytes]:
        """Ask the peer.

        Args:
            name: the method.
            params: its params, a message type; narrowed to the revision.
            revision: that of this request, where it is not the one agreed on.
            unknown: members that no revision defines.

        Raises:
            LocalProtocolError: the request would break a rule.
        """
        row = revision or self.conversation.current
        if name == "initialize" and revision is None:
            # The revision asked for shapes the opening: none is agreed on yet.
            row = REVISIONS.get(params.protocol_version) or row
        if not row.handshake and self.request_meta:
            params = bodies.add_meta(params, name, self.request_meta)
        meta = None if params is None else params.meta
        # What `narrow` does, without the call.
        narrower = shape.NARROWERS[row.id][params.__class__]
        shaped = params if narrower is None else narrower(params)
        role = self.role
        token = None if meta is None else meta.get("progressToken")
        method = row.requests[role].get(name)
        exchange = Exchange(self.next_id, name, role, row, method, token)
        if row.tasks and getattr(shaped, "task", None) is not None:
            exchange.is_task = True
        body = shaped if shaped is None or unknown is None else unknown.encode(shaped)
        settings = self._settings
        data = codec.encode_request(exchange.id, name, body)
        if len(data) > settings.surely_fine:
            settings.check_size(data, name)
        violations = self.conversation.request(exchange, shaped, settings.refuse_own)
        if violations:
            self._raise(violations)
        self.next_id += 1
        return exchange, data

    def notify(self, name: str, params: Any = None, *, within: Exchange | None = None) -> bytes:
        """Notify the peer.

        Args:
            name: the method.
            params: its params, a message type; narrowed to the revision.
            within: the request during which it is sent; its revision counts.

        Raises:
            LocalProtocolError: the notification would break a rule.
        """
        conversation = self.conversation
        step = conversation.step(self.role, Frame("2.0", UNSET, name), params, within=within)
        try:
            body = None if params is None else shape.narrow(params, step.revision.id)
        except LocalProtocolError:
            self._raise(conversation.judge(step))  # a broken rule says more than a lost member
            raise
        data = self._settings.check_size(codec.encode_notification(name, body), name)
        self._raise(conversation.apply(step, self._settings.refuse_own))
        return data

    def respond(self, exchange: Exchange, result: Any) -> bytes | None:
        """Answer a request with a message type, or with a result that is already encoded.

        Returns:
            What to send; None if the request was cancelled, or is part of an incomplete batch.

        Raises:
            LocalProtocolError: the request was answered before, or the result would break a rule.
            MessageTooLarge: the result is beyond a limit; the request is still open.
        """
        if exchange.cancelled:
            return None
        conversation, settings = self.conversation, self._settings
        shaped = result
        if result.__class__ is not bytes:
            row = exchange.revision
            if exchange.name == "initialize":
                row = REVISIONS.get(result.protocol_version) or row  # which shapes the answer
            # What `narrow` does, without the call.
            narrower = shape.NARROWERS[row.id][result.__class__]
            shaped = result if narrower is None else narrower(result)
            if settings.result_meta is not None and not row.handshake:
                if shaped is result:  # the author's own is not changed
                    shaped = result.__copy__()
                own = result.meta
                shaped.meta = {**settings.result_meta, **own} if own else settings.result_meta_text
            if exchange.unknown is not None:
                shaped = exchange.unknown.encode(shaped)
        # Before anything changes: a handler whose result cannot be encoded still has to fail.
        reply = codec.encode_result(exchange.id, shaped)
        batch = exchange.batch
        if batch is not None:
            more, name = batch.values + 1, exchange.name
            settings.check_size(reply, name, size=batch.size, values=more, levels=1)
        elif len(reply) > settings.surely_fine:
            self._check_reply(reply, exchange.name, result)
        violations = conversation.reply(exchange, shaped, settings.refuse_own)
        if violations:
            self._raise(violations)
        return reply if batch is None else batch.add(reply)

    def _check_reply(self, reply: bytes, name: str, result: Any) -> None:
        """Check the size of a reply; that of an encoded page of a list only once."""
        settings = self._settings
        if result.__class__ is not bytes or not name.endswith("/list"):
            settings.check_size(reply, name)
            return
        is_short = len(reply) <= settings.codec.limits.message_bytes
        if not is_short or result not in settings.pages_within_limits:
            settings.check_size(reply, name)
            settings.keep_page(result)

    def fail(self, exchange: Exchange, error: RequestError) -> bytes | None:
        """Answer a request with an error; returns and raises as `respond` does."""
        if exchange.cancelled:
            return None
        data = UNSET if error.data is None else error.data
        body = ErrorBody(translate_code(error.code, exchange.revision), error.message, data)
        reply = self._settings.check_size(codec.encode_error(exchange.id, body), exchange.name)
        exchange.fault = body.code
        self._raise(self.conversation.reply(exchange, None, self._settings.refuse_own, error=body))
        return reply if exchange.batch is None else exchange.batch.add(reply)

    def give_up(self, id: RequestId) -> Exchange | None:
        """Close a request of ours that will not be answered; None if it is not open."""
        exchange = self.conversation.open_exchange(self.role, id)
        if exchange is not None:
            self.conversation.lose(exchange)
        return exchange

    def close(self) -> list[Exchange]:
        """End the conversation; returns our requests that will never be answered."""
        abandoned = list(self.conversation.party(self.role).open.values())
        self.conversation.close()
        return abandoned

    def _raise(self, violations: Sequence[Violation]) -> None:
        if violations and self._settings.enforce:
            raise LocalProtocolError("; ".join(map(str, violations)), violations)


def translate_code(code: int, revision: Revision) -> int:
    """Return the code that a revision has for an error.

    >>> translate_code(-32002, REVISIONS["2026-07-28"])
    -32602
    """
    if code == _NOT_FOUND:
        return revision.not_found_code
    # errors.reserved-range.only-defined-codes: handlers may raise any code.
    return _INTERNAL_ERROR if revision.reserved_codes and code in _UNDEFINED else code
