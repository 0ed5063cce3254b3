"""Statuses of requests that stand on their own, by the error that answers them."""

from collections.abc import Callable
from typing import Final

from accord.protocol.jsonrpc import FAULT, INVALID_PARAMS, METHOD_NOT_FOUND, RESULT
from accord.protocol.rules._rule import Outcome
from accord.protocol.rules.http._rule import LINK, STATUS, HttpJudge, asks, rule
from accord.protocol.rules.http.exchanges import HttpState, Moment

_HEADER_MISMATCH: Final = -32020
_MISSING_FIELD: Final = "meta.request.missing-field-http-400"
_REJECTED: Final = {
    "http.version-header.mismatch-rejected": asks("MCP-Protocol-Version"),
    "http.headers.mismatch-rejected": asks("Mcp-Method"),
    "http.headers.required-missing-rejected": asks("Mcp-Method"),
    "http.param-headers.missing-with-value-rejected": asks("Mcp-Method"),
    "http.param-headers.match-validated": asks("Mcp-Method"),
}
"""By requirement, the header without which the fault of a request cannot be seen."""


def _answers_own_request(moment: Moment) -> bool:
    return (
        moment.exchange.method == "POST" and moment.answered_id in moment.exchange.posted.requests
    )


def _status_of(requirement: str, code: int, expected: int) -> HttpJudge:
    @rule(requirement, "message", needs=(LINK, STATUS))
    def error_has_its_status(moment: Moment, state: HttpState) -> Outcome:
        frame, status = moment.frame, moment.exchange.status
        if frame is None or frame.kind != FAULT or status is None:
            return None
        if frame.error.code != code or not _answers_own_request(moment):  # type: ignore[union-attr]  # a fault has one
            return None
        return status == expected or (
            f"answers {moment.exchange.title} with error {code} and status {status}, "
            f"expected {expected}"
        )

    return error_has_its_status


_status_of("http.method-not-found.404", METHOD_NOT_FOUND, 404)
_status_of("http.version-header.unsupported-400", -32022, 400)
_status_of("capability.missing-error-http-400", -32021, 400)


@rule(_MISSING_FIELD, "message", needs=(LINK, STATUS))
def missing_field_has_status_400(moment: Moment, state: HttpState) -> Outcome:
    frame, fault = moment.frame, moment.exchange.fault
    if fault is None or fault[0] != _MISSING_FIELD or frame is None or frame.kind != FAULT:
        return None
    if frame.error.code != INVALID_PARAMS or not _answers_own_request(moment):  # type: ignore[union-attr]  # a fault has one
        return None
    status = moment.exchange.status
    return status in (400, None) or (
        f"refuses {moment.exchange.title} {fault[1]} with status {status}, expected 400"
    )


def _rejects(requirement: str, header: str) -> Callable[[Moment, HttpState], Outcome]:
    @rule(requirement, "message", needs=(LINK, STATUS, header))
    def request_is_rejected(moment: Moment, state: HttpState) -> Outcome:
        frame, fault, status = moment.frame, moment.exchange.fault, moment.exchange.status
        if fault is None or fault[0] != requirement or frame is None or status is None:
            return None
        if not _answers_own_request(moment):
            return None
        what = f"{moment.exchange.title} {fault[1]}"
        if frame.kind == RESULT:
            return f"serves {what}, expected status 400 and error {_HEADER_MISMATCH}"
        if frame.error.code != _HEADER_MISMATCH:  # type: ignore[union-attr]  # a fault has one
            return None  # another reason may come first
        return status == 400 or f"refuses {what} with status {status}, expected 400"

    return request_is_rejected


for _requirement, _header in _REJECTED.items():
    _rejects(_requirement, _header)
