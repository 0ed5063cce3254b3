"""Pairs of traces for listen requests."""

from support.traces import META, C, Pair, S

_A = "x://a"
_TAG = f"{META}subscriptionId"


def _listen(id="L", **wanted):
    return C.request(id, "subscriptions/listen", {"notifications": wanted})


def _told(name, id="L", **params):
    return S.notify(name, {"_meta": {_TAG: id}, **params})


def _acknowledged(id="L", **wanted):
    return _told("subscriptions/acknowledged", id, notifications=wanted)


_TOOLS = [_listen(toolsListChanged=True), _acknowledged(toolsListChanged=True)]
_WATCH = [_listen(resourceSubscriptions=[_A]), _acknowledged(resourceSubscriptions=[_A])]
_CHANGED = _told("tools/list_changed")
_END = S.result("L", {"_meta": {_TAG: "L"}})


def _pair(requirement, legal, illegal, variant=""):
    return Pair(
        requirement=requirement, legal=legal, illegal=illegal, party="server", variant=variant
    )


PAIRS = [
    _pair(
        "subscriptions.only-requested-kinds",
        [*_TOOLS, _CHANGED],
        [*_TOOLS, _told("prompts/list_changed")],
    ),
    _pair(
        "subscriptions.only-requested-kinds",
        [*_WATCH, _told("resources/updated", uri=_A)],
        [*_TOOLS, _told("resources/updated", uri=_A)],
        variant="updated",
    ),
    _pair(
        "subscriptions.updated-only-for-watched",
        [*_WATCH, _told("resources/updated", uri=_A)],
        [*_WATCH, _told("resources/updated", uri="x://b")],
    ),
    _pair("subscriptions.ack-first", _TOOLS, [_TOOLS[0], _END]),
    _pair("subscriptions.ack-first", [*_TOOLS, _END], [_TOOLS[0], _END], variant="end"),
    _pair("subscriptions.nothing-before-ack", [*_TOOLS, _CHANGED], [_TOOLS[0], _CHANGED]),
    _pair(
        "subscriptions.ack-carries-id",
        [*_TOOLS, _CHANGED],
        [
            _TOOLS[0],
            S.notify("subscriptions/acknowledged", {"notifications": {"toolsListChanged": True}}),
            _CHANGED,
        ],
    ),
    _pair(
        "subscriptions.ack-carries-id",
        [_listen(1), _acknowledged(1)],
        [_listen(1), _acknowledged("1")],
        variant="type",
    ),
    _pair(
        "subscriptions.ack-is-subset",
        [_listen(toolsListChanged=True), _acknowledged(promptsListChanged=False)],
        [_listen(toolsListChanged=True), _acknowledged(promptsListChanged=True)],
    ),
    _pair(
        "subscriptions.ack-is-subset",
        _WATCH,
        [_WATCH[0], _acknowledged(resourceSubscriptions=[_A, "x://b"])],
        variant="resources",
    ),
    _pair(
        "subscriptions.ack-is-subset",
        [_listen(), _acknowledged()],
        [_listen(), S.notify("subscriptions/acknowledged", {"_meta": {_TAG: "L"}})],
        variant="missing",
    ),
    _pair("subscriptions.graceful-end-carries-id", [*_TOOLS, _END], [*_TOOLS, S.result("L", {})]),
    _pair(
        "subscriptions.graceful-end-carries-id",
        [*_TOOLS, _END],
        [*_TOOLS, S.result("L", {"_meta": {_TAG: "M"}})],
        variant="other",
    ),
]
