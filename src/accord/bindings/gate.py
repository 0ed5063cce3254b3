"""What the head of a request decides, as one look-up: clients send the same head over and over."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from accord.bindings import headers as names
from accord.bindings import http
from accord.protocol.revision import Revision

__all__ = ["DECISIVE", "Gate", "Verdict"]

RawHeaders: TypeAlias = Mapping[bytes, bytes]

_HOST, _ORIGIN, _TYPE = b"host", b"origin", b"content-type"
_ACCEPT, _VERSION = b"accept", names.VERSION.encode()
_CODING = b"content-encoding"
DECISIVE: Final = (_HOST, _ORIGIN, _TYPE, _ACCEPT, _VERSION, _CODING)
# Heads differ by client and by page; what is longer than any honest one is not remembered.
_REMEMBERED: Final = 512
_SIZE_MOST: Final = 1_000


class Verdict(msgspec.Struct, frozen=True):
    """What the head of a request decides.

    Attributes:
        foreign: why it is refused for where it comes from.
        refusal: why it is refused for any other reason.
        form: how it may be answered.
        revision: which one it names, or why that is refused.
    """

    foreign: http.Refusal | None
    refusal: http.Refusal | None
    form: http.Form
    revision: Revision | http.Refusal


class Gate:
    """Judges the heads of requests to one server."""

    def __init__(self, guard: http.Guard, answers: http.Form, supported: Iterable[str]) -> None:
        self._guard = guard
        self._answers: http.Form = answers
        self._supported = tuple(supported)
        self._known: dict[tuple[str | bytes | None, ...], Verdict] = {}

    def judge(self, method: str, headers: RawHeaders, version: str = "1.1") -> Verdict:
        """Judge the head of a request; header names are lower case, repeated ones are joined."""
        get = headers.get
        head = (
            method,
            version,
            get(_HOST),
            get(_ORIGIN),
            get(_TYPE),
            get(_ACCEPT),
            get(_VERSION),
            get(_CODING),
        )
        verdict = self._known.get(head)
        if verdict is None:
            verdict = self._judge(*head)
            if sum(len(each) for each in head if each) < _SIZE_MOST:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[head] = verdict
        return verdict

    def _judge(self, method: str, version: str, *values: bytes | None) -> Verdict:
        pairs = zip(DECISIVE, values, strict=True)
        named = {
            name.decode(): value.decode("latin-1") for name, value in pairs if value is not None
        }
        head = http.Head(method, named, version)
        refusal, form = None, self._answers
        if method == "POST":
            refusal = http.refuse_content(head)
            found = http.form_of(named.get("accept"), self._answers)
            if found is not None:
                form = found
            elif refusal is None:
                refusal = http.Refusal(406, _unacceptable(self._answers))
        elif method == "GET":
            refusal = http.refuse_get(head)
        return Verdict(
            self._guard.refuse(head), refusal, form, http.revision_of(head, self._supported)
        )


def _unacceptable(answers: http.Form) -> str:
    if answers == "auto":
        return "Accept must list application/json and text/event-stream"
    only = "application/json" if answers == "json" else "text/event-stream"
    return f"Accept must list {only}: this server answers with nothing else (answers)"
