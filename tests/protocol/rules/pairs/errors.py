"""Pairs of error codes."""

from support.traces import C, Pair, S

ASK = C.request(1, "tools/list")


def _pair(requirement: str, *, legal: int, illegal: int, variant: str = "") -> Pair:
    return Pair(
        requirement=requirement,
        legal=[ASK, S.error(1, legal)],
        illegal=[ASK, S.error(1, illegal)],
        party="server",
        variant=variant,
    )


PAIRS = [
    _pair("errors.legacy-range.not-used", legal=-32603, illegal=-32000),
    _pair("errors.reserved-range.only-defined-codes", legal=-32603, illegal=-32050),
    _pair("errors.retired-codes.not-emitted", legal=-32603, illegal=-32002),
    _pair("errors.retired-codes.not-emitted", legal=-32603, illegal=-32042, variant="elicitation"),
    _pair("errors.application-codes.outside-reserved", legal=404, illegal=-32500),
]
