"""Further clients with one fault each: the same requirements broken in other ways."""

import asyncio
import json
from typing import Any, ClassVar

from check.client.mutants import Plain, RawSse
from check.client.raw import Gone, Message, Raw
from check.client.registering import (
    answer,
    mutant,
    on,
    opening,
    params,
    put,
    result,
    says,
    without,
)
from check.faults import altering, faults

QUESTIONS, INVALID = "SendsEveryRequest", "SendsInvalidRequests"
ROOTS = "notifications/roots/list_changed"
CANCELLED = "notifications/cancelled"


# -- messages

says(
    "jsonrpc.request.id-present",
    sends_a_ping_without_an_id=on("ping", lambda m: (m, without("id")(m))),
    lists_without_an_id=on("tools/list", lambda m: (m, without("id")(m))),
)
says(
    "jsonrpc.request.id-string-or-integer",
    asks_with_true=on("ping", lambda m: ({**m, "id": True}, m)),
    asks_with_a_list=on("prompts/list", lambda m: ({**m, "id": [1]}, m)),
)
says(
    "jsonrpc.request.id-not-null",
    lists_with_null=on("tools/list", lambda m: ({**m, "id": None}, m)),
    calls_with_null=on("tools/call", lambda m: ({**m, "id": None}, m)),
)
says(
    "jsonrpc.request.id-unique",
    lists_twice_under_an_id=on("prompts/list", lambda m: (m, m)),
    begins_again_at_one=on("ping", lambda m: (m, {**m, "id": 1})),
)
says(
    "jsonrpc.request.params-object",
    pings_with_text=on("ping", put("params", "none")),
    pings_with_a_number=on("ping", put("params", 7)),
)
says(
    "jsonrpc.request.method-string",
    asks_with_null=on("ping", put("method", None)),
    asks_with_a_list_of_names=on("ping", put("method", ["ping"])),
)
says(
    "jsonrpc.notification.params-object",
    tells_with_text=on(ROOTS, put("params", "all")),
    tells_with_null_and_more=on(ROOTS, put("params", [None])),
)
says(
    "jsonrpc.notification.no-id",
    tells_with_a_number=on(ROOTS, put("id", 4711)),
)
says(
    "jsonrpc.notification.method-string",
    tells_with_null=on(ROOTS, put("method", None)),
    tells_with_an_object=on(ROOTS, put("method", {})),
)
says(
    "jsonrpc.response.id-echo",
    QUESTIONS,
    answers_with_a_text_id=answer("action", lambda m: (m, {**m, "id": 7})),
    answers_models_elsewhere=answer("model", lambda m: (m, {**m, "id": "model"})),
)
says(
    "jsonrpc.response.result-xor-error",
    QUESTIONS,
    answers_forms_with_both=answer("action", put("error", {"code": 1, "message": "no"})),
    answers_pings_with_both=lambda m: (
        {**m, "error": {"code": 0, "message": "fine"}} if m.get("result") == {} else m
    ),
)
says(
    "jsonrpc.error.code-and-message",
    INVALID,
    also={"errors.code.method-not-found": "an error without a code has no code"},
    leaves_out_the_code=lambda m: {**m, "error": {"message": "no"}} if "error" in m else m,
)
says(
    "jsonrpc.error.code-and-message",
    INVALID,
    numbers_its_message=lambda m: (
        {**m, "error": {**m["error"], "message": 7}} if "error" in m else m
    ),
)


# -- opening

says(
    "lifecycle.initialize.protocol-version",
    names_its_revision_by_a_number=opening(put("protocolVersion", 20250618)),
    names_its_revisions=opening(put("protocolVersion", ["2025-06-18"])),
)
says(
    "lifecycle.initialize.client-info",
    names_itself_by_text=opening(put("clientInfo", "raw")),
    names_itself_by_null=opening(put("clientInfo", None)),
)
says(
    "lifecycle.implementation.name-and-version",
    opens_without_a_name_of_its_own=opening(put("clientInfo", {"version": "1"})),
    numbers_its_version=opening(put("clientInfo", {"name": "raw", "version": 1})),
)
says(
    "lifecycle.version.identifier",
    opens_with_a_word=opening(put("protocolVersion", "latest")),
    opens_with_a_time=opening(put("protocolVersion", "2025-06-18T00:00:00Z")),
)
says(
    "meta.title.display-name",
    lists_its_titles=opening(put("clientInfo", {"name": "raw", "version": "1", "title": ["Raw"]})),
    has_null_for_a_title=opening(put("clientInfo", {"name": "raw", "version": "1", "title": {}})),
)
says(
    "lifecycle.shutdown.no-message",
    exits_by_a_message=on(ROOTS, lambda m: (m, {"jsonrpc": "2.0", "method": "exit"})),
)
faults(
    mutant("lifecycle.version.client-disconnects", "ChoosesUnknownRevision", over="stdio"),
    AgreesToAnythingOnStdio=altering(Raw, takes=lambda self, revision: True),
)


@mutant("lifecycle.version.client-disconnects", "ChoosesUnknownRevision", over="stdio")
class StaysWithoutARevision(Raw):
    def takes(self, revision: Any) -> bool:
        if revision != self.revision:
            self.is_stuck = True
        return True

    is_stuck = False

    async def begin(self, opening: Message) -> None:
        if self.is_stuck:
            await asyncio.sleep(60)
        await super().begin(opening)


@mutant("lifecycle.errors.handled", "RefusesInitialize", over="stdio")
class StaysAfterARefusal(Raw):
    async def open(self) -> Any:
        reply = await super().open()
        if reply is not None and "error" in reply:
            await asyncio.sleep(60)
        return reply


# -- questions

says(
    "ping.response.empty",
    QUESTIONS,
    answers_pings_with_a_time=lambda m: {**m, "result": {"at": 1}} if m.get("result") == {} else m,
    answers_pings_with_ok=lambda m: {**m, "result": {"ok": "yes"}} if m.get("result") == {} else m,
)
says(
    "elicitation.result.content-optional",
    QUESTIONS,
    cancels_with_a_list=answer("action", result(lambda _: {"action": "cancel", "content": []})),
    declines_with_a_number=answer("action", result(lambda _: {"action": "decline", "content": 7})),
)
says(
    "elicitation.result.action-present",
    QUESTIONS,
    accepts_without_a_word=answer("action", result(without("action"))),
    accepts_by_another_name=answer("action", result(lambda r: {"response": "accept"})),
)
says(
    "roots.item.name",
    QUESTIONS,
    lists_names_of_roots=answer(
        "roots", result(put("roots", [{"uri": "file:///srv", "name": ["srv"]}]))
    ),
)
says(
    "sampling.result.content-type",
    QUESTIONS,
    answers_without_a_type=answer("model", result(put("content", {"text": "hello"}))),
    answers_with_a_link=answer(
        "model",
        result(put("content", {"type": "resource_link", "uri": "play://note", "name": "n"})),
    ),
)
says(
    "errors.code.method-not-found",
    INVALID,
    refuses_the_unknown_as_invalid=lambda m: (
        {**m, "error": {"code": -32602, "message": "no"}}
        if m.get("error", {}).get("code") == -32601
        else m
    ),
    refuses_the_unknown_in_its_own_way=lambda m: (
        {**m, "error": {"code": 404, "message": "no"}}
        if m.get("error", {}).get("code") == -32601
        else m
    ),
)


class _Unasked(Plain):
    """Answers what it did not declare."""

    method = ""
    reply: ClassVar[Message] = {}

    async def result(self, method: str, params: Message) -> Message:
        return self.reply if method == self.method else await super().result(method, params)


for id, name, method, reply in (
    ("roots.capability.declared", "HasRootsAnyway", "roots/list",
        {"roots": [{"uri": "file:///srv"}]}),
    ("elicitation.capability.declared", "AcceptsAnyway", "elicitation/create",
        {"action": "accept", "content": {"name": "Ada"}}),
    ("elicitation.capability.declared", "CancelsAnyway", "elicitation/create",
        {"action": "cancel"}),
):  # fmt: skip
    also = {"roots.errors": "it answers what it did not declare"} if "roots" in id else {}
    mutant(id, INVALID, also=also)(type(name, (_Unasked,), {"method": method, "reply": reply}))

# -- lists and the rest

for method, id, members in (
    ("tools/call", "tools.call.method", ("name", 7, None)),
    ("resources/read", "resources.read.method", ("uri", 7, None)),
    ("resources/subscribe", "resources.subscribe.method", ("uri", ["play://note"], None)),
    ("prompts/get", "prompts.get.method", ("name", {"name": "greet"}, None)),
    ("logging/setLevel", "logging.set-level.method", ("level", 3, None)),
):
    member, odd, null = members
    word = method.replace("/", "_")
    says(
        id,
        **{
            f"names_{word}_by_another_type": on(method, params(put(member, odd))),
            f"names_{word}_by_null": on(method, params(put(member, null))),
        },
    )
says(
    "completion.ref.types",
    completes_text=on("completion/complete", params(put("ref", "greet"))),
    completes_without_a_type=on("completion/complete", params(put("ref", {"name": "greet"}))),
)
says(
    "completion.complete.method",
    completes_with_a_number=on(
        "completion/complete", params(put("argument", {"name": "name", "value": 7}))
    ),
    completes_without_an_argument=on("completion/complete", params(without("argument"))),
)
says(
    "completion.request.context",
    completes_with_text_for_a_context=on("completion/complete", params(put("context", "all"))),
    completes_with_numbers_for_texts=on(
        "completion/complete", params(put("context", {"arguments": {"name": 7}}))
    ),
)
says(
    "progress.token.type",
    takes_a_list_for_a_token=on("tools/call", params(put("_meta", {"progressToken": [1]}))),
    takes_true_for_a_token=on("tools/call", params(put("_meta", {"progressToken": True}))),
)
for id, first, other in (
    ("meta.key.name-grammar", "a b", "a-"),
    ("meta.key.label-grammar", "-a.example/key", "a_b.example/key"),
    ("meta.key.two-segments", "a//b", "a/b/"),
    ("meta.prefix.reserved", "modelcontextprotocol.io/mine", "api.mcp.dev/mine"),
):
    word = id.rpartition(".")[2].replace("-", "_")
    says(
        id,
        **{
            f"breaks_the_{word}": on("ping", put("params", {"_meta": {first: 1}})),
            f"breaks_the_{word}_otherwise": on("ping", put("params", {"_meta": {other: 1}})),
        },
    )
says(
    "meta.field.reserved",
    sends_metadata_as_a_list=on("ping", put("params", {"_meta": []})),
    sends_metadata_as_a_number=on("prompts/list", put("params", {"_meta": 7})),
)


@mutant("pagination.page-size-not-assumed", "ReturnsListsInPages")
class StopsAtAPageOfOne(Raw):
    def next_cursor(self, reply: Message | None) -> Any:
        result = (reply or {}).get("result", {})
        entries = next((each for each in result.values() if isinstance(each, list)), [])
        return None if len(entries) == 1 else result.get("nextCursor")


@mutant("pagination.page-size-not-assumed", "ReturnsListsInPages")
class StopsAtAnEmptyPage(Raw):
    def next_cursor(self, reply: Message | None) -> Any:
        result = (reply or {}).get("result", {})
        entries = next((each for each in result.values() if isinstance(each, list)), [])
        return result.get("nextCursor") if entries else None


@mutant("pagination.client.both-flows", "ReturnsListsInPages", over="stdio")
class StopsAtCursors(Raw):
    def next_cursor(self, reply: Message | None) -> Any:
        if super().next_cursor(reply) is not None:
            raise Gone
        return None


@mutant("pagination.cursor.opaque", "ReturnsListsInPages")
class CountsCursors(Raw):
    def next_cursor(self, reply: Message | None) -> Any:
        return None if super().next_cursor(reply) is None else "2"


# -- HTTP


class _Heads(Raw):
    """Changes the headers of its requests."""

    def changed_heads(self, method: str, heads: dict[str, str]) -> dict[str, str]:
        return heads

    def head(self, method: str) -> dict[str, str]:
        return self.changed_heads(method, super().head(method))


def heads(id: str, **changes: Any) -> None:
    for name, change in changes.items():

        def changed_heads(_: Any, method: str, found: dict[str, str], do: Any = change) -> Any:
            return do(method, found)

        mutant(id)(type(name, (_Heads,), {"changed_heads": changed_heads}))


VERSION, SESSION = "MCP-Protocol-Version", "Mcp-Session-Id"
heads(
    "http.client.protocol-version-header",
    names_another_revision=lambda _, h: {**h, VERSION: "2025-03-26"} if VERSION in h else h,
    forgets_the_revision_when_listening=lambda m, h: without(VERSION)(h) if m == "GET" else h,
    forgets_the_revision_when_leaving=lambda m, h: without(VERSION)(h) if m == "DELETE" else h,
)
heads(
    "http.get.accept-event-stream",
    listens_for_json_and_text=lambda m, h: {**h, "Accept": "text/plain"} if m == "GET" else h,
    listens_without_a_type=lambda m, h: {**h, "Accept": "*/*"} if m == "GET" else h,
)
heads(
    "session.id.client-echo",
    changes_its_session=lambda m, h: {**h, SESSION: "mine"} if m == "GET" else h,
    shortens_its_session=lambda m, h: (
        {**h, SESSION: h[SESSION][:-1]} if m == "GET" and SESSION in h else h
    ),
)


faults(
    mutant("session.end.client-delete"),
    DeletesNothing=altering(Raw, finish=lambda self: self.ask("ping")),
)


@mutant("http.session.client-restarts-on-404", "ForgetsTheSession")
class OpensWithItsLostSession(Raw):
    async def renew(self, data: bytes) -> None:
        await self.open()
        raise Gone


@mutant("http.client.post-messages")
class PatchesMessages(Raw):
    async def tell_roots(self) -> None:
        told = {"jsonrpc": "2.0", "method": ROOTS}
        await self.request("PATCH", self.head("POST"), json.dumps(told).encode())


# -- cancelling


class _Impatient(Raw):
    patience = 0.5


faults(
    mutant("cancellation.request-id.previously-issued"),
    CancelsByText=altering(Raw, tell_roots=lambda self: self.give_up("never-sent")),
)


@mutant("timeouts.cancel-by-notification", "NeverAnswers", over="stdio")
class CancelsByAnotherName(_Impatient):
    async def give_up(self, id: Any) -> None:
        told = {"jsonrpc": "2.0", "method": "notifications/abandoned", "params": {"requestId": id}}
        await self.say(told)


@mutant("cancellation.races", "CancelsItsRequests", over="stdio")
class FallsOverCancellationsOnStdio(Raw):
    is_deaf = False

    def heed(self, message: Message) -> None:
        self.is_deaf = self.is_deaf or message["method"] == CANCELLED
        if not self.is_deaf:
            super().heed(message)


faults(
    mutant("cancellation.receiver.stops", "CancelsItsRequests", over="stdio"),
    GoesOnOnStdio=altering(Raw, stop=lambda self, request: None),
)


@mutant("cancellation.invalid-ignored", "CancelsUnknownRequests", over="stdio")
class FallsSilentOnUnknownCancellations(Raw):
    is_deaf = False

    def heed(self, message: Message) -> None:
        self.is_deaf = self.is_deaf or message["method"] == CANCELLED
        if not self.is_deaf:
            super().heed(message)


# -- stdio


@mutant("stdio.framing.newline-delimited", over="stdio")
class GluesThreeMessages(Raw):
    async def tell_roots(self) -> None:
        told = b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}'
        await self.send(told + b" " + told + told)


@mutant("stdio.framing.newline-delimited", over="stdio")
class EndsWithoutANewline(Raw):
    async def tell_roots(self) -> None:
        self.writer.write(b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}')


@mutant("stdio.framing.no-embedded-newline", over="stdio")
class BreaksAfterTheBrace(Raw):
    async def tell_roots(self) -> None:
        await self.send(b'{\n"jsonrpc":"2.0","method":"notifications/roots/list_changed"}')


@mutant("stdio.framing.no-embedded-newline", over="stdio")
class BreaksTheLinesOfEveryNotification(BreaksAfterTheBrace):
    async def tell_roots(self) -> None:
        for _ in range(3):
            await super().tell_roots()


faults(
    mutant("stdio.client.stdin-only-messages", over="stdio"),
    WritesItsLog=altering(Raw, tell_roots=lambda self: self.send(b"INFO connected")),
    WritesAQuit=altering(Raw, tell_roots=lambda self: self.send(b"quit")),
)


@mutant("sse.client.posts-to-endpoint", over="sse")
class PostsToTheStream(RawSse):
    async def tell_roots(self) -> None:
        told = b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}'
        async with self.http.post(self.place.url, data=told):
            pass
