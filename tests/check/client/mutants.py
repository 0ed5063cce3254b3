"""Clients with one fault each, that a check must find, and no other."""

import asyncio
import json
from typing import Any, ClassVar

from accord.http.rules.sse import Decoder
from check.client.raw import Gone, Message, Raw
from check.client.registering import (
    MUTANTS,
    answer,
    error,
    having,
    mutant,
    on,
    opening,
    params,
    put,
    result,
    says,
    without,
)
from check.faults import altering, faults, named, nothing

COMPLETE = "completion/complete"

# -- messages


says("jsonrpc.message.version-2-0", speaks_1_0=on("ping", put("jsonrpc", "1.0")))
says(
    "jsonrpc.request.id-present",
    asks_without_id=on("logging/setLevel", lambda m: (m, without("id")(m))),
)
says(
    "jsonrpc.request.id-string-or-integer",
    asks_with_a_fraction=on("ping", lambda message: ({**message, "id": 1.5}, message)),
)
says(
    "jsonrpc.request.id-not-null",
    asks_with_null=on("ping", lambda message: ({**message, "id": None}, message)),
)
says("jsonrpc.request.id-unique", uses_an_id_twice=on("ping", lambda message: (message, message)))
says("jsonrpc.request.params-object", asks_with_a_list=on("ping", put("params", [])))
says("jsonrpc.request.method-string", asks_with_a_number=on("ping", put("method", 7)))
says(
    "jsonrpc.response.id-echo",
    "SendsEveryRequest",
    answers_with_another_id=answer("roots", lambda m: (m, {**m, "id": "another"})),
)
says(
    "jsonrpc.response.id-echo",
    "SendsEveryRequest",
    also={"ping.response.prompt": "an answer with another id is not the answer"},
    turns_ids_into_text=lambda m: m if "method" in m else {**m, "id": str(m["id"])},
)


@mutant("jsonrpc.notification.not-answered", "SendsEveryRequest")
class ConfirmsNotifications(Raw):
    def heed(self, message: Message) -> None:
        super().heed(message)
        if "id" not in message:
            self.spawn(self.say({"jsonrpc": "2.0", "id": None, "result": {}}))


@mutant("jsonrpc.notification.not-answered", "SendsEveryRequest", over="stdio")
class ConfirmsNotificationsWithoutId(Raw):
    def heed(self, message: Message) -> None:
        super().heed(message)
        if "id" not in message:
            self.spawn(self.say({"jsonrpc": "2.0", "result": {}}))


@mutant("jsonrpc.notification.not-answered", "SendsEveryRequest", over="stdio")
class RefusesUnknownNotifications(Raw):
    def heed(self, message: Message) -> None:
        super().heed(message)
        if message["method"].endswith("/unknown") and "id" not in message:
            error = {"code": -32601, "message": "unknown method"}
            self.spawn(self.say({"jsonrpc": "2.0", "id": None, "error": error}))


says(
    "jsonrpc.response.result-xor-error",
    "SendsEveryRequest",
    answers_both=answer("roots", put("error", {"code": 1, "message": "no"})),
)
says(
    "jsonrpc.error.code-and-message",
    "SendsInvalidRequests",
    leaves_out_the_message=error(without("message")),
)
says(
    "jsonrpc.error.code-integer",
    "SendsInvalidRequests",
    also={"errors.code.method-not-found": "a text is not a code"},
    names_the_code=error(put("code", "unknown"), -32601),
)
says(
    "jsonrpc.notification.params-object",
    tells_with_a_list=on("notifications/roots/list_changed", put("params", [])),
)
says(
    "jsonrpc.notification.no-id",
    tells_with_an_id=on("notifications/roots/list_changed", put("id", "told")),
)
says(
    "jsonrpc.request.answered",
    "SendsEveryRequest",
    never_lists_its_roots=answer("roots", lambda m: None),
)


@mutant("jsonrpc.batch.removed")
class SendsBatches(Raw):
    async def tell_roots(self) -> None:
        told = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        await self.send(json.dumps([told]).encode())


@mutant("jsonrpc.batch.receive", "SendsBatches")
class IgnoresBatches(Raw):
    revision = "2025-03-26"

    def hear(self, text: Any) -> None:
        if not text.lstrip().startswith(b"["):
            super().hear(text)


@mutant("jsonrpc.encoding.utf8", over="stdio")
class WritesLatin1(Raw):
    async def tell_roots(self) -> None:
        params = {"_meta": {"note": "h\u00e4"}}
        told = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed", "params": params}
        await self.send(json.dumps(told, ensure_ascii=False).encode("latin-1"))


# -- opening


says(
    "lifecycle.initialize.protocol-version",
    opens_without_a_revision=opening(without("protocolVersion")),
)
says("lifecycle.initialize.client-info", opens_without_a_name=opening(without("clientInfo")))
says(
    "lifecycle.implementation.name-and-version",
    opens_without_a_version=opening(put("clientInfo", {"name": "raw"})),
)
says("lifecycle.version.identifier", opens_with_a_number=opening(put("protocolVersion", "2.0")))
says("lifecycle.initialized.sent", is_never_ready=on("notifications/initialized", lambda m: None))


@mutant("lifecycle.initialize.client-capabilities")
class DeclaresNothing(Raw):
    capabilities: ClassVar[Message] = {}

    def opening(self) -> Message:
        return {k: v for k, v in super().opening().items() if k != "capabilities"}

    async def tell_roots(self) -> None:
        pass


@mutant("lifecycle.initialize.client-waits", "AnswersInitializeLate", over="stdio")
class IsImpatient(Raw):
    async def open(self) -> Message | None:
        opening = self.spawn(super().open())
        await asyncio.sleep(0.05)
        hasty = self.spawn(self.ask("tools/list", {}))
        reply = await opening
        hasty.cancel()
        return dict(reply) if reply else None


@mutant("lifecycle.version.client-disconnects", "ChoosesUnknownRevision")
class AgreesToAnything(Raw):
    def takes(self, revision: Any) -> bool:
        return revision in (self.revision, "1999-12-31")


@mutant("lifecycle.version.client-prefers-latest", "ChoosesNewestRevision")
class AsksForLess(Raw):
    def takes(self, revision: Any) -> bool:
        return str(revision) in (self.revision, "2025-11-25")


@mutant("lifecycle.errors.handled", "RefusesInitialize")
class IgnoresRefusals(Raw):
    async def open(self) -> Message | None:
        await super().open()
        return {"result": {"protocolVersion": self.revision}}


faults(
    mutant("lifecycle.initialize.client-capabilities"),
    DeclaresAList=altering(
        Raw, opening=lambda self: ({**Raw.opening(self), "capabilities": []}), tell_roots=nothing
    ),
)


@mutant("roots.list-changed.capability-required")
class AnnouncesUndeclared(Raw):
    capabilities: ClassVar[Message] = {"roots": {}}


# -- questions


says(
    "ping.response.empty",
    "SendsEveryRequest",
    answers_pings_at_length=lambda m: (
        {**m, "result": {"pong": True}} if m.get("result") == {} else m
    ),
)


@mutant("ping.response.prompt", "SendsEveryRequest")
class IgnoresPings(Raw):
    def heed(self, message: Message) -> None:
        if message["method"] != "ping":
            super().heed(message)


@mutant("ping.response.prompt", "SendsMalformedMessages")
class IsSilencedByNonsense(Raw):
    is_silent = False

    def hear(self, text: Any) -> None:
        self.is_silent = self.is_silent or text == b"this is not a message"
        if not self.is_silent or b'"result"' in text:
            super().hear(text)


for id, member, change in (
    ("sampling.result.role", "model", without("role")),
    ("sampling.result.content", "model", without("content")),
    ("sampling.result.model", "model", without("model")),
    ("sampling.result.stop-reason", "model", put("stopReason", 7)),
    ("sampling.result.content-type", "model", put("content", {"type": "video", "data": ""})),
    ("roots.list.array", "roots", put("roots", {})),
    ("roots.item.uri", "roots", put("roots", [{"name": "srv"}])),
    ("roots.item.file-uri", "roots", put("roots", [{"uri": "https://a.b", "name": "a"}])),
    ("roots.item.name", "roots", put("roots", [{"uri": "file:///srv", "name": 1}])),
    ("elicitation.result.action-present", "action", without("action")),
    ("elicitation.result.action-values", "action", put("action", "yes")),
    (
        "elicitation.result.content-optional",
        "action",
        having(action="decline", content="yes"),
    ),
    ("elicitation.answers.validated", "action", put("content", {"name": 7})),
):
    answers = {f"answers_without_{id.split('.')[-1]}": answer(member, result(change))}
    says(id, "SendsEveryRequest", **answers)


@mutant("roots.list-changed.sent", "SendsEveryRequest")
class ChangesItsRootsInSilence(Raw):
    count = 0

    async def result(self, method: str, params: Message) -> Message:
        if method == "roots/list":
            self.count += 1
            return {"roots": [{"uri": f"file:///srv/{self.count}", "name": "srv"}]}
        return await super().result(method, params)

    async def tell_roots(self) -> None:
        pass


@mutant("errors.code.method-not-found", "SendsInvalidRequests")
class FailsOnTheUnknown(Raw):
    def unknown(self, question: Message) -> Message:
        return {"code": -32603, "message": "internal error"}


says(
    "errors.code.invalid-params",
    "SendsInvalidRequests",
    takes_bad_parameters_for_bad_text=error(having(code=-32700, message="parse error"), -32602),
)


class Plain(Raw):
    capabilities: ClassVar[Message] = {}

    async def tell_roots(self) -> None:
        pass


@mutant("roots.errors", "SendsInvalidRequests")
class FailsWithoutRoots(Plain):
    def unknown(self, question: Message) -> Message:
        code = -32603 if question["method"] == "roots/list" else -32601
        return {"code": code, "message": "no"}


@mutant("sampling.errors", "SendsInvalidRequests", also={
    "sampling.capability.declared": "it answers what it did not declare",
})  # fmt: skip
class SamplesUndeclared(Plain):
    async def result(self, method: str, params: Message) -> Message:
        if method == "sampling/createMessage":
            content = {"type": "text", "text": "hello"}
            end = {"model": "parrot", "stopReason": "endTurn"}
            return {"role": "assistant", "content": content, **end}
        return await super().result(method, params)


# -- cancelling


@mutant("http.cancel.explicit", "NeverAnswers")
class HangsUp(Raw):
    patience = 0.5

    async def give_up(self, id: Any) -> None:
        pass


@mutant("timeouts.cancel-by-notification", "NeverAnswers", over="stdio")
class GivesUpInSilence(HangsUp):
    pass


@mutant("cancellation.sender.ignores-late", "AnswersCancelledRequests", over="stdio")
class FallsOverLateAnswers(Raw):
    patience = 0.5

    given_up: Any = None

    async def give_up(self, id: Any) -> None:
        self.given_up = id
        await super().give_up(id)
        await asyncio.sleep(0.6)
        raise Gone

    def hear(self, text: Any) -> None:
        if self.given_up is None:
            super().hear(text)


@mutant("cancellation.races", "CancelsItsRequests")
class FallsOverCancellations(Raw):
    is_deaf = False

    def heed(self, message: Message) -> None:
        self.is_deaf = self.is_deaf or message["method"] == "notifications/cancelled"
        if not self.is_deaf:
            super().heed(message)


faults(
    mutant("cancellation.receiver.stops", "CancelsItsRequests"),
    GoesOnWithWhatWasCancelled=altering(Raw, stop=lambda self, request: None),
)


@mutant("cancellation.receiver.frees-and-silent", "CancelsItsRequests")
class AnswersCancellations(Raw):
    def stop(self, id: Any) -> None:
        super().stop(id)
        if id == "taken-back-sampling":
            error = {"code": -32800, "message": "cancelled"}
            self.spawn(self.say({"jsonrpc": "2.0", "id": id, "error": error}))


@mutant("cancellation.invalid-ignored", "CancelsUnknownRequests")
class ComplainsOfCancellations(Raw):
    def stop(self, id: Any) -> None:
        error = {"code": -32602, "message": "never asked"}
        self.spawn(self.say({"jsonrpc": "2.0", "id": "never-asked", "error": error}))


@mutant("cancellation.request-id.present", "NeverAnswers", also={
    "http.cancel.explicit": "a cancellation without an id is invalid",
})  # fmt: skip
class CancelsSomething(Raw):
    patience = 0.5

    async def give_up(self, id: Any) -> None:
        await self.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}})


faults(
    mutant("cancellation.request-id.previously-issued"),
    CancelsTheUnsent=altering(Raw, tell_roots=lambda self: self.give_up(4711)),
)


@mutant("cancellation.initialize.excluded", "AnswersInitializeLate", over="stdio")
class CancelsItsOpening(Raw):
    async def open(self) -> Message | None:
        opening = self.spawn(super().open())
        await asyncio.sleep(0.05)
        if not opening.done():
            await self.give_up(1)
        return dict(await opening)


# -- progress


says(
    "progress.token.type",
    takes_an_object_for_a_token=on("tools/call", params(put("_meta", {"progressToken": {}}))),
)


@mutant("progress.token.unique", "NeverAnswers")
class UsesATokenTwice(Raw):
    patience = 0.5

    async def list(self, method: str) -> None:
        params = {"_meta": {"progressToken": "same"}}
        await asyncio.gather(self.ask(method, params), self.ask(method, params))


@mutant("progress.value.increases", "SendsEveryRequest")
class ReportsTheSameAgain(Raw):
    async def result(self, method: str, params: Message) -> Message:
        if method == "sampling/createMessage" and "_meta" in params:
            told = {"progressToken": params["_meta"]["progressToken"], "progress": 1}
            message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}
            await self.say(message)
            await self.say(message)
        return await super().result(method, params)


@mutant("progress.rate-limited", "SendsEveryRequest", over="stdio")
class ReportsWithoutEnd(Raw):
    async def result(self, method: str, params: Message) -> Message:
        if method == "sampling/createMessage" and "_meta" in params:
            for number in range(300):
                told = {"progressToken": params["_meta"]["progressToken"], "progress": number}
                message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}
                await self.say(message)
        return await super().result(method, params)


# -- lists and the rest


@mutant("pagination.client.both-flows", "ReturnsListsInPages")
class FailsOnPages(Raw):
    def next_cursor(self, reply: Message | None) -> Any:
        if super().next_cursor(reply) is not None:
            self.exit_code = 5
        return None


@mutant("prompts.client.handles-pagination", "ReturnsPromptsInPages")
class FailsOnPagesOfPrompts(FailsOnPages):
    pass


@mutant("pagination.page-size-not-assumed", "ReturnsListsInPages")
class StopsAtShortPages(Raw):
    def next_cursor(self, reply: Message | None) -> Any:
        result = (reply or {}).get("result", {})
        entries = next((each for each in result.values() if isinstance(each, list)), [])
        return None if len(entries) < 2 else result.get("nextCursor")


@mutant("pagination.cursor.opaque", "ReturnsListsInPages")
class BuildsCursors(Raw):
    def next_cursor(self, reply: Message | None) -> Any:
        cursor = super().next_cursor(reply)
        return None if cursor is None else cursor.rstrip("=")


@mutant("pagination.no-cross-session-cursors", "ForgetsTheSessionBetweenPages")
class KeepsCursors(Raw):
    async def renew(self, data: bytes) -> None:
        await super().renew(data.replace(b'"cursor"', b'"\\u0063ursor"'))


says(
    "completion.ref.types", completes_nothing=on(COMPLETE, params(put("ref", {"type": "ref/tool"})))
)
says(
    "completion.complete.method",
    completes_without_a_value=on(COMPLETE, params(put("argument", {"name": "name"}))),
)
says("tools.call.method", calls_without_a_name=on("tools/call", put("params", {"arguments": {}})))
says("resources.read.method", reads_without_a_uri=on("resources/read", put("params", {})))
says(
    "resources.subscribe.method", subscribes_to_nothing=on("resources/subscribe", put("params", {}))
)
says("prompts.get.method", gets_nothing=on("prompts/get", put("params", {})))
says(
    "logging.set-level.method",
    sets_no_level=on("logging/setLevel", lambda message: ({**message, "params": {}})),
    sets_the_level_warn=on("logging/setLevel", put("params", {"level": "warn"})),
)
says("meta.key.name-grammar", names_metadata_badly=on("ping", put("params", {"_meta": {"-a-": 1}})))
says(
    "meta.key.label-grammar",
    labels_metadata_badly=on("ping", put("params", {"_meta": {"1a.example/key": 1}})),
)
says(
    "meta.prefix.reserved",
    takes_a_key_of_the_protocol=on("ping", put("params", {"_meta": {"mcp.dev/mine": 1}})),
)
says(
    "meta.field.more-types",
    "SendsEveryRequest",
    describes_roots_with_a_list=answer(
        "roots", result(lambda given: {"roots": [{**each, "_meta": []} for each in given["roots"]]})
    ),
)
says(
    "meta.title.display-name",
    has_a_number_for_a_title=opening(
        lambda given: {**given, "clientInfo": {**given["clientInfo"], "title": 7}}
    ),
)


# -- HTTP


faults(mutant("http.client.accept-both"), AcceptsJsonAlone=altering(Raw, accept="application/json"))


@mutant("http.get.accept-event-stream")
class ListensForAnything(Raw):
    listen_accept = "application/json"


@mutant("http.client.protocol-version-header")
class ForgetsTheRevision(Raw):
    def head(self, method: str) -> dict[str, str]:
        heads = super().head(method)
        heads.pop("MCP-Protocol-Version", None)
        return heads


@mutant("http.client.post-messages")
class PutsMessages(Raw):
    async def tell_roots(self) -> None:
        told = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        await self.request("PUT", self.head("POST"), json.dumps(told).encode())


@mutant("http.post.body-message-or-batch", also={
    "jsonrpc.message.version-2-0": "text that is not a message is not JSON-RPC either",
})  # fmt: skip
class PostsForms(Raw):
    revision = "2025-03-26"

    async def tell_roots(self) -> None:
        await self.request("POST", self.head("POST"), b"method=ping")


@mutant("session.id.client-echo")
class ForgetsItsSessionWhenListening(Raw):
    def head(self, method: str) -> dict[str, str]:
        heads = super().head(method)
        if method == "GET":
            heads.pop("Mcp-Session-Id", None)
        return heads


faults(mutant("session.end.client-delete"), LeavesItsSession=altering(Raw, finish=nothing))


@mutant("http.session.client-restarts-on-404", "ForgetsTheSession")
class GivesUpWithItsSession(Raw):
    async def renew(self, data: bytes) -> None:
        self.fail(data)


@mutant("http.client.supports-both-forms", "AnswersWithEventStreams")
class ReadsNoStreams(Raw):
    async def take(self, response: Any) -> None:
        if "event-stream" in response.headers.get("Content-Type", ""):
            raise Gone
        await super().take(response)


faults(
    mutant("http.sse.resume-header", "DropsGetStreams"),
    ListensAnew=altering(Raw, resuming=lambda self, event: ({})),
)


@mutant(
    "http.compat.sse-fallback-any-4xx",
    "SpeaksOnlySseWith405",
    "SpeaksOnlySseWith404",
    "SpeaksOnlySseWith400",
)
class FallsBackOn405Alone(Raw):
    falls_back_on: ClassVar[tuple[int, ...]] = (405,)


# -- authorization


class Authorizes(Raw):
    left_out: ClassVar[tuple[str, ...]] = ()
    left_out_later: ClassVar[tuple[str, ...]] = ()

    def wanted(self, client: str, verifier: str) -> dict[str, str]:
        found = super().wanted(client, verifier)
        return {name: each for name, each in found.items() if name not in self.left_out}

    def form(self, client: str, code: str, verifier: str) -> dict[str, str]:
        found = super().form(client, code, verifier)
        return {name: each for name, each in found.items() if name not in self.left_out_later}


@mutant("auth.pkce.implemented", "RequiresToken")
class AsksWithoutChallenge(Authorizes):
    left_out = ("code_challenge", "code_challenge_method")


@mutant("auth.resource-parameter.sent", "RequiresToken")
class AsksForAnyResource(Authorizes):
    left_out = ("resource",)


@mutant("auth.resource.both-requests", "RequiresToken")
class AsksForAnyToken(Authorizes):
    left_out_later = ("resource",)


@mutant("auth.resource.canonical", "RequiresToken")
class AsksForAFragment(Authorizes):
    def wanted(self, client: str, verifier: str) -> dict[str, str]:
        return {**super().wanted(client, verifier), "resource": f"{self.place.url}#tools"}


@mutant("auth.resource.most-specific", "RequiresToken")
class AsksForTheWholeHost(Authorizes):
    def wanted(self, client: str, verifier: str) -> dict[str, str]:
        return {**super().wanted(client, verifier), "resource": self.place.url[: -len("/mcp")]}


faults(
    mutant("auth.redirect.localhost-or-https", "RequiresToken"),
    IsRedirectedInTheOpen=altering(Authorizes, redirect=lambda self: "http://example.com/callback"),
)


@mutant("auth.redirect.registered", "RequiresToken")
class IsRedirectedElsewhere(Authorizes):
    def wanted(self, client: str, verifier: str) -> dict[str, str]:
        redirect = "https://example.com/callback"
        return {**super().wanted(client, verifier), "redirect_uri": redirect}


faults(
    mutant("auth.state.verified", "ReturnsAnotherState"),
    TakesAnyState=altering(Authorizes, is_ours=lambda self, state, ours: True),
)


@mutant("auth.challenge.client-parses", "RequiresToken")
class IgnoresTheChallenge(Authorizes):
    async def authorize(self, challenge: str) -> None:
        await super().authorize("Bearer")


@mutant("auth.prm.client-uses", "RequiresToken")
class StopsAtTheMetadata(Authorizes):
    async def discover(self, challenge: str) -> Message:
        async with self.http.get(self.metadata_of(challenge)):
            raise Gone


@mutant("auth.as-metadata.client", "RequiresToken")
class GuessesTheEndpoints(Authorizes):
    async def discover(self, challenge: str) -> Message:
        async with self.http.get(self.metadata_of(challenge)):
            origin = self.place.url[: -len("/mcp")]
        names = {"registration": "register", "authorization": "authorize", "token": "token"}
        return {f"{kind}_endpoint": f"{origin}/oauth/{name}" for kind, name in names.items()}


@mutant("auth.every-request", "RequiresToken")
class ListensWithoutToken(Authorizes):
    def head(self, method: str) -> dict[str, str]:
        heads = super().head(method)
        if method == "GET":
            heads.pop("Authorization", None)
        return heads


@mutant("auth.token.bearer-header", "RequiresToken")
class PresentsItsTokenOddly(Authorizes):
    def head(self, method: str) -> dict[str, str]:
        heads = super().head(method)
        if method == "GET" and "Authorization" in heads:
            heads["Authorization"] = f"Token {self.token}"
        return heads


@mutant("auth.token.not-in-query", "RequiresToken")
class ShowsItsToken(Authorizes):
    def url_of(self, method: str) -> str:
        shown = f"?access_token={self.token}" if self.token and method == "GET" else ""
        return f"{self.place.url}{shown}"


@mutant("auth.tokens.only-own-issuer", "RequiresToken")
class MixesTokens(Authorizes):
    def head(self, method: str) -> dict[str, str]:
        heads = super().head(method)
        if method == "GET" and "Authorization" in heads:
            heads["Authorization"] = "Bearer of-another-issuer"
        return heads


class Older(Authorizes):
    revision = "2025-03-26"


@mutant("auth.discovery.protocol-version-header", "IssuesItsOwnTokens")
class DiscoversWithoutARevision(Older):
    async def discover(self, challenge: str) -> Message:
        origin = self.place.url[: -len("/mcp")]
        path = "/.well-known/oauth-authorization-server"
        async with self.http.get(f"{origin}{path}") as response:
            return dict(await response.json())


@mutant("auth.discovery.base-url", "IssuesItsOwnTokens")
class DiscoversUnderThePath(Older):
    async def discover(self, challenge: str) -> Message:
        origin = self.place.url[: -len("/mcp")]
        heads = {"MCP-Protocol-Version": self.revision}
        path = "/.well-known/oauth-authorization-server/mcp"
        async with self.http.get(f"{origin}{path}", headers=heads):
            raise Gone


@mutant("auth.fallback.default-paths", "RequiresTokenWithoutMetadata")
class GuessesOtherPaths(Older):
    def defaults(self) -> dict[str, str]:
        names = {"registration": "register", "authorization": "authorize", "token": "token"}
        return {kind: f"/oauth2/{name}" for kind, name in names.items()}


# -- stdio


@mutant("stdio.framing.newline-delimited", over="stdio")
class GluesMessages(Raw):
    async def tell_roots(self) -> None:
        told = b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}'
        await self.send(told + told)


@mutant("stdio.framing.no-embedded-newline", over="stdio")
class BreaksLines(Raw):
    async def tell_roots(self) -> None:
        told = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        await self.send(json.dumps(told, indent=1).encode())


faults(
    mutant("stdio.client.stdin-only-messages", over="stdio"),
    WritesHeads=altering(Raw, tell_roots=lambda self: self.send(b"Content-Length: 12\r\n")),
)


@mutant("lifecycle.shutdown.stdio-close-stdin", over="stdio")
class KillsFirst(Raw):
    async def leave(self) -> None:
        self.control.write(b"signal 15\n")
        await super().leave()


@mutant("stdio.shutdown.escalates", "IgnoresShutdown", over="stdio")
class NeverInsists(Raw):
    async def leave(self) -> None:
        self.control.write(b"input ended\n")
        self.writer.write_eof()
        self.lingering = asyncio.get_running_loop().create_task(self.linger())

    async def linger(self) -> None:
        await self.relay_commands.read()
        self.reading.cancel()
        self.writer.close()
        self.control.close()


# -- more messages


says(
    "jsonrpc.notification.method-string",
    tells_with_a_number=on("notifications/roots/list_changed", put("method", 7)),
)
says(
    "lifecycle.initialize.method-name",
    over="stdio",
    opens_by_another_name=on("initialize", put("method", "init")),
)
says(
    "lifecycle.initialized.method-name",
    also={"lifecycle.initialized.sent": "what has another name was not sent"},
    is_ready_by_another_name=on("notifications/initialized", put("method", "initialized")),
)


@mutant("lifecycle.initialize.first", over="stdio")
class ListsFirst(Raw):
    async def open(self) -> Message | None:
        await self.ask("tools/list", {})
        return await super().open()


@mutant("lifecycle.initialize.not-in-batch", over="stdio")
class OpensInABatch(Raw):
    revision = "2025-03-26"

    def changed(self, message: Message) -> Any:
        return [message] if message.get("method") == "initialize" else message

    async def say(self, message: Any) -> None:
        await self.send(json.dumps(self.changed(message)).encode())


faults(
    mutant("lifecycle.shutdown.no-message"),
    SaysGoodbye=altering(Raw, tell_roots=lambda self: self.ask("shutdown")),
)


@mutant("roots.capability.declared", "SendsInvalidRequests", also={
    "roots.errors": "it answers what it did not declare",
})  # fmt: skip
class HasUndeclaredRoots(Plain):
    async def result(self, method: str, params: Message) -> Message:
        if method == "roots/list":
            return {"roots": []}
        return await super().result(method, params)


@mutant("elicitation.capability.declared", "SendsInvalidRequests")
class ElicitsUndeclared(Plain):
    async def result(self, method: str, params: Message) -> Message:
        if method == "elicitation/create":
            return {"action": "decline"}
        return await super().result(method, params)


faults(
    mutant("roots.capability.list-changed"),
    DeclaresOddly=altering(Raw, capabilities={"roots": {"listChanged": "yes"}}, tell_roots=nothing),
)
says(
    "cancellation.reason.optional",
    "NeverAnswers",
    gives_a_number_for_a_reason=on("notifications/cancelled", params(put("reason", 7))),
)


def reporting(id: str, *reports: Message, method: str = "notifications/progress") -> None:
    """Register a client that reports progress wrongly while it samples."""

    class Reports(Raw):
        async def result(self, called: str, params: Message) -> Message:
            if called == "sampling/createMessage" and "_meta" in params:
                for each in reports:
                    said = {"jsonrpc": "2.0", "method": method, "params": each}
                    await self.say(said)
            return await super().result(called, params)

    mutant(id, "SendsEveryRequest")(named(f"Reports{len(MUTANTS)}", Reports))


reporting("progress.notification.progress", {"progressToken": "sampling"})
reporting("progress.notification.token", {"progress": 1})
reporting("progress.notification.active-only", {"progressToken": "another", "progress": 1})
reporting(
    "progress.notification.total", {"progressToken": "sampling", "progress": 1, "total": "two"}
)
reporting(
    "progress.notification.message", {"progressToken": "sampling", "progress": 1, "message": 2}
)


@mutant("progress.notification.active-only", "SendsEveryRequest")
class ReportsTooLate(Raw):
    async def answer(self, question: Message) -> None:
        await super().answer(question)
        if question["method"] == "sampling/createMessage":
            told = {"progressToken": "sampling", "progress": 1}
            said = {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}
            await self.say(said)


says(
    "completion.request.context",
    completes_with_an_odd_context=on(COMPLETE, params(put("context", {"arguments": 7}))),
)
says("meta.field.reserved", sends_metadata_as_text=on("ping", put("params", {"_meta": "x"})))
says(
    "meta.key.two-segments",
    sends_metadata_without_a_name=on("ping", put("params", {"_meta": {"a/b/c": 1}})),
)
says(
    "practice.list.empty-params",
    also={"jsonrpc.request.params-object": "parameters are objects"},
    lists_with_a_list=on("prompts/list", put("params", [])),
)
faults(
    mutant("lifecycle.capabilities.respected", "DeclaresNoCapabilities"),
    UsesWhatIsNotOffered=altering(Raw, offers=lambda self, capability: True),
)


@mutant("pagination.end.no-next-cursor", "ReturnsListsInPages", also={
    "pagination.cursor.opaque": "there is no cursor to go on with",
})  # fmt: skip
class GoesOnAfterTheEnd(Raw):
    async def list(self, method: str) -> None:
        await super().list(method)
        await self.ask(method, {"cursor": "more"})


# -- HTTP with SSE


class RawSse(Raw):
    """A client of the older form."""

    revision = "2024-11-05"

    async def open(self) -> Message | None:
        self.named: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.spawn(self.listen())
        self.endpoint = await asyncio.wait_for(self.named, 5)
        return await super().open()

    async def begin(self, opening: Message) -> None:
        await self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def listen(self) -> None:
        decoder = Decoder()
        async with self.http.get(self.place.url, headers={"Accept": self.listen_accept}) as got:
            async for chunk in got.content.iter_any():
                for event in decoder.feed(chunk):
                    if event.name == "endpoint":
                        self.named.set_result(event.data.decode())
                    else:
                        self.hear(event.data)

    async def post(self, data: bytes) -> None:
        async with self.http.post(f"{self.place.url[: -len('/sse')]}{self.endpoint}", data=data):
            pass


@mutant("sse.client.posts-to-endpoint", over="sse")
class PostsElsewhere(RawSse):
    async def tell_roots(self) -> None:
        told = b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}'
        url = f"{self.place.url[: -len('/sse')]}/elsewhere"
        async with self.http.post(url, data=told):
            pass


UNBREAKABLE: dict[str, str] = {
    "auth.challenge.client-reacts": "a client that does not react does not authorize at all",
    "auth.dcr.implementations": "registering in another way is a choice",
    "auth.fallback.authorize-path": "auth.fallback.default-paths says the same",
    "auth.fallback.register-path": "auth.fallback.default-paths says the same",
    "auth.fallback.token-path": "auth.fallback.default-paths says the same",
    "auth.http.oauth-flow": "each step of the flow is a requirement of its own",
    "auth.oauth21.implementations": "each step of the flow is a requirement of its own",
    "auth.resource-indicators.client": "auth.resource-parameter.sent says the same",
    "cancellation.receiver.may-ignore": "a permission",
    "completion.client.care": "nothing shows it but a client that goes on",
    "errors.code.internal-error": "what made a client fail is not seen",
    "errors.code.invalid-request": "a client cannot be asked by anything but a request",
    "errors.code.parse-error": "a client cannot be asked by anything but a request",
    "errors.invalid-params.data-details": "a permission",
    "http.get.client-may-listen": "a permission",
    "http.streams.multiple": "a permission",
    "jsonrpc.batch.send-optional": "a permission",
    "jsonrpc.response.client-sends": "no answer is jsonrpc.request.answered",
    "lifecycle.capabilities.declared": "lifecycle.initialize.client-capabilities says the same",
    "lifecycle.capabilities.only-declared": "lifecycle.capabilities.respected says the same",
    "lifecycle.shutdown.http-close": "connections end with the process",
    "lifecycle.version.client-sends-supported": "lifecycle.version.identifier says the same",
    "pagination.cursor.continues": "what is asked for in no other way is not seen",
    "ping.periodic": "how often is a choice",
    "ping.request.either-party": "a permission",
    "ping.timeout-is-failure": "what a client makes of it is seen only where it leaves",
    "ping.timeout.may-terminate": "a permission",
    "progress.notification.method-name": "a notification with another name is not progress",
    "progress.stops-after-completion": "progress.notification.active-only says the same",
    "progress.token.in-meta": "a token elsewhere is not a progress token",
    "prompts.list.method": "a request with another name is not a list request",
    "resources.list.method": "a request with another name is not a list request",
    "resources.templates.method": "a request with another name is not a list request",
    "tools.list.method": "a request with another name is not a list request",
    "session.id.header-name": "session.id.client-echo says the same",
    "stdio.client.launches-server": "a client that does not launch it does not reach it",
    "timeouts.established": "a long time cannot be distinguished from never",
    "timeouts.maximum-despite-progress": "a long time cannot be distinguished from never",
    "tools.structured-content.client-validates": "seen only where a client fails by it",
}
"""What no client can be seen to break, and why."""
