"""Pairs of traces for multi round trips."""

from support.questions import CALL, CAPABILITIES
from support.traces import META, C, Pair, S

_FORM = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
_ASK = {"method": "elicitation/create", "params": _FORM}
_CALL = C.request(1, "tools/call", CALL)


def _asked(**members):
    return S.result(1, {"resultType": "input_required", **members})


_ASKED = _asked(inputRequests={"q": _ASK})
_INFO = f'{{"{META}serverInfo":{{"name":"someone","version":"1"}}}}'
_ROOTS = '{"method":"roots/list"}'


def _written(requests):
    return S.text(
        '{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required",'
        f'"inputRequests":{requests},"_meta":{_INFO}}}}}'
    )


def _again(id=2, **members):
    return C.request(id, "tools/call", {**CALL, **members})


def _result(requirement, legal, illegal, variant=""):
    return Pair(
        requirement=requirement,
        legal=[_CALL, legal],
        illegal=[_CALL, illegal],
        client=CAPABILITIES,
        party="server",
        variant=variant,
    )


def _retry(requirement, legal, illegal, variant="", asked=_ASKED):
    return Pair(
        requirement=requirement,
        legal=[_CALL, asked, legal],
        illegal=[_CALL, asked, illegal],
        client=CAPABILITIES,
        party="client",
        variant=variant,
    )


_SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 9}

PAIRS = [
    _result(
        "mrtr.server-asks-only-this-way",
        _ASKED,
        S.request(1, "sampling/createMessage", _SAMPLE),
    ),
    Pair(
        requirement="mrtr.result.only-on-supported-methods",
        legal=[C.request(1, "resources/read", {"uri": "x://a"}), _ASKED],
        illegal=[
            C.request(
                1,
                "completion/complete",
                {
                    "ref": {"type": "ref/prompt", "name": "p"},
                    "argument": {"name": "a", "value": ""},
                },
            ),
            _ASKED,
        ],
        client=CAPABILITIES,
        party="server",
    ),
    _result("mrtr.result.has-requests-or-state", _asked(requestState="s"), _asked()),
    _result("mrtr.result.has-requests-or-state", _ASKED, _asked(requestState=7), variant="type"),
    _result(
        "mrtr.result.input-request-kinds",
        _asked(inputRequests={"q": {"method": "roots/list"}}),
        _asked(inputRequests={"q": {"method": "ping", "params": {}}}),
    ),
    _result("mrtr.result.input-request-kinds", _ASKED, _asked(inputRequests=[_ASK]), "array"),
    _result("mrtr.result.input-request-kinds", _ASKED, _asked(inputRequests={"q": "?"}), "text"),
    _result(
        "mrtr.result.input-request-kinds",
        _ASKED,
        _asked(inputRequests={"q": {**_ASK, "id": 1}}),
        "id",
    ),
    _result(
        "mrtr.result.input-request-kinds",
        _ASKED,
        _asked(inputRequests={"q": {"method": "roots/list", "params": []}}),
        "params",
    ),
    _result(
        "mrtr.result.input-request-keys-unique",
        _written(f'{{"a":{_ROOTS},"b":{_ROOTS}}}'),
        _written(f'{{"a":{_ROOTS},"a":{_ROOTS}}}'),
    ),
    _result(
        "mrtr.result.no-cache-hints",
        _ASKED,
        _asked(inputRequests={"q": _ASK}, ttlMs=1, cacheScope="private"),
    ),
    _retry(
        "mrtr.client.new-id",
        _again(inputResponses={"q": {"action": "cancel"}}),
        _again(id=1, inputResponses={"q": {"action": "cancel"}}),
    ),
    _retry(
        "mrtr.client.new-id",
        _again(requestState="s"),
        _again(id=1, requestState="s"),
        asked=_asked(requestState="s"),
        variant="state",
    ),
    _retry(
        "mrtr.client.response-keys-match",
        _again(inputResponses={"q": {"action": "cancel"}}),
        _again(inputResponses={"r": {"action": "cancel"}}),
    ),
    _retry(
        "mrtr.client.response-keys-match",
        _again(inputResponses={"q": {"action": "cancel"}}),
        _again(inputResponses={"q": {"roots": []}}),
        variant="kind",
    ),
    _retry(
        "mrtr.client.response-keys-match",
        _again(inputResponses={"q": {"action": "cancel"}}),
        _again(inputResponses=[{"action": "cancel"}]),
        variant="array",
    ),
]
