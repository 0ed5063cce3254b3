"""Pairs of pagination."""

from typing import Any

from support.traces import C, Pair, S, Said

SERVER: Any = {"tools": {}, "prompts": {}}
ASK = C.request(1, "tools/list")


def _page(id: int, **more: Any) -> Said:
    return S.result(id, {"tools": [], "ttlMs": 0, "cacheScope": "private", **more})


def _cursor(requirement: str, variant: str, method: str, cursor: Any) -> Pair:
    return Pair(
        requirement=requirement,
        legal=[ASK, _page(1, nextCursor="p2"), C.request(2, "tools/list", {"cursor": "p2"})],
        illegal=[ASK, _page(1, nextCursor="p2"), C.request(2, method, {"cursor": cursor})],
        server=SERVER,
        party="client",
        variant=variant,
    )


PAIRS = [
    *[
        Pair(
            requirement="pagination.next-cursor.optional",
            legal=[ASK, _page(1, nextCursor="p2")],
            illegal=[ASK, _page(1, nextCursor=cursor)],
            server=SERVER,
            party="server",
            variant=variant,
        )
        for variant, cursor in (("", 2), ("null", None))
    ],
    _cursor("pagination.cursor.opaque", "", "tools/list", "p3"),
    _cursor("pagination.cursor.opaque", "other-method", "prompts/list", "p2"),
    _cursor("pagination.cursor.opaque", "number", "tools/list", 2),
]
