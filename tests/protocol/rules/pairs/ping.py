"""Pairs of ping."""

from support.traces import C, Pair, S, Said


def _pings(*times: float) -> list[Said]:
    said: list[Said] = []
    for id, t in enumerate(times):
        said += [C.request(id, "ping").at(t), S.result(id, {}).at(t)]
    return said


PAIRS = [
    Pair(
        requirement="ping.request.either-party",
        legal=[C.request(1, "ping"), S.request(1, "ping", {"_meta": {"progressToken": 1}})],
        illegal=[S.request(1, "ping", {"payload": "x"})],
        party="server",
    ),
    Pair(
        requirement="ping.response.empty",
        legal=[C.request(1, "ping"), S.result(1, {})],
        illegal=[C.request(1, "ping"), S.result(1, {"pong": True})],
        party="server",
    ),
    Pair(
        requirement="ping.response.empty",
        legal=[S.request(1, "ping"), C.result(1, {"_meta": {}})],
        illegal=[S.request(1, "ping"), C.error(1, -32601)],
        party="client",
        variant="error",
    ),
    Pair(
        requirement="ping.periodic",
        legal=_pings(*range(12)),
        illegal=_pings(*(n / 20 for n in range(12))),
        party="client",
    ),
]
