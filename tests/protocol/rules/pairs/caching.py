from typing import Any

from protocol.rules.pairs._samples import CACHE, STATELESS, asked
from support.traces import Pair

RESULTS: dict[str, tuple[str, Any, Any]] = {
    "caching.hints.discover": (
        "server/discover",
        None,
        {"supportedVersions": list(STATELESS), "capabilities": {}},
    ),
    "caching.hints.tools-list": ("tools/list", None, {"tools": []}),
    "caching.hints.prompts-list": ("prompts/list", None, {"prompts": []}),
    "caching.hints.resources-list": ("resources/list", None, {"resources": []}),
    "caching.hints.resource-templates-list": (
        "resources/templates/list",
        None,
        {"resourceTemplates": []},
    ),
    "caching.hints.resources-read": (
        "resources/read",
        {"uri": "note://a"},
        {"contents": [{"uri": "note://a", "text": "hello"}]},
    ),
}


def listed(requirement: str, legal: Any, illegal: Any, **more: Any) -> Pair:
    return Pair(
        requirement=requirement,
        legal=asked("tools/list", None, {"tools": [], **CACHE, **legal}),
        illegal=asked("tools/list", None, {"tools": [], **CACHE, **illegal}),
        **more,
    )


PAIRS = [
    *(
        Pair(
            requirement=requirement,
            variant=f"no-{absent}",
            legal=asked(method, params, {**result, **CACHE}),
            illegal=asked(
                method, params, {**result, **{k: v for k, v in CACHE.items() if k != absent}}
            ),
        )
        for requirement, (method, params, result) in RESULTS.items()
        for absent in CACHE
    ),
    listed("caching.ttl.non-negative", {"ttlMs": 60_000}, {"ttlMs": -1}),
    listed("caching.ttl.non-negative", {"ttlMs": 1.0}, {"ttlMs": "60000"}, variant="text"),
    listed("caching.ttl.non-negative", {"ttlMs": 0}, {"ttlMs": 0.5}, variant="fraction"),
    listed("caching.scope.value", {"cacheScope": "public"}, {"cacheScope": "shared"}),
    listed("caching.scope.value", {"cacheScope": "private"}, {"cacheScope": None}, variant="null"),
]
