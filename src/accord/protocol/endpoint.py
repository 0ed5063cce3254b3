"""One party of a conversation: bytes in, events out; intentions in, bytes out.

What would break a rule raises before a byte leaves. What the peer breaks is answered, ignored or
accepted, as the rule says. An endpoint never reads or writes by itself, and decodes every body
once.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

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
)
from accord.protocol import codec, shape
from accord.protocol.conversation import META_CAPABILITIES, META_VERSION, Conversation
from accord.protocol.exchange import Exchange, Step
from accord.protocol.jsonrpc import (
    FAULT,
    NOTIFICATION,
    REQUEST,
    RESULT,
    Batch,
    ErrorBody,
    Frame,
    Kind,
    MalformedMessage,
)
from accord.protocol.methods import METHODS
from accord.protocol.revision import Method, Phase, Revision
from accord.protocol.revisions import REVISIONS
from accord.protocol.violation import IGNORE, OTHER, SERVER, Party, Violation
from accord.types import InputRequiredResult
from accord.types._base import JsonObject, RequestId, RevisionId

_METHODS: Final = {method.name: method for method in METHODS}
_encode: Final = msgspec.json.Encoder().encode


class RequestReceived(msgspec.Struct):
    """The peer asks; the answer goes to `respond` or `fail`."""

    exchange: Exchange
    params: Any
    violations: Sequence[Violation] = ()


class NotificationReceived(msgspec.Struct):
    """The peer tells something; `exchange` is the request it is about, if it is about one."""

    name: str
    params: Any
    exchange: Exchange | None = None
    violations: Sequence[Violation] = ()


class ResultReceived(msgspec.Struct):
    """The peer has answered our request."""

    exchange: Exchange
    result: Any
    violations: Sequence[Violation] = ()


class FaultReceived(msgspec.Struct):
    """Our request failed: by an error of the peer, or by a reply that breaks the protocol.

    `exchange` is None where the peer could not read what we sent.
    """

    exchange: Exchange | None
    error: RequestError | RemoteProtocolError


class Refused(msgspec.Struct):
    """A message that has no effect. `reply` is what to send back, if anything."""

    why: str
    reply: bytes | None = None
    violations: Sequence[Violation] = ()


Event: TypeAlias = RequestReceived | NotificationReceived | ResultReceived | FaultReceived | Refused


class BatchReply(msgspec.Struct):
    """The answers to one batch, which leave together when the last is there."""

    expected: int
    parts: list[bytes] = []

    def add(self, reply: bytes) -> bytes | None:
        """Take an answer; returns the whole array with the last one."""
        self.parts.append(reply)
        return b"[%b]" % b",".join(self.parts) if len(self.parts) == self.expected else None


class Endpoint:
    """One party using the conversation.

    Args:
        role: which party we are.
        revisions: those we speak; all of them by default.
        limits: what one message may cost.
        enforce: whether our own breaches raise; a checker that misbehaves on purpose says no.
        request_meta: what revisions without handshake want in the `_meta` of each request.
        result_meta: the same for results.
    """

    def __init__(
        self,
        role: Party,
        *,
        revisions: Sequence[RevisionId] | None = None,
        limits: codec.Limits | None = None,
        enforce: bool = True,
        request_meta: JsonObject | None = None,
        result_meta: JsonObject | None = None,
    ) -> None:
        self.role: Party = role
        self.peer: Party = OTHER[role]
        self.revisions = tuple(revisions or [row.id for row in REVISIONS.values()])
        self.enforce = enforce
        self.request_meta = request_meta
        self.result_meta = result_meta
        self.conversation = Conversation()
        self._codec = codec.Codec(limits)
        self._next_id = 0

    @property
    def revision(self) -> Revision:
        """The revision of messages that name none."""
        return self.conversation.current

    # -- receiving

    def receive(self, data: bytes) -> Sequence[Event]:
        """Take in one message of the peer, as one event; a batch gives several."""
        try:
            decoded = self._codec.decode(data)
        except MalformedMessage as malformed:
            return (self._malformed(malformed, None),)
        if isinstance(decoded, Batch):
            return self._receive_batch(decoded)
        name, id = decoded.method, decoded.id
        if name is not UNSET and id is not UNSET:
            return (self._receive_request(decoded, id, name, None),)
        return (self._receive(decoded, None),)

    def _receive(self, frame: Frame, batch: BatchReply | None) -> Event:
        if frame.method is not UNSET and frame.id is not UNSET:
            return self._receive_request(frame, frame.id, frame.method, batch)
        if frame.method is UNSET:
            return self._receive_reply(frame)
        return self._receive_notification(frame)

    def _receive_batch(self, batch: Batch) -> Sequence[Event]:
        frames = [part for part, _ in batch.parts]
        opens = any(isinstance(f, Frame) and f.method == "initialize" for f in frames)
        if opens or not self.revision.batching:
            id = "lifecycle.initialize.not-in-batch" if opens else "jsonrpc.batch.removed"
            why = (
                "initialize may not be part of a batch"
                if opens
                else f"batches are not part of {self.revision.id}"
            )
            return (self._refuse(InvalidRequest(why), None, [Violation(id, self.peer, why)]),)
        asked = sum(not isinstance(f, Frame) or f.kind == REQUEST for f in frames)
        reply = BatchReply(asked, [])
        events: list[Event] = []
        for part in frames:
            if isinstance(part, Frame):
                events.append(self._receive(part, reply))
            else:
                events.append(self._malformed(part, reply))
        return events

    def _malformed(self, malformed: MalformedMessage, batch: BatchReply | None) -> Refused:
        violation = Violation(
            malformed.requirement, self.peer, f"sends what is no message: {malformed}"
        )
        error = RequestError(str(malformed), code=malformed.code)
        # A client never answers malformed input: the server is not waiting for anything.
        if self.role != SERVER:
            return Refused(str(malformed), None, [violation])
        return self._refuse(error, malformed.id, [violation], batch)

    def _refuse(
        self,
        error: RequestError,
        id: RequestId | None,
        violations: Sequence[Violation],
        batch: BatchReply | None = None,
    ) -> Refused:
        data = UNSET if error.data is None else error.data
        reply: bytes | None = codec.encode_error(id, ErrorBody(error.code, error.message, data))
        if batch is not None and reply is not None:
            reply = batch.add(reply)
        return Refused(error.message, reply, violations)

    def _receive_request(self, frame: Frame, id: Any, name: str, batch: BatchReply | None) -> Event:
        conversation = self.conversation
        revision = conversation.current
        fault: RequestError | None = None
        params = token = None
        try:
            params = _READERS[name](frame.params)  # type: ignore[arg-type]  # UNSET raises TypeError
        except (KeyError, TypeError, ValueError, RecursionError):
            params, fault = _second_reading(frame, name, revision)
        if params is not None and params.meta is not None:
            meta = params.meta
            if META_VERSION in meta:
                revision, fault = self._self_contained(meta, name, fault)
            token = meta.get("progressToken")
            if token is not None and (token.__class__ is bool or not isinstance(token, int | str)):
                fault = fault or InvalidParams("progressToken is neither a string nor an integer")
                token = None
        method = revision.requests[self.peer].get(name)
        exchange = Exchange(id, name, self.peer, revision, method, token)
        if batch is not None:
            exchange.batch = batch
        if fault is None and method is not None and conversation.admit(exchange):
            return RequestReceived(exchange, params)
        step = Step(self.peer, REQUEST, name, revision, id, params, None, exchange)
        violations = conversation.judge(step)
        for violation in violations:
            if violation.reaction:
                refusal = RequestError(f"{name}: {violation.why}", code=violation.reaction)
                return self._refuse(refusal, id, violations, batch)
        if fault is None and method is None:
            fault = MethodNotFound(f"method {name!r} does not exist in {revision.id}")
        if fault is not None:
            return self._refuse(fault, id, violations, batch)
        conversation.advance(step)
        return RequestReceived(exchange, params, violations)

    def _self_contained(
        self, meta: JsonObject, name: str, fault: RequestError | None
    ) -> tuple[Revision, RequestError | None]:
        """Find the revision of a request that names it, and what is wrong with its envelope."""
        named = meta[META_VERSION]
        row = REVISIONS.get(named) if isinstance(named, str) else None
        if row is None or row.handshake or row.id not in self.revisions:
            error = UnsupportedRevision(
                f"revision {named!r} is not supported",
                data={"supported": list(self.revisions), "requested": named},
            )
            return self.conversation.current, error
        if not isinstance(meta.get(META_CAPABILITIES), dict):
            return row, InvalidParams(f"{name}: _meta has no object {META_CAPABILITIES}")
        return row, fault

    def _receive_notification(self, frame: Frame) -> Event:
        name = frame.method
        assert name is not UNSET
        conversation = self.conversation
        method = _METHODS.get(name)
        if method is None:
            return Refused(f"notification {name!r} does not exist")
        params = None
        if not method.is_request:
            try:
                params = _decode_params(frame, method, conversation.current)
            except RequestError as error:
                return Refused(error.message)
        exchange = conversation.concerned(self.peer, name, params)
        step = Step(
            sender=self.peer,
            kind=NOTIFICATION,
            name=name,
            revision=exchange.revision if exchange else conversation.current,
            body=params,
            exchange=exchange,
        )
        violations = conversation.judge(step)
        for violation in violations:
            if violation.reaction is not None:
                return Refused(f"{name}: {violation.why}", None, violations)
        conversation.advance(step)
        return NotificationReceived(name, params, exchange, violations)

    def _receive_reply(self, frame: Frame) -> Event:
        conversation = self.conversation
        id = None if frame.id is UNSET else frame.id
        exchange = conversation.answered_by(self.peer, id)
        step = Step(
            sender=self.peer,
            kind=frame.kind,
            name=exchange.name if exchange else "",
            revision=exchange.revision if exchange else conversation.current,
            id=id,
            exchange=exchange,
        )
        violations = conversation.judge(step)
        for violation in violations:
            if violation.reaction == IGNORE and violation.reaction is not None:
                return Refused(violation.why, None, violations)
        if frame.error is not UNSET:
            body = frame.error
            step.error = body
            conversation.advance(step)
            data = None if body.data is UNSET else body.data
            return FaultReceived(exchange, RequestError(body.message, code=body.code, data=data))
        if exchange is None:
            return Refused(f"answers id {id!r}, which no open request has", None, violations)
        try:
            step.body = _decode_result(frame, exchange)
        except (msgspec.DecodeError, RecursionError) as error:
            step.kind = FAULT
            conversation.advance(step)
            why = f"result of {exchange.name} does not fit {exchange.revision.id}: {error}"
            return FaultReceived(exchange, RemoteProtocolError(why, violations))
        conversation.advance(step)
        return ResultReceived(exchange, step.body, violations)

    # -- sending

    def request(
        self, name: str, params: Any = None, *, revision: Revision | None = None
    ) -> tuple[Exchange, bytes]:
        """Ask the peer.

        Args:
            name: the method.
            params: its params, a message type; narrowed to the revision.
            revision: that of this request, where it is not the one agreed on.

        Raises:
            LocalProtocolError: the request would break a rule.
        """
        row = revision or self._revision_of_opening(params) or self.conversation.current
        if not row.handshake and self.request_meta:
            params = self._with_meta(params, name, self.request_meta)
        meta = None if params is None else params.meta
        exchange = Exchange(
            id=self._next_id,
            name=name,
            sender=self.role,
            revision=row,
            method=row.requests[self.role].get(name),
            token=None if meta is None else meta.get("progressToken"),
        )
        step = Step(
            sender=self.role,
            kind=REQUEST,
            name=name,
            revision=row,
            id=exchange.id,
            body=params,
            exchange=exchange,
        )
        self._raise(self.conversation.judge(step))
        self._next_id += 1
        body = None if params is None else _encode(shape.narrow(params, row.id))
        self.conversation.advance(step)
        return exchange, codec.encode_request(exchange.id, name, body)

    def notify(self, name: str, params: Any = None) -> bytes:
        """Tell the peer something.

        Raises:
            LocalProtocolError: the notification would break a rule.
        """
        conversation = self.conversation
        exchange = conversation.concerned(self.role, name, params)
        row = exchange.revision if exchange else conversation.current
        step = Step(
            sender=self.role,
            kind=NOTIFICATION,
            name=name,
            revision=row,
            body=params,
            exchange=exchange,
        )
        self._raise(conversation.judge(step))
        conversation.advance(step)
        body = None if params is None else _encode(shape.narrow(params, row.id))
        return codec.encode_notification(name, body)

    def respond(self, exchange: Exchange, result: Any) -> bytes | None:
        """Answer a request with a message type, or with a result that is already encoded.

        Returns:
            What to send; None where the request was cancelled, or where it is part of a batch that
            is not complete.

        Raises:
            LocalProtocolError: the request was answered before, or the result would break a rule.
        """
        if exchange.cancelled:
            return None
        conversation = self.conversation
        shaped = result
        if result.__class__ is not bytes:
            row = exchange.revision
            if conversation.phase is not Phase.READY:
                row = self._revision_of_opening(result) or row
            if not row.handshake and self.result_meta:
                shaped = self._with_meta(result, exchange.name, self.result_meta)
            shaped = shape.narrow(shaped, row.id)
        if not conversation.dismiss(exchange):
            conversation.advance(self._reply_step(exchange, RESULT, result))
        reply = codec.encode_result(exchange.id, shaped)
        return reply if exchange.batch is None else exchange.batch.add(reply)

    def fail(self, exchange: Exchange, error: RequestError) -> bytes | None:
        """Answer a request with an error; returns and raises as `respond` does."""
        if exchange.cancelled:
            return None
        self.conversation.advance(self._reply_step(exchange, FAULT, None))
        data = UNSET if error.data is None else error.data
        code = exchange.revision.not_found_code if error.code == _NOT_FOUND else error.code
        reply = codec.encode_error(exchange.id, ErrorBody(code, error.message, data))
        return reply if exchange.batch is None else exchange.batch.add(reply)

    def close(self) -> list[Exchange]:
        """End the conversation; returns our requests that will never be answered."""
        abandoned = list(self.conversation.parties[self.role].open.values())
        self.conversation.close()
        return abandoned

    def _reply_step(self, exchange: Exchange, kind: Kind, body: Any) -> Step:
        conversation = self.conversation
        if conversation.parties[self.peer].open.get(exchange.id) is not exchange and self.enforce:
            why = f"answers id {exchange.id!r} a second time"
            violation = Violation("jsonrpc.request.answered", self.role, why)
            raise LocalProtocolError(str(violation), [violation])
        step = Step(
            self.role, kind, exchange.name, exchange.revision, exchange.id, body, None, exchange
        )
        self._raise(conversation.judge(step))
        return step

    def _raise(self, violations: Sequence[Violation]) -> None:
        if violations and self.enforce:
            raise LocalProtocolError("; ".join(map(str, violations)), violations)

    def _revision_of_opening(self, body: Any) -> Revision | None:
        """The opening is shaped by the revision it names, since none is agreed on yet."""
        if self.conversation.phase is Phase.READY:
            return None
        return REVISIONS.get(getattr(body, "protocol_version", ""))

    def _with_meta(self, body: Any, name: str, meta: JsonObject) -> Any:
        if body is None:
            body = _METHODS[name].params()
        return msgspec.structs.replace(body, meta={**meta, **(body.meta or {})})


_NOT_FOUND: Final = -32002


_READERS: Final = {method.name: msgspec.json.Decoder(method.params).decode for method in METHODS}


def _second_reading(frame: Frame, name: str, revision: Revision) -> tuple[Any, RequestError | None]:
    """Read params that are missing or not of the newest shape, or say what is wrong with them."""
    method = _METHODS.get(name)
    if method is None:
        return None, MethodNotFound(f"method {name!r} does not exist")
    try:
        return _decode_params(frame, method, revision), None
    except RequestError as error:
        return None, error


def _decode_params(frame: Frame, method: Method, revision: Revision) -> Any:
    """Decode params once; what does not fit is an error that says where."""
    raw = frame.params
    if raw is UNSET:
        if method.params_required:
            raise InvalidParams(f"{method.name}: params are missing")
        return method.params()
    try:
        return shape.decode(raw, method.params, revision.id)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        start = bytes(raw).lstrip()[:1]
        message = f"{method.name}: {_lowered(error)}"
        # jsonrpc.request.params-object: an array is JSON-RPC but not MCP, anything else is neither.
        if start not in (b"{", b"["):
            raise InvalidRequest(message) from None
        raise InvalidParams(message) from None


def _decode_result(frame: Frame, exchange: Exchange) -> Any:
    raw, method = frame.result, exchange.method
    assert raw is not UNSET
    if method is None:
        return msgspec.json.decode(raw)
    if method.may_ask and exchange.revision.rounds and _asks(raw):
        return shape.decode(raw, InputRequiredResult, exchange.revision.id)
    return shape.decode(raw, method.result, exchange.revision.id)


class _ResultType(msgspec.Struct, rename="camel"):
    result_type: str | None = None


def _asks(raw: msgspec.Raw) -> bool:
    return msgspec.json.decode(raw, type=_ResultType).result_type == "input_required"


def _lowered(error: Exception) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]


__all__ = [
    "BatchReply",
    "Endpoint",
    "Event",
    "FaultReceived",
    "NotificationReceived",
    "Refused",
    "RequestReceived",
    "ResultReceived",
]
