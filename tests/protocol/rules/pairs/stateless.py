from typing import Any

from protocol.rules.pairs._samples import CACHE, STATELESS, TEXT, asked, asking, without
from support.traces import INFO, META, C, Pair, S

DISCOVERED = {
    "supportedVersions": list(STATELESS),
    "capabilities": {},
    "resultType": "complete",
    "_meta": {f"{META}serverInfo": INFO},
    **CACHE,
}
ANSWER = {
    "content": [TEXT],
    "isError": False,
    "resultType": "complete",
    "_meta": {f"{META}serverInfo": INFO},
}
SAMPLING = {"messages": [{"role": "user", "content": TEXT}], "maxTokens": 10}
EXTENSION = {"extensions": {"com.example/later": {}}}


def answered(requirement: str, legal: Any, illegal: Any, **more: Any) -> Pair:
    call = C.request(1, "tools/call", {"name": "add", "arguments": {}})
    return Pair(
        requirement=requirement,
        legal=[call, S.result(1, legal).exactly()],
        illegal=[call, S.result(1, illegal).exactly()],
        **more,
    )


def discovery(requirement: str, illegal: Any, **more: Any) -> Pair:
    ask = C.request(1, "server/discover")
    return Pair(
        requirement=requirement,
        legal=[ask, S.result(1, DISCOVERED).exactly()],
        illegal=[ask, S.result(1, illegal).exactly()],
        **more,
    )


PAIRS = [
    answered("result.type.present", ANSWER, without(ANSWER, "resultType")),
    answered("result.type.present", ANSWER, {**ANSWER, "resultType": 1}, variant="type"),
    answered("result.type.from-known-set", ANSWER, {**ANSWER, "resultType": "finished"}),
    Pair(
        requirement="result.type.from-known-set",
        variant="extension",
        client=EXTENSION,
        legal=[
            *asked("server/discover", None, {**DISCOVERED, "capabilities": EXTENSION}),
            *asked("tools/call", {"name": "add"}, {"resultType": "later"}, id=2),
        ],
        illegal=[
            *asked("server/discover", None, DISCOVERED),
            *asked("tools/call", {"name": "add"}, {"resultType": "later"}, id=2),
        ],
    ),
    discovery("discover.result.required-fields", without(DISCOVERED, "supportedVersions")),
    discovery(
        "discover.result.required-fields",
        {**DISCOVERED, "supportedVersions": [20260728]},
        variant="versions",
    ),
    discovery(
        "discover.result.required-fields",
        without(DISCOVERED, "capabilities"),
        variant="capabilities",
    ),
    discovery(
        "discover.result.required-fields",
        {**DISCOVERED, "capabilities": {"tools": True}},
        variant="capability",
    ),
    discovery("discover.result.server-info", without(DISCOVERED, "_meta")),
    Pair(
        requirement="deprecated.include-context.not-used",
        client={"sampling": {"context": {}}},
        legal=asking("sampling/createMessage", {**SAMPLING, "includeContext": "none"}),
        illegal=asking("sampling/createMessage", {**SAMPLING, "includeContext": "thisServer"}),
    ),
]
