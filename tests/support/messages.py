"""Strategies for bytes that are messages, nearly messages, or nothing of the kind."""

import json
from typing import Any

from hypothesis import strategies as some

from accord.protocol.revisions import METHODS
from support.endpoints import META, MODERN

SCALARS = (
    some.none()
    | some.booleans()
    | some.integers(-(2**70), 2**70)
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(max_size=8)
)
JSON = some.recursive(
    SCALARS,
    lambda inner: (
        some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
IDS = some.integers(-3, 3) | some.integers(-(2**63), 2**63 - 1) | some.text(max_size=4)
NAMES = some.sampled_from(sorted({method.name for method in METHODS}))
META_VALUES: dict[str, Any] = {
    "progressToken": some.sampled_from(["t", 1, 1.5, None, [], True]),
    f"{META}protocolVersion": some.sampled_from(["2026-07-28", "2025-06-18", "x", None, 5]),
    f"{META}clientCapabilities": some.sampled_from([{}, None, 5]),
    f"{META}subscriptionId": some.sampled_from([0, 1, "t", None]),
}
METAS = some.fixed_dictionaries({}, optional=META_VALUES) | some.just(MODERN) | JSON
PARAMS = some.fixed_dictionaries(
    {},
    optional={
        "_meta": METAS,
        "name": some.just("add") | JSON,
        "uri": some.just("file:///a") | JSON,
        "requestId": IDS | JSON,
        "progressToken": IDS | JSON,
        "progress": some.floats(0, 9) | JSON,
        "protocolVersion": some.sampled_from(["2024-11-05", "2025-03-26", "2025-11-25"]) | JSON,
        "capabilities": some.just({}) | JSON,
        "clientInfo": some.just({"name": "a", "version": "1"}) | JSON,
        "level": some.just("info") | JSON,
    },
)
ERRORS = some.fixed_dictionaries(
    {},
    optional={
        "code": some.integers(-40_000, 9) | JSON,
        "message": some.text(max_size=3) | JSON,
        "data": JSON,
    },
)

MESSAGES = some.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": some.sampled_from(["2.0"] * 9 + ["1.0", 2.0, None]),
        "id": IDS | JSON,
        "method": NAMES | NAMES | some.text(max_size=5) | JSON,
        "params": PARAMS | JSON,
        "result": PARAMS | JSON,
        "error": ERRORS | JSON,
    },
)
"""Objects with the members of messages, in every combination."""

REQUESTS = some.fixed_dictionaries(
    {"jsonrpc": some.just("2.0"), "id": IDS, "method": NAMES},
    optional={"params": PARAMS},
)
NOTIFICATIONS = some.fixed_dictionaries(
    {"jsonrpc": some.just("2.0"), "method": NAMES}, optional={"params": PARAMS}
)
REPLIES = some.fixed_dictionaries(
    {"jsonrpc": some.just("2.0"), "id": some.integers(0, 3)}, optional={"result": PARAMS}
) | some.fixed_dictionaries(
    {"jsonrpc": some.just("2.0"), "id": some.integers(0, 3), "error": ERRORS}
)
ANY_MESSAGE = REQUESTS | NOTIFICATIONS | REPLIES | MESSAGES


def written(value: Any) -> bytes:
    return json.dumps(value).encode()


def _spoilt(parts: tuple[bytes, int, bytes]) -> bytes:
    data, position, insert = parts
    position %= len(data) + 1
    return data[:position] + insert + data[position + 1 :]


TEXTS = some.one_of(
    ANY_MESSAGE.map(written),
    some.lists(ANY_MESSAGE, max_size=4).map(written),
    JSON.map(written),
)
BYTES = some.one_of(
    TEXTS,
    TEXTS,
    some.tuples(TEXTS, some.integers(0, 500), some.binary(max_size=3)).map(_spoilt),
    some.binary(max_size=40),
)
"""Anything at all, mostly such that it comes far."""
