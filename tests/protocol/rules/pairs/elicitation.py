"""Pairs of traces for elicitation."""

from support.questions import (
    CALL,
    CAPABILITIES,
    WAYS,
    answered,
    asked,
    asked_in_a_result,
    asked_of,
    declared,
    declared_per_request,
)
from support.traces import META, C, Pair, S, opening

_CREATE = "elicitation/create"
_FIRST = ("2025-06-18",)
_SECOND = ("2025-11-25",)
_THIRD = ("2026-07-28",)


def _form(**properties):
    schema = {"type": "object", "properties": properties}
    return {"message": "Where to?", "requestedSchema": schema}


def _page(**members):
    return {"mode": "url", "message": "Sign in", "url": "https://example.com/c/1", **members}


_CITY = _form(city={"type": "string", "title": "City"})
_CLASS = {"type": "string", "enum": ["e", "b"], "enumNames": ["Economy", "Business"]}
_ACCEPTED = {"action": "accept", "content": {"city": "Oslo"}}


def _asked_page(requirement, *, variant="", legal=None, **members):
    """Pages have an id in one revision, but not in the next."""
    return [
        pair
        for revisions, id in ((_SECOND, {"elicitationId": "e1"}), (_THIRD, {}))
        for pair in asked(
            requirement,
            _CREATE,
            legal=_page(**id, **(legal or {})),
            illegal=_page(**id, **members),
            revisions=revisions,
            variant=variant,
        )
    ]


def _asked_form(requirement, legal, illegal, variant="", revisions=(*_FIRST, *_SECOND, *_THIRD)):
    return asked(
        requirement,
        _CREATE,
        legal=_form(**legal),
        illegal=_form(**illegal),
        revisions=revisions,
        variant=variant,
    )


def _declaring(elicitation):
    meta = {f"{META}clientCapabilities": {"elicitation": elicitation}}
    return [C.request(1, "tools/call", {**CALL, "_meta": meta})]


def _in_mode(variant, question, *, declared, undeclared):
    """The same question to a client that declared its mode, and to one that did not."""
    return [
        pair
        for revisions, id in ((_SECOND, {"elicitationId": "e1"}), (_THIRD, {}))
        for pair in asked_of(
            "elicitation.mode.supported-only",
            _CREATE,
            question or _page(**id),
            declared={"elicitation": declared},
            undeclared={"elicitation": undeclared},
            revisions=revisions,
            variant=variant,
        )
    ]


def _answered_in_mode(variant, modes, question, reply):
    asked_wrongly = [
        *opening("2025-11-25", client={"elicitation": modes}),
        S.request("q", _CREATE, question),
    ]
    return Pair(
        requirement="elicitation.error.undeclared-mode",
        legal=[*asked_wrongly, C.error("q", -32602, "not in this mode")],
        illegal=[*asked_wrongly, reply],
        opened=False,
        revisions=_SECOND,
        party="client",
        provoked=frozenset({"elicitation.mode.supported-only"}),
        variant=variant,
    )


_DEMAND = [{**_page(), "elicitationId": "e1"}]


def _demanding(requirement, variant, data):
    call = C.request(1, "tools/call", CALL)
    return Pair(
        requirement=requirement,
        legal=[call, S.error(1, -32042, "visit", data={"elicitations": _DEMAND})],
        illegal=[call, S.error(1, -32042, "visit", **data)],
        server={"tools": {}},
        client=CAPABILITIES,
        party="server",
        variant=variant,
    )


PAIRS = [
    *declared(
        "elicitation.capability.declared",
        {"elicitation": {}},
        [S.request("q", _CREATE, _CITY), C.result("q", _ACCEPTED)],
        also=frozenset({"lifecycle.capabilities.respected"}),
    ),
    Pair(
        requirement="elicitation.capability.at-least-one-mode",
        legal=opening("2025-11-25", client={"elicitation": {}}),
        illegal=opening("2025-11-25", client={"elicitation": {"voice": {}}}),
        opened=False,
        revisions=_SECOND,
        party="client",
    ),
    Pair(
        requirement="elicitation.capability.at-least-one-mode",
        legal=_declaring({"url": {}}),
        illegal=_declaring({"voice": {}}),
        revisions=_THIRD,
        party="client",
    ),
    declared_per_request(
        "elicitation.capability-per-request", _CREATE, _CITY, _ACCEPTED, "elicitation"
    ),
    # -- the mode
    *_in_mode("form", _CITY, declared={"form": {}, "url": {}}, undeclared={"url": {}}),
    *_in_mode(
        "named-form", {"mode": "form", **_CITY}, declared={"form": {}}, undeclared={"url": {}}
    ),
    *_in_mode("page", None, declared={"url": {}}, undeclared={"form": {}}),
    *_in_mode("page-of-nothing-named", None, declared={"url": {}}, undeclared={}),
    _answered_in_mode(
        "page", {"form": {}}, _page(elicitationId="e1"), C.result("q", {"action": "accept"})
    ),
    _answered_in_mode("form", {"url": {}}, _CITY, C.result("q", _ACCEPTED)),
    _answered_in_mode("code", {}, _page(elicitationId="e1"), C.error("q", -32603, "failed")),
    asked_in_a_result("elicitation.asked-by-mrtr", _CREATE, _CITY),
    # -- answers
    *answered(
        "elicitation.result.action-present", _CREATE, _CITY, legal={"action": "cancel"}, illegal={}
    ),
    *answered(
        "elicitation.result.action-present",
        _CREATE,
        _CITY,
        legal={"action": "cancel"},
        illegal=["accept"],
        revisions=_FIRST,
        variant="array",
    ),
    *answered(
        "elicitation.result.action-values",
        _CREATE,
        _CITY,
        legal={"action": "decline"},
        illegal={"action": "reject"},
        severity="warn",
    ),
    *answered(
        "elicitation.result.action-values",
        _CREATE,
        _CITY,
        legal=_ACCEPTED,
        illegal={"action": "agree"},
        variant="unknown",
    ),
    *answered(
        "elicitation.result.action-values",
        _CREATE,
        _CITY,
        legal=_ACCEPTED,
        illegal={"action": {}},
        variant="type",
    ),
    *answered(
        "elicitation.result.content-optional",
        _CREATE,
        _CITY,
        legal={"action": "accept", "content": {"city": "Oslo", "n": 1, "x": 1.5, "y": True}},
        illegal={"action": "accept", "content": {"city": ["Oslo"]}},
        revisions=_FIRST,
    ),
    *answered(
        "elicitation.result.content-optional",
        _CREATE,
        _CITY,
        legal=_ACCEPTED,
        illegal={"action": "accept", "content": "Oslo"},
        revisions=_FIRST,
        variant="type",
    ),
    *answered(
        "elicitation.result.content-optional",
        _CREATE,
        _CITY,
        legal=_ACCEPTED,
        illegal={"action": "decline", "content": {"city": "Oslo"}},
        revisions=_FIRST,
        severity="warn",
        variant="declined",
    ),
    *(
        pair
        for revisions, page in ((_SECOND, _page(elicitationId="e1")), (_THIRD, _page()))
        for pair in answered(
            "elicitation.result.url-no-content",
            _CREATE,
            page,
            legal={"action": "accept"},
            illegal=_ACCEPTED,
            revisions=revisions,
        )
    ),
    # -- forms
    *asked(
        "elicitation.schema.flat-primitive",
        _CREATE,
        legal=_CITY,
        illegal={"message": "Where to?"},
        revisions=_FIRST,
        variant="absent",
    ),
    *asked(
        "elicitation.schema.flat-primitive",
        _CREATE,
        legal=_CITY,
        illegal={"message": "Where to?", "requestedSchema": {"type": "string"}},
        revisions=_FIRST,
        variant="type",
    ),
    *_asked_form(
        "elicitation.schema.flat-primitive",
        {"a": {"type": "boolean"}, "b": {"type": "string", "format": "email"}},
        {"a": {"type": "object", "properties": {}}},
    ),
    *_asked_form(
        "elicitation.schema.flat-primitive",
        {"a": {"type": "integer"}},
        {"a": {"type": "array", "items": {"type": "string"}}},
        variant="array",
    ),
    *_asked_form(
        "elicitation.schema.flat-primitive",
        {"a": {"type": "integer"}},
        {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        variant="union",
    ),
    *_asked_form(
        "elicitation.schema.flat-primitive",
        {"a": {"type": "number"}},
        {"a": {"type": "string", "format": "ipv4"}},
        variant="format",
    ),
    *_asked_form(
        "elicitation.enum.enum-names", {"class": _CLASS}, {"class": {**_CLASS, "enumNames": ["E"]}}
    ),
    *_asked_form(
        "elicitation.enum.enum-names",
        {"class": {"type": "string", "enum": ["e"]}},
        {"class": {"type": "string", "oneOf": [{"const": "e", "title": "Economy"}]}},
        variant="titled",
    ),
    *_asked_form(
        "elicitation.enum.enum-names",
        {"class": {"type": "string", "enum": ["e"]}},
        {"class": {"type": "string", "enum": [1]}},
        variant="numbers",
    ),
    *asked(
        "elicitation.form.mode-and-schema",
        _CREATE,
        legal={**_CITY, "mode": "form"},
        illegal={**_CITY, "mode": "voice"},
    ),
    *asked(
        "elicitation.form.mode-and-schema",
        _CREATE,
        legal=_CITY,
        illegal={"message": "Where to?"},
        variant="no-schema",
    ),
    *_asked_form(
        "elicitation.form.flat-primitives",
        {"a": {"type": "array", "items": {"type": "string", "enum": ["x"]}}},
        {"a": {"type": "object", "properties": {}}},
    ),
    *_asked_form(
        "elicitation.form.flat-primitives",
        {"a": {"type": "integer"}},
        {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        variant="union",
    ),
    *asked(
        "elicitation.form.flat-primitives",
        _CREATE,
        legal=_CITY,
        illegal={"message": "Where to?", "requestedSchema": {"type": "object"}},
        variant="no-properties",
    ),
    *asked(
        "elicitation.form.flat-primitives",
        _CREATE,
        legal=_CITY,
        illegal={"message": "Where to?", "requestedSchema": {"type": "string"}},
        variant="type",
    ),
    *_asked_form(
        "elicitation.form.enum-forms",
        {"class": _CLASS},
        {"class": {"type": "string", "oneOf": [{"const": "e"}]}},
    ),
    *_asked_form(
        "elicitation.form.enum-forms",
        {"a": {"type": "string", "oneOf": [{"const": "e", "title": "Economy"}]}},
        {"a": {"type": "string", "anyOf": [{"const": "e", "title": "Economy"}]}},
        variant="any-of",
    ),
    *_asked_form(
        "elicitation.form.enum-forms",
        {"a": {"type": "array", "items": {"anyOf": [{"const": "e", "title": "Economy"}]}}},
        {"a": {"type": "array", "items": {"type": "string"}}},
        variant="several",
    ),
    *_asked_form(
        "elicitation.form.formats",
        {"a": {"type": "string", "format": "date-time"}},
        {"a": {"type": "string", "format": "ipv4"}},
    ),
    *_asked_form(
        "elicitation.form.no-secrets",
        {"max_tokens": {"type": "integer"}, "token": {"type": "boolean"}, "pin": _CLASS},
        {"apiKey": {"type": "string"}},
    ),
    *_asked_form(
        "elicitation.form.no-secrets",
        {"city": {"type": "string"}},
        {"p": {"type": "string", "title": "Your password"}},
        variant="title",
    ),
    *_asked_form(
        "elicitation.form.no-clickable-urls",
        {"city": {"type": "string", "description": "the name of a city"}},
        {"city": {"type": "string", "description": "see https://example.com"}},
    ),
    *asked(
        "elicitation.form.no-clickable-urls",
        _CREATE,
        legal=_CITY,
        illegal={**_CITY, "message": "Look at http://example.com"},
        variant="message",
    ),
    # -- pages
    *_asked_page("elicitation.url.required-params", url=None),
    *_asked_page("elicitation.url.required-params", message=None, variant="message"),
    *_asked_page("elicitation.url.valid-url", url="https://exa mple"),
    *_asked_page("elicitation.url.valid-url", url="https:///path", variant="no-host"),
    *_asked_page("elicitation.url.valid-url", url="https://[::x]/", variant="address"),
    *_asked_page(
        "elicitation.url.https",
        legal={"url": "http://127.0.0.1:8000/"},
        url="http://example.com/",
    ),
    *_asked_page("elicitation.url.no-personal-data", url="https://u:p@example.com/"),
    *_asked_page(
        "elicitation.url.no-personal-data", url="https://example.com/?token=1", variant="query"
    ),
    *_asked_page(
        "elicitation.url.no-personal-data",
        url="https://example.com/ann%40example.org",
        variant="email",
    ),
    *asked(
        "elicitation.url.elicitation-id",
        _CREATE,
        legal=_page(elicitationId="e1"),
        illegal=_page(),
        revisions=_SECOND,
    ),
    Pair(
        requirement="elicitation.url.elicitation-id",
        legal=[
            S.request("q", _CREATE, _page(elicitationId="e1")),
            S.request("r", _CREATE, _page(elicitationId="e1")),
        ],
        illegal=[
            S.request("q", _CREATE, _page(elicitationId="e1")),
            S.request("r", _CREATE, _page(elicitationId="e1", url="https://example.com/c/2")),
        ],
        client=CAPABILITIES,
        party="server",
        variant="twice",
    ),
    *asked(
        "elicitation.url.no-elicitation-id",
        _CREATE,
        legal=_page(),
        illegal=_page(elicitationId="e1"),
        revisions=_THIRD,
    ),
    Pair(
        requirement="elicitation.url.no-elicitation-id",
        legal=WAYS[1].ask(_CREATE, _page()),
        illegal=[
            *WAYS[1].ask(_CREATE, _page()),
            S.notify("elicitation/complete", {"elicitationId": "e1"}),
        ],
        client=CAPABILITIES,
        party="server",
        variant="complete",
    ),
    Pair(
        requirement="elicitation.complete.has-id",
        legal=[S.notify("elicitation/complete", {"elicitationId": "e1"})],
        illegal=[S.notify("elicitation/complete", {})],
        client=CAPABILITIES,
        party="server",
    ),
    _demanding("elicitation.required-error.lists-elicitations", "absent", {}),
    _demanding(
        "elicitation.required-error.lists-elicitations",
        "form",
        {"data": {"elicitations": [_CITY]}},
    ),
    _demanding(
        "elicitation.required-error.lists-elicitations",
        "id",
        {"data": {"elicitations": [_page()]}},
    ),
]
