from typing import Any

from accord.protocol.revisions import REVISIONS
from protocol.rules.pairs._samples import HANDSHAKE, STATELESS, TEXT, called, declared, listening
from support.traces import META, C, Pair, S, Said

SERVER: dict[str, Any] = {"logging": {}, "tools": {}}
LOG = {"level": "warning", "data": {"left": 3}}
CALL = {"name": "add", "arguments": {}}
RESULT = {"content": [TEXT], "isError": False}


def during_call(notice: Said, *, level: str | None = "debug") -> list[Said]:
    """A requested log message while a tool runs."""
    meta = {} if level is None else {"_meta": {f"{META}logLevel": level}}
    return [C.request(1, "tools/call", {**CALL, **meta}), notice, S.result(1, RESULT)]


def logged(requirement: str, legal: Any, illegal: Any, **more: Any) -> list[Pair]:
    """In sessions a log message stands alone; without sessions it belongs to a request."""
    return [
        Pair(
            requirement=requirement,
            server=SERVER,
            revisions=HANDSHAKE,
            legal=[S.notify("message", legal)],
            illegal=[S.notify("message", illegal)],
            **more,
        ),
        Pair(
            requirement=requirement,
            revisions=STATELESS,
            legal=during_call(S.notify("message", legal)),
            illegal=during_call(S.notify("message", illegal)),
            **more,
        ),
    ]


def set_level(level: str, id: Any = 1) -> list[Said]:
    return [C.request(id, "logging/setLevel", {"level": level}), S.result(id, {})]


def at(level: str) -> Said:
    return S.notify("message", {"level": level, "data": "hello"})


PAIRS = [
    *(
        Pair(
            requirement="logging.capability.declared",
            opened=False,
            revisions=(revision,),
            legal=[*declared(revision, SERVER), S.notify("message", LOG)],
            illegal=[*declared(revision, {}), S.notify("message", LOG)],
        )
        for revision in REVISIONS
    ),
    *(
        Pair(
            requirement="logging.capability.declared",
            variant="answered",
            opened=False,
            revisions=(revision,),
            legal=[*declared(revision, SERVER), *set_level("info")],
            illegal=[*declared(revision, {}), *set_level("info")],
            party="server",
            also=frozenset({"lifecycle.capabilities.respected"}),
        )
        for revision in REVISIONS
    ),
    *logged("logging.levels.rfc5424", LOG, {**LOG, "level": "WARNING"}),
    *logged("logging.levels.rfc5424", LOG, {**LOG, "level": 4}, variant="type"),
    *logged("logging.message.level-and-data", {**LOG, "data": None}, {"level": "info"}),
    *logged("logging.message.level-and-data", LOG, {"data": "hello"}, variant="level"),
    *logged("logging.message.level-and-data", LOG, None, variant="no-params"),
    *logged("logging.message.logger-optional", {**LOG, "logger": "db"}, {**LOG, "logger": 5}),
    Pair(
        requirement="logging.message.method",
        server=SERVER,
        revisions=HANDSHAKE,
        legal=[S.notify("message", LOG)],
        illegal=[S.notify("log", LOG)],
    ),
    Pair(
        requirement="logging.message.method",
        revisions=STATELESS,
        legal=during_call(S.notify("message", LOG)),
        illegal=during_call(S.notify("logging/message", LOG)),
    ),
    Pair(
        requirement="logging.session-wide",
        server=SERVER,
        legal=[at("debug"), *set_level("warning"), at("warning"), at("emergency")],
        illegal=[*set_level("warning"), at("notice")],
    ),
    Pair(
        requirement="logging.session-wide",
        variant="between-levels",
        server=SERVER,
        legal=[
            *set_level("error"),
            C.request(2, "logging/setLevel", {"level": "info"}),
            at("info"),
            S.result(2, {}),
            at("info"),
        ],
        illegal=[
            *set_level("error"),
            C.request(2, "logging/setLevel", {"level": "chatty"}),
            at("info"),
            S.error(2, -32602, "no such level"),
        ],
    ),
    Pair(
        requirement="logging.only-with-level",
        legal=during_call(S.notify("message", LOG)),
        illegal=during_call(S.notify("message", LOG), level=None),
    ),
    Pair(
        requirement="logging.only-with-level",
        variant="cancelled",
        legal=[
            C.request(1, "tools/call", {**CALL, "_meta": {f"{META}logLevel": "info"}}),
            C.notify("cancelled", {"requestId": 1}),
            S.notify("message", LOG),
        ],
        illegal=[*called(TEXT), S.notify("message", LOG)],
    ),
    Pair(
        requirement="logging.own-stream-only",
        legal=during_call(S.notify("message", LOG)),
        illegal=[*during_call(at("info")), S.notify("message", LOG)],
    ),
    *(
        Pair(
            requirement="logging.own-stream-only",
            variant="listen",
            revisions=(revision,),
            legal=during_call(S.notify("message", LOG)),
            illegal=listening(revision, S.notify("message", LOG), {"toolsListChanged": True}),
            also=frozenset(
                {"tasks-ext.notify.no-progress-or-logs", "subscriptions.only-requested-kinds"}
            ),
        )
        for revision in STATELESS
    ),
]
