"""Pairs of traces for roots."""

from support.questions import (
    HANDSHAKE,
    answered,
    asked_in_a_result,
    declared,
    declared_per_request,
)
from support.traces import C, Pair, S, opening

_LIST = "roots/list"
_HOME = {"uri": "file:///home", "name": "home"}
_ANSWER = {"roots": [_HOME]}

PAIRS = [
    *(
        Pair(
            requirement="roots.capability.list-changed",
            legal=opening(revision, client={"roots": {"listChanged": True}}),
            illegal=opening(revision, client={"roots": {"listChanged": "yes"}}),
            opened=False,
            revisions=(revision,),
            party="client",
        )
        for revision in HANDSHAKE
    ),
    *declared(
        "roots.capability.declared",
        {"roots": {}},
        [S.request("q", _LIST), C.result("q", _ANSWER)],
        also=frozenset({"lifecycle.capabilities.respected"}),
    ),
    *declared(
        "roots.list-changed.capability-required",
        {"roots": {"listChanged": True}},
        [C.notify("roots/list_changed")],
    ),
    *answered("roots.list.array", _LIST, None, legal=_ANSWER, illegal={"roots": _HOME}),
    *answered("roots.list.array", _LIST, None, legal={"roots": []}, illegal={}, variant="absent"),
    *answered(
        "roots.list.array", _LIST, None, legal=_ANSWER, illegal={"roots": ["/"]}, variant="item"
    ),
    *answered(
        "roots.list.array",
        _LIST,
        None,
        legal=_ANSWER,
        illegal=[_HOME],
        revisions=("2024-11-05", "2025-03-26", "2025-06-18"),
        variant="bare",
    ),
    *answered("roots.item.uri", _LIST, None, legal=_ANSWER, illegal={"roots": [{"name": "home"}]}),
    *answered(
        "roots.item.file-uri",
        _LIST,
        None,
        legal=_ANSWER,
        illegal={"roots": [{"uri": "https://example.com", "name": "home"}]},
    ),
    *answered(
        "roots.item.name",
        _LIST,
        None,
        legal=_ANSWER,
        illegal={"roots": [{"uri": "file:///home", "name": 1}]},
        severity="fail",
    ),
    declared_per_request("roots.capability-per-request", _LIST, None, _ANSWER, "roots"),
    asked_in_a_result("roots.asked-by-mrtr", _LIST, None),
]
