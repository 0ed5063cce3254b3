from typing import Any

from accord.protocol.revisions import REVISIONS
from protocol.rules.pairs._samples import (
    CACHE,
    HANDSHAKE,
    RESOURCE,
    TEMPLATE,
    asked,
    called,
    declared,
    listening,
    read,
    resources,
    templates,
    without,
)
from support.traces import C, Pair, S

SERVER = {"resources": {"subscribe": True}, "tools": {}}
CONTENTS = {"uri": "note://a", "mimeType": "text/plain", "text": "hello"}
BLOB = {"uri": "note://a", "mimeType": "image/png", "blob": "aGk="}
CUSTOM = tuple(REVISIONS)[2:]


def listed(requirement: str, legal: Any, illegal: Any, **more: Any) -> Pair:
    return Pair(
        requirement=requirement,
        server=SERVER,
        legal=resources(legal),
        illegal=resources(illegal),
        **more,
    )


def templated(requirement: str, legal: Any, illegal: Any, **more: Any) -> Pair:
    return Pair(
        requirement=requirement,
        server=SERVER,
        legal=templates(legal),
        illegal=templates(illegal),
        **more,
    )


def contents(requirement: str, legal: Any, illegal: Any, **more: Any) -> Pair:
    return Pair(
        requirement=requirement, server=SERVER, legal=read(legal), illegal=read(illegal), **more
    )


def updated(params: Any) -> list[Any]:
    return [
        C.request(1, "resources/subscribe", {"uri": "note://a"}),
        S.result(1, {}),
        S.notify("resources/updated", params),
    ]


def watching(revision: str, params: Any) -> list[Any]:
    """A subscription and an update, in the way of the revision."""
    if REVISIONS[revision].handshake:
        return updated(params)
    notice = S.notify("resources/updated", params)
    return listening(revision, notice, {"resourceSubscriptions": ["note://a"]})


def capabilities() -> list[Pair]:
    pairs = []
    for revision in REVISIONS:
        notice = listening(
            revision, S.notify("resources/list_changed"), {"resourcesListChanged": True}
        )
        opened: dict[str, Any] = {"opened": False, "revisions": (revision,)}
        pairs += [
            Pair(
                requirement="resources.capability.list-changed",
                legal=declared(revision, {"resources": {"listChanged": False}}),
                illegal=declared(revision, {"resources": {"listChanged": 1}}),
                **opened,
            ),
            Pair(
                requirement="resources.capability.subscribe",
                legal=declared(revision, {"resources": {"subscribe": False}}),
                illegal=declared(revision, {"resources": {"subscribe": {}}}),
                **opened,
            ),
            Pair(
                requirement="resources.list-changed.capability-required",
                legal=[*declared(revision, {"resources": {"listChanged": True}}), *notice],
                illegal=[*declared(revision, {"resources": {}}), *notice],
                **opened,
            ),
            Pair(
                requirement="resources.capability.declared",
                legal=[*declared(revision, SERVER), *resources(RESOURCE)],
                illegal=[*declared(revision, {}), *resources(RESOURCE)],
                party="server",
                also=frozenset({"lifecycle.capabilities.respected"}),
                **opened,
            ),
            Pair(
                requirement="resources.subscribe.capability-required",
                legal=[*declared(revision, SERVER), *updated({"uri": "note://a"})],
                illegal=[
                    *declared(revision, {"resources": {}}),
                    S.notify("resources/updated", {"uri": "note://a"}),
                ],
                **opened,
            ),
            Pair(
                requirement="resources.subscribe.capability-required",
                variant="answered",
                legal=[*declared(revision, SERVER), *updated({"uri": "note://a"})],
                illegal=[
                    *declared(revision, {"resources": {}}),
                    C.request(1, "resources/subscribe", {"uri": "note://a"}),
                    S.result(1, {}),
                ],
                party="server",
                also=frozenset({"lifecycle.capabilities.respected"}),
                **opened,
            ),
        ]
    return pairs


def updates() -> list[Pair]:
    pairs = []
    for revision in REVISIONS:
        legal = watching(revision, {"uri": "note://a"})
        shared: dict[str, Any] = {"server": SERVER, "revisions": (revision,), "legal": legal}
        pairs += [
            Pair(
                requirement="resources.updated.uri-param",
                illegal=watching(revision, {}),
                **shared,
            ),
            Pair(
                requirement="resources.updated.uri-param",
                variant="type",
                illegal=watching(revision, {"uri": 5}),
                **shared,
            ),
        ]
    return pairs


PAIRS = [
    *capabilities(),
    *updates(),
    Pair(
        requirement="resources.updated.uri-param",
        variant="no-params",
        server=SERVER,
        revisions=HANDSHAKE,
        legal=updated({"uri": "note://a"}),
        illegal=updated(None),
    ),
    Pair(
        requirement="resources.updated.subscribers-only",
        server=SERVER,
        legal=updated({"uri": "note://a"}),
        illegal=updated({"uri": "note://ab"}),
    ),
    Pair(
        requirement="resources.updated.subscribers-only",
        variant="parts",
        server=SERVER,
        legal=updated({"uri": "note://a/b"}),
        illegal=[
            *updated({"uri": "note://a#b"}),
            C.request(2, "resources/unsubscribe", {"uri": "note://a"}),
            S.result(2, {}),
            S.notify("resources/updated", {"uri": "note://a"}),
        ],
    ),
    Pair(
        requirement="resources.updated.subscribers-only",
        variant="pending",
        server=SERVER,
        legal=[
            C.request(1, "resources/subscribe", {"uri": "note://"}),
            S.notify("resources/updated", {"uri": "note://a"}),
            S.result(1, {}),
        ],
        illegal=[S.notify("resources/updated", {"uri": "note://a"})],
    ),
    # -- lists
    Pair(
        requirement="resources.list.array",
        server=SERVER,
        legal=resources(),
        illegal=asked("resources/list", None, {"resources": None, **CACHE}),
    ),
    Pair(
        requirement="resources.list.array",
        variant="stranger",
        server=SERVER,
        legal=resources(RESOURCE),
        illegal=resources("note://a"),
    ),
    listed("resources.item.uri", RESOURCE, without(RESOURCE, "uri")),
    listed("resources.item.uri", RESOURCE, {**RESOURCE, "uri": 5}, variant="type"),
    listed("resources.item.uri", RESOURCE, {**RESOURCE, "uri": "a/b"}, variant="relative"),
    listed(
        "resources.item.uri",
        {**RESOURCE, "uri": "file:///a%20b"},
        {**RESOURCE, "uri": "file:///a b"},
        variant="escaped",
    ),
    listed(
        "resources.item.uri",
        {**RESOURCE, "uri": "my-notes://a"},
        {**RESOURCE, "uri": "my_notes://a"},
        variant="custom",
        revisions=HANDSHAKE[:2],
    ),
    listed("resources.item.name", RESOURCE, without(RESOURCE, "name")),
    listed("resources.item.name", RESOURCE, {**RESOURCE, "name": None}, variant="type"),
    listed(
        "resources.item.title",
        {**RESOURCE, "title": "A"},
        {**RESOURCE, "title": 5},
        severity="fail",
    ),
    listed(
        "resources.item.description-and-mime",
        {**RESOURCE, "description": "A note.", "mimeType": "text/plain"},
        {**RESOURCE, "description": "A note.", "mimeType": 5},
    ),
    listed(
        "resources.item.description-and-mime",
        {**RESOURCE, "description": "A note."},
        {**RESOURCE, "description": None},
        variant="description",
    ),
    listed("resources.item.size", {**RESOURCE, "size": 5}, {**RESOURCE, "size": "5"}),
    listed(
        "resources.item.size", {**RESOURCE, "size": 5.0}, {**RESOURCE, "size": True}, variant="flag"
    ),
    Pair(
        requirement="resources.templates.array",
        server=SERVER,
        legal=templates(),
        illegal=asked("resources/templates/list", None, {"templates": [], **CACHE}),
    ),
    templated("resources.template.uri-template", TEMPLATE, without(TEMPLATE, "uriTemplate")),
    templated(
        "resources.template.uri-template",
        {**TEMPLATE, "uriTemplate": "note://{+path}{?a,b*}"},
        {**TEMPLATE, "uriTemplate": "note://{name"},
        variant="syntax",
    ),
    templated("resources.template.name", TEMPLATE, without(TEMPLATE, "name"), severity="fail"),
    templated(
        "resources.template.description-and-mime",
        {**TEMPLATE, "description": "A note."},
        {**TEMPLATE, "mimeType": ["text/plain"]},
    ),
    # -- contents
    Pair(
        requirement="resources.read.contents-array",
        server=SERVER,
        legal=read(CONTENTS),
        illegal=asked("resources/read", {"uri": "note://a"}, {"contents": CONTENTS, **CACHE}),
    ),
    contents("resources.contents.uri", CONTENTS, without(CONTENTS, "uri")),
    contents("resources.contents.uri", CONTENTS, {**CONTENTS, "uri": "a"}, variant="relative"),
    contents("resources.contents.text-or-blob", CONTENTS, without(CONTENTS, "text")),
    contents(
        "resources.contents.text-or-blob",
        CONTENTS,
        {**CONTENTS, "blob": "aGk="},
        variant="both",
        severity="warn",
    ),
    contents(
        "resources.contents.text-or-blob",
        BLOB,
        {**BLOB, "blob": 5},
        variant="type",
        severity="fail",
    ),
    contents(
        "resources.contents.mime-type", CONTENTS, {**CONTENTS, "mimeType": 5}, severity="fail"
    ),
    contents("resources.binary.encoded", BLOB, {**BLOB, "blob": "not base64"}),
    Pair(
        requirement="resources.binary.encoded",
        variant="embedded",
        server=SERVER,
        legal=called({"type": "resource", "resource": BLOB}),
        illegal=called({"type": "resource", "resource": {**BLOB, "blob": "aGk"}}),
    ),
    listed("resources.uri.custom-scheme", RESOURCE, {**RESOURCE, "uri": "my_notes://a"}),
    contents(
        "resources.uri.custom-scheme",
        CONTENTS,
        {**CONTENTS, "uri": "note://a b"},
        variant="contents",
    ),
    Pair(
        requirement="resources.uri.custom-scheme",
        variant="updated",
        server=SERVER,
        revisions=HANDSHAKE,
        legal=updated({"uri": "note://a"}),
        illegal=updated({"uri": "note://a#b#c"}),
    ),
]
