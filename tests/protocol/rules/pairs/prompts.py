from typing import Any

from accord.protocol.revisions import REVISIONS
from protocol.rules.pairs._samples import (
    CACHE,
    EMBEDDED,
    HANDSHAKE,
    LINK,
    PICTURE,
    PROMPT,
    SOUND,
    STATELESS,
    TEXT,
    asked,
    declared,
    got,
    listening,
    prompts,
    without,
)
from support.traces import Pair, S

SERVER = {"prompts": {}}
ARGUMENT = {"name": "who", "description": "The person to greet.", "required": True}
RESOURCE = EMBEDDED["resource"]


def listed(requirement: str, legal: Any, illegal: Any, **more: Any) -> Pair:
    return Pair(
        requirement=requirement,
        server=SERVER,
        legal=prompts(legal),
        illegal=prompts(illegal),
        **more,
    )


def said(requirement: str, legal: Any, illegal: Any, **more: Any) -> Pair:
    return Pair(
        requirement=requirement,
        server=SERVER,
        legal=got({"role": "user", "content": legal}),
        illegal=got({"role": "user", "content": illegal}),
        **more,
    )


def embedded(resource: Any) -> Any:
    return {"type": "resource", "resource": resource}


def capabilities() -> list[Pair]:
    pairs = []
    for revision in REVISIONS:
        notice = listening(revision, S.notify("prompts/list_changed"), {"promptsListChanged": True})
        opened: dict[str, Any] = {"opened": False, "revisions": (revision,)}
        pairs += [
            Pair(
                requirement="prompts.capability.list-changed",
                legal=declared(revision, {"prompts": {"listChanged": True}}),
                illegal=declared(revision, {"prompts": {"listChanged": None}}),
                **opened,
            ),
            Pair(
                requirement="prompts.list-changed.capability-required",
                legal=[*declared(revision, {"prompts": {"listChanged": True}}), *notice],
                illegal=[*declared(revision, {"prompts": {}}), *notice],
                **opened,
            ),
            Pair(
                requirement="prompts.capability.declared",
                legal=[*declared(revision, SERVER), *prompts(PROMPT)],
                illegal=[*declared(revision, {}), *prompts(PROMPT)],
                party="server",
                also=frozenset({"lifecycle.capabilities.respected"}),
                **opened,
            ),
        ]
    return pairs


PAIRS = [
    *capabilities(),
    Pair(
        requirement="prompts.list.array",
        server=SERVER,
        legal=prompts(),
        illegal=asked("prompts/list", None, CACHE),
    ),
    Pair(
        requirement="prompts.list.array",
        variant="stranger",
        server=SERVER,
        legal=prompts(PROMPT),
        illegal=prompts(None),
    ),
    listed("prompts.item.name", PROMPT, without(PROMPT, "name")),
    listed(
        "prompts.item.title", {**PROMPT, "title": "Greet"}, {**PROMPT, "title": []}, severity="fail"
    ),
    listed("prompts.item.description-and-arguments", PROMPT, {**PROMPT, "description": 5}),
    listed(
        "prompts.item.description-and-arguments",
        {**PROMPT, "arguments": [ARGUMENT]},
        {**PROMPT, "arguments": {"who": ARGUMENT}},
        variant="arguments",
    ),
    listed(
        "prompts.argument.fields",
        {**PROMPT, "arguments": [{"name": "who"}]},
        {**PROMPT, "arguments": [without(ARGUMENT, "name")]},
    ),
    listed(
        "prompts.argument.fields",
        {**PROMPT, "arguments": [ARGUMENT]},
        {**PROMPT, "arguments": [{**ARGUMENT, "required": "yes"}]},
        variant="required",
    ),
    listed(
        "prompts.argument.fields",
        {**PROMPT, "arguments": [ARGUMENT]},
        {**PROMPT, "arguments": [{**ARGUMENT, "description": 5}]},
        variant="description",
    ),
    listed(
        "prompts.argument.fields",
        {**PROMPT, "arguments": [ARGUMENT]},
        {**PROMPT, "arguments": ["who"]},
        variant="stranger",
    ),
    # -- one prompt
    Pair(
        requirement="prompts.get.messages-array",
        server=SERVER,
        legal=got(),
        illegal=asked("prompts/get", {"name": "greet"}, {"messages": "hello"}),
    ),
    Pair(
        requirement="prompts.get.description",
        server=SERVER,
        legal=got(description="A greeting."),
        illegal=got(description=["A greeting."]),
    ),
    Pair(
        requirement="prompts.message.role",
        server=SERVER,
        legal=got({"role": "assistant", "content": TEXT}),
        illegal=got({"content": TEXT}),
    ),
    Pair(
        requirement="prompts.message.role",
        variant="value",
        server=SERVER,
        legal=got({"role": "user", "content": TEXT}),
        illegal=got({"role": "system", "content": TEXT}),
    ),
    Pair(
        requirement="prompts.message.content",
        server=SERVER,
        legal=got({"role": "user", "content": TEXT}),
        illegal=got({"role": "user"}),
    ),
    said("prompts.message.content", TEXT, [TEXT], variant="array"),
    said("prompts.message.content", LINK, {"type": "video"}, variant="type", revisions=STATELESS),
    said("prompts.message.content-type", TEXT, {"type": "tool_use"}),
    said("prompts.message.content-type", TEXT, {"text": "hello"}, variant="untyped"),
    said("prompts.message.content-type", TEXT, {"type": "text"}, variant="text"),
    said(
        "prompts.message.content-type",
        TEXT,
        SOUND,
        variant="audio-too-early",
        revisions=HANDSHAKE[:1],
    ),
    said(
        "prompts.message.content-type",
        SOUND,
        LINK,
        variant="link-too-early",
        revisions=HANDSHAKE[1:2],
    ),
    said(
        "prompts.message.content-type",
        LINK,
        without(LINK, "uri"),
        variant="link",
        revisions=HANDSHAKE[2:],
    ),
    said("prompts.image.base64", PICTURE, {**PICTURE, "data": "aGk"}),
    said("prompts.image.base64", PICTURE, {**PICTURE, "mimeType": "png"}, variant="mime-type"),
    said("prompts.image.base64", PICTURE, without(PICTURE, "mimeType"), variant="no-mime-type"),
    said("prompts.audio.base64", SOUND, {**SOUND, "data": "aGk"}),
    said("prompts.audio.base64", SOUND, without(SOUND, "data"), variant="no-data"),
    said("prompts.resource.members", EMBEDDED, {"type": "resource", "uri": "note://a"}),
    said("prompts.resource.members", EMBEDDED, embedded(without(RESOURCE, "uri")), variant="uri"),
    said(
        "prompts.resource.members",
        EMBEDDED,
        embedded(without(RESOURCE, "mimeType")),
        variant="mime-type",
    ),
    said(
        "prompts.resource.members",
        EMBEDDED,
        embedded({**RESOURCE, "mimeType": "plain text"}),
        variant="mime-type-syntax",
    ),
    said("prompts.resource.members", EMBEDDED, embedded(without(RESOURCE, "text")), variant="text"),
    said(
        "prompts.resource.members",
        embedded({**without(RESOURCE, "text"), "blob": "aGk="}),
        embedded({**without(RESOURCE, "text"), "blob": "aGk"}),
        variant="blob",
    ),
]
