"""Clients with a handshake that have one fault each in what they do: further ways."""

import asyncio
import json
from typing import Any, ClassVar

from check.client.mutants import RawSse
from check.client.mutants_more import CANCELLED, INVALID, ROOTS
from check.client.mutants_newer import says as says_newer
from check.client.raw import Gone, Message, Raw
from check.client.raw_newer import RawNewer
from check.client.registering import mutant
from check.faults import altering, faults, nothing

TOLD = json.dumps({"jsonrpc": "2.0", "method": ROOTS}).encode()

# -- cancelling

SILENT = "NeverAnswers"


class _Impatient(Raw):
    patience = 0.5


@mutant("cancellation.initialize.excluded", "AnswersInitializeLate", over="stdio")
class CancelsItsOpeningAndLeaves(Raw):
    async def open(self) -> Message | None:
        opening = self.spawn(super().open())
        await asyncio.sleep(0.05)
        if not opening.done():
            await self.give_up(1)
            raise Gone
        return dict(await opening)


@mutant("cancellation.initialize.excluded", "NeverAnswersInitialize", over="stdio")
class GivesUpItsOpening(Raw):
    async def open(self) -> Message | None:
        opening = self.spawn(super().open())
        done, _ = await asyncio.wait({opening}, timeout=3)
        if not done:
            await self.give_up(1)
            raise Gone
        return dict(await opening)


@mutant("cancellation.initialize.excluded", "AnswersInitializeLate", over="stdio")
class CancelsItsOpeningByText(Raw):
    """Opens under an id that is text, and cancels that."""

    revision = "2025-11-25"

    async def open(self) -> Message | None:
        message = {"jsonrpc": "2.0", "id": "open", "method": "initialize"}
        opening = self.spawn(self.asked_with({**message, "params": self.opening()}))
        await asyncio.sleep(0.02)
        if not opening.done():
            await self.give_up("open")
        return dict(await opening)


@mutant("cancellation.invalid-ignored", "CancelsUnknownRequests")
class ComplainsUnderNull(Raw):
    def stop(self, id: Any) -> None:
        error = {"code": -32600, "message": "invalid"}
        self.spawn(self.say({"jsonrpc": "2.0", "id": None, "error": error}))


@mutant("cancellation.races", "CancelsItsRequests", over="stdio")
class FallsOverTheThirdCancellation(Raw):
    count = 0

    def heed(self, message: Message) -> None:
        self.count += message["method"] == CANCELLED
        if self.count < 3:
            super().heed(message)


class _Takes(Raw):
    """Says something when a sampling request is taken back."""

    def stop(self, id: Any) -> None:
        super().stop(id)
        if id == "taken-back-sampling":
            self.spawn(self.reply(id))

    async def reply(self, id: Any) -> None:
        raise NotImplementedError


@mutant("cancellation.receiver.frees-and-silent", "CancelsItsRequests", over="stdio")
class FailsWhenCancelled(_Takes):
    async def reply(self, id: Any) -> None:
        error = {"code": -32603, "message": "CancelledError"}
        await self.say({"jsonrpc": "2.0", "id": id, "error": error})


@mutant("cancellation.receiver.frees-and-silent", "CancelsItsRequests")
class AnswersCancellationsLater(_Takes):
    async def reply(self, id: Any) -> None:
        await asyncio.sleep(0.1)
        await self.say({"jsonrpc": "2.0", "id": id, "error": {"code": 0, "message": "aborted"}})


@mutant("cancellation.receiver.stops", "CancelsItsRequests")
class AnswersHalf(_Takes):
    async def reply(self, id: Any) -> None:
        content = {"type": "text", "text": "hel"}
        half = {"role": "assistant", "content": content, "model": "parrot", "stopReason": "stopped"}
        await self.say({"jsonrpc": "2.0", "id": id, "result": half})


NO_ID = {"http.cancel.explicit": "a cancellation without an id is invalid"}
for name, given in (
    ("CancelsNull", {"requestId": None}),
    ("CancelsUnderAnotherName", {"id": 2, "reason": "late"}),
):
    told = {"jsonrpc": "2.0", "method": CANCELLED, "params": given}

    async def give_up(self: Any, id: Any, told: Message = told) -> None:
        await self.say(told)

    mutant("cancellation.request-id.present", SILENT, also=NO_ID)(
        type(name, (_Impatient,), {"give_up": give_up})
    )


@mutant("cancellation.request-id.previously-issued", SILENT, over="stdio", also={
    "timeouts.cancel-by-notification": "it cancels another request than the one it gives up",
})  # fmt: skip
class WritesIdsAsText(_Impatient):
    async def give_up(self, id: Any) -> None:
        await super().give_up(str(id))


@mutant("http.cancel.explicit", SILENT, also={
    "cancellation.notification.either-party": "both parties cancel by one method",
})  # fmt: skip
class CancelsByAnotherNameOverHttp(_Impatient):
    async def give_up(self, id: Any) -> None:
        told = {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": id}}
        await self.say(told)


for name, method in (
    ("CancelsInTheImperative", "notifications/cancel"),
    ("CancelsInAmericanEnglish", "notifications/canceled"),
):

    async def abandon(self: Any, id: Any, method: str = method) -> None:
        await self.say({"jsonrpc": "2.0", "method": method, "params": {"requestId": id}})

    mutant("cancellation.notification.either-party", SILENT, over="stdio", also={
        "timeouts.cancel-by-notification": "it cancels by another notification",
    })(type(name, (_Impatient,), {"give_up": abandon}))  # fmt: skip


class _FallsOver(Raw):
    """Falls over an answer that comes after it gave up."""

    patience = 0.5
    given_up: Any = None

    async def give_up(self, id: Any) -> None:
        self.given_up = id
        await super().give_up(id)
        await asyncio.sleep(0.6)

    def hear(self, text: Any) -> None:
        if json.loads(text).get("id") == self.given_up and self.given_up is not None:
            self.fall()
        else:
            super().hear(text)

    def fall(self) -> None:
        raise NotImplementedError


@mutant("cancellation.sender.ignores-late", "AnswersCancelledRequests", over="stdio")
class StopsReadingAtLateAnswers(_FallsOver):
    def fall(self) -> None:
        raise ValueError("no one waits for this")


@mutant("cancellation.sender.ignores-late", "AnswersCancelledRequests", over="stdio")
class AnswersNothingAfterLateAnswers(_FallsOver):
    revision = "2025-03-26"
    is_deaf = False

    def fall(self) -> None:
        self.is_deaf = True

    def heed(self, message: Message) -> None:
        if not self.is_deaf:
            super().heed(message)


# -- lists

PAGES = "ReturnsListsInPages"


class PagesLeft(Raw):
    """Fails on a page without entries."""

    def next_cursor(self, reply: Message | None) -> Any:
        result = (reply or {}).get("result", {})
        if any(each == [] for each in result.values()):
            self.exit_code = 5
        return super().next_cursor(reply)


faults(mutant("pagination.client.both-flows", PAGES), FailsOnEmptyPages=altering(PagesLeft))


@mutant("prompts.client.handles-pagination", "ReturnsPromptsInPages")
class FailsOnEmptyPagesOfPrompts(PagesLeft):
    pass


@mutant("prompts.client.handles-pagination", "ReturnsPromptsInPages", over="stdio")
class StopsAtPagesOfPrompts(Raw):
    def next_cursor(self, reply: Message | None) -> Any:
        if super().next_cursor(reply) is not None:
            raise Gone
        return None


@mutant("pagination.end.no-next-cursor", PAGES)
class AsksForTheLastPageAgain(Raw):
    async def list(self, method: str) -> None:
        cursor, reply = None, await self.ask(method, {})
        while (following := self.next_cursor(reply)) is not None:
            cursor = following
            reply = await self.ask(method, {"cursor": cursor})
        if cursor is not None:
            await self.ask(method, {"cursor": cursor})


@mutant("pagination.end.no-next-cursor", PAGES, over="stdio", also={
    "pagination.cursor.opaque": "there is no cursor to go on with",
})  # fmt: skip
class GoesOnWithAnEmptyCursor(Raw):
    async def list(self, method: str) -> None:
        await super().list(method)
        await self.ask(method, {"cursor": ""})


@mutant("pagination.no-cross-session-cursors", "ForgetsTheSessionBetweenPages")
class ReturnsToItsCursor(Raw):
    """Lists anew in the new session, and then goes on where it was."""

    async def renew(self, data: bytes) -> None:
        await super().renew(data)
        if b'"cursor"' in data:
            old = json.loads(data)
            await self.ask(old["method"], {})
            await self.ask(old["method"], old["params"])


@mutant("pagination.no-cross-session-cursors", "ForgetsTheSessionBetweenPages")
class TriesItsCursorOnce(Raw):
    revision = "2025-11-25"

    async def renew(self, data: bytes) -> None:
        await super().renew(data)
        old = json.loads(data)
        if "cursor" in old.get("params", {}):
            await self.ask(old["method"], old["params"])


# -- HTTP


@mutant("http.client.post-messages")
class GetsWithAMessage(Raw):
    async def tell_roots(self) -> None:
        (await self.request("GET", self.head("GET"), TOLD)).close()


@mutant("http.client.supports-both-forms", "AnswersWithEventStreams")
class ReadsStreamsAlone(Raw):
    async def take(self, response: Any) -> None:
        if "event-stream" not in response.headers.get("Content-Type", ""):
            raise Gone
        await super().take(response)


@mutant("http.client.supports-both-forms", "AnswersWithEventStreams")
class ReadsStreamsAsJson(Raw):
    async def take(self, response: Any) -> None:
        text = await response.read()
        try:
            json.loads(text)
        except ValueError:
            raise Gone from None
        self.hear(text)


SSE = ("SpeaksOnlySseWith405", "SpeaksOnlySseWith404", "SpeaksOnlySseWith400")
for statuses in ((404, 405), (400,)):
    word = "And".join(map(str, statuses))
    mutant("http.compat.sse-fallback-any-4xx", *SSE)(
        type(f"FallsBackOn{word}Alone", (Raw,), {"falls_back_on": statuses})
    )


@mutant("http.compat.sse-fallback-statuses", *SSE)
class FallsBackOn400(RawNewer):
    falls_back_on: ClassVar[tuple[int, ...]] = (400,)


class _Posts(Raw):
    """Posts a body that is not a message."""

    revision = "2025-03-26"
    body = b""

    async def tell_roots(self) -> None:
        (await self.request("POST", self.head("POST"), self.body)).close()


UNREADABLE = {"jsonrpc.message.version-2-0": "what is not a message is not JSON-RPC either"}
faults(
    mutant("http.post.body-message-or-batch", also=UNREADABLE),
    PostsLines=altering(_Posts, body=TOLD + b"\n" + TOLD),
    PostsText=altering(_Posts, body=json.dumps(TOLD.decode()).encode()),
)


@mutant("http.session.client-restarts-on-404", "ForgetsTheSession", also={
    "session.id.client-echo": "it names no session at all",
})  # fmt: skip
class GoesOnWithoutASession(Raw):
    async def renew(self, data: bytes) -> None:
        self.session = None
        await self.post(data)


@mutant("http.sse.client-honours-retry", "DropsStreams")
class WaitsAsLongAsItLikes(RawNewer):
    async def follow(self, response: Any) -> Any:
        last = await super().follow(response)
        return last and (last[0], 0.1)


LOST = {"http.sse.client-polls-after-close": "it does not come back to the stream"}


@mutant("http.sse.resume-by-get-any-origin", "DropsStreams", also=LOST)
class SendsItsRequestAgain(RawNewer):
    """Sends a request again whose stream broke, in place of a GET."""

    async def take(self, response: Any) -> None:
        if "event-stream" not in response.headers.get("Content-Type", ""):
            await super().take(response)
        elif await self.follow(response) is not None:
            for future in [*self.waiting.values()]:
                future.set_result({"error": {"code": 0, "message": "lost"}})
            await self.ask("ping")


faults(
    mutant("http.sse.resume-by-get-any-origin", "DropsStreams", also=LOST),
    ComesBackWithoutTheEvent=altering(RawNewer, resuming=lambda self, event: ({})),
)


@mutant("http.sse.resume-header", "DropsGetStreams")
class NamesTheEventInAHeaderOfItsOwn(Raw):
    def resuming(self, event: str) -> dict[str, str]:
        return {"X-Last-Event-ID": event}


@mutant("http.sse.resume-header", "DropsGetStreams")
class NamesTheEventInTheAddress(Raw):
    revision = "2025-11-25"
    event = ""

    def resuming(self, event: str) -> dict[str, str]:
        self.event = event
        return {}

    def url_of(self, method: str) -> str:
        asked = f"?last-event-id={self.event}" if method == "GET" and self.event else ""
        return f"{super().url_of(method)}{asked}"


@mutant("session.end.client-delete", also={
    "session.id.client-echo": "the DELETE does not name the session",
})  # fmt: skip
class DeletesWithoutItsSession(Raw):
    async def finish(self) -> None:
        self.session = None
        (await self.request("DELETE", self.head("DELETE"), None)).close()


@mutant("lifecycle.initialize.first")
class PostsAListFirst(Raw):
    async def open(self) -> Message | None:
        await self.ask("tools/list", {})
        return await super().open()


@mutant("sse.client.posts-to-endpoint", over="sse")
class PutsToTheEndpoint(RawSse):
    async def tell_roots(self) -> None:
        url = f"{self.place.url[: -len('/sse')]}{self.endpoint}"
        async with self.http.put(url, data=TOLD):
            pass


# -- stdio


@mutant("stdio.framing.no-embedded-newline", over="stdio")
class BreaksLinesAsWindowsDoes(Raw):
    async def tell_roots(self) -> None:
        await self.send(b'{"jsonrpc":"2.0",\r\n"method":"notifications/roots/list_changed"\r\n}\r')


class _Signals(Raw):
    sent = b""

    async def leave(self) -> None:
        self.control.write(self.sent)
        await super().leave()


faults(
    mutant("lifecycle.shutdown.stdio-close-stdin", over="stdio"),
    KillsOutright=altering(_Signals, sent=b"signal 9\n"),
    InterruptsFirst=altering(_Signals, revision="2025-11-25", sent=b"signal 2\n"),
)


class _Ends(Raw):
    """Ends a server that does not end by itself, in its own way."""

    signals = b""

    async def leave(self) -> None:
        self.control.write(b"input ended\n")
        self.writer.write_eof()
        await asyncio.wait({self.reading}, timeout=0.1)
        self.control.write(self.signals)
        self.lingering = asyncio.get_running_loop().create_task(self.linger())

    async def linger(self) -> None:
        await self.relay_commands.read()
        self.reading.cancel()
        self.writer.close()
        self.control.close()


faults(
    mutant("stdio.shutdown.escalates", "IgnoresShutdown", over="stdio"),
    TerminatesInVain=altering(_Ends, signals=b"signal 15\n"),
    HangsUpInVain=altering(_Ends, revision="2025-11-25", signals=b"signal 1\n"),
)


class _ReadsStderr(RawNewer):
    async def finish(self) -> None:
        # In place of its stderr: what the relay has to write there.
        try:
            told = await asyncio.wait_for(self.relay_commands.readline(), 0.3)
        except TimeoutError:
            return
        if told.startswith(b"stderr"):
            await self.object()

    async def object(self) -> None:
        raise NotImplementedError


@mutant("stdio.stderr-not-an-error-signal", "WritesToStderr", over="stdio")
class CountsErrorsOnStderr(_ReadsStderr):
    async def object(self) -> None:
        self.exit_code = 1


@mutant("stdio.stderr-not-an-error-signal", "WritesToStderr", over="stdio")
class StopsInTheMiddleForStderr(_ReadsStderr):
    async def work(self) -> None:
        await self.finish()
        await super().work()

    async def object(self) -> None:
        raise Gone


# -- forms, pages and models of 2025-11-25

MODES, UNDECLARED = "AsksInNewerModes", "AsksInUndeclaredModes"


@mutant("elicitation.complete.unknown-ignored", MODES, over="stdio")
class FallsOverTheUnknownCompletion(RawNewer):
    is_deaf = False

    def heed(self, message: Message) -> None:
        self.is_deaf = self.is_deaf or (
            message.get("params", {}).get("elicitationId") == "never-asked"
        )
        if not self.is_deaf:
            super().heed(message)


faults(
    mutant("sampling.tools.capability", UNDECLARED),
    DeclaresContextAlone=altering(
        RawNewer,
        capabilities={"sampling": {"context": {}}, "elicitation": {"form": {}}},
        tell_roots=nothing,
        check_tools=lambda self, params: None,
    ),
)


says_newer(
    "jsonrpc.error.code-and-message",
    INVALID,
    has_null_for_a_message=lambda m: (
        {**m, "error": {**m["error"], "message": None}} if "error" in m else m
    ),
)
