"""Clients of 2026-07-28 and of both eras with one fault each on the wire: further ways."""

import asyncio
import json
from typing import Any, ClassVar

from check.client.mutants_conduct import ALL, BROKEN, ODD_CODES, SILENT, STILL
from check.client.mutants_stateless import CHANGES, WANTS, heads, only, says
from check.client.raw import Gone, Message
from check.client.raw_stateless import P, RawDual, RawStateless
from check.client.registering import mutant, on, params, put
from check.faults import altering, faults

# -- cancelling

NOTHING = {"timeouts.cancel-on-expiry": "it cancels nothing", **STILL}


class _Impatient(RawStateless):
    patience = 0.5


says(
    "cancellation.request-id-required",
    SILENT,
    over="stdio",
    also=NOTHING,
    base=_Impatient,
    cancels_null=on("notifications/cancelled", params(put("requestId", None))),
    cancels_a_list=on("notifications/cancelled", params(put("requestId", [1]))),
)


@mutant("cancellation.names-own-pending", "TellsListeners", over="stdio")
class StopsToListenToWhatHasEnded(RawStateless):
    async def finish(self) -> None:
        await asyncio.sleep(7)
        for id in self.ended:
            await self.give_up(id)

    def __init__(self, place: Any) -> None:
        super().__init__(place)
        self.ended: list[Any] = []

    def hear(self, text: Any) -> None:
        message = json.loads(text)
        if "result" in message and message.get("id") in self.subscriptions:
            self.ended.append(message["id"])
        super().hear(text)


# -- headers

heads(
    "http.headers.mcp-name.encoded-when-unsafe",
    WANTS,
    writes_names_in_base64_without_markers=lambda h, _: {
        k: v.removeprefix("=?base64?").removesuffix("?=") if k == "Mcp-Name" else v
        for k, v in h.items()
    },
    writes_names_in_utf8=lambda h, _: {
        k: "gr\u00fc\u00dfen" if k == "Mcp-Name" and v.startswith("=?") else v for k, v in h.items()
    },
)


def city(value: str) -> Any:
    return only("tools/call", lambda h: {
        k: value if k == "Mcp-Param-City" else v for k, v in h.items()})  # fmt: skip


heads(
    "http.param-headers.exact-path",
    WANTS,
    repeats_the_whole_object=city('{"city": "Oslo"}'),
    repeats_its_path=city("place.city"),
)
heads(
    "http.param-headers.value.string-forms",
    WANTS,
    quotes_texts=only("tools/call", lambda h: {
        k: f'"{v}"' if k == "Mcp-Param-Text" and v == "eu-1" else v for k, v in h.items()}),
    writes_true_as_one=only("tools/call", lambda h: {
        k: "1" if k == "Mcp-Param-Loud" else v for k, v in h.items()}),
)  # fmt: skip
heads(
    "http.param-headers.value.sentinel-escaped",
    WANTS,
    strips_what_looks_encoded=only("tools/call", lambda h: {
        k: "eA==" if k == "Mcp-Param-Text" and len(v) > 25 else v for k, v in h.items()}),
)  # fmt: skip


@mutant("http.param-headers.mismatch-client-relists", CHANGES, also={
    "http.param-headers.client-support": "the header is missing",
})  # fmt: skip
class RepeatsWithoutTheHeader(RawStateless):
    """Lists the tools again, and repeats its call as it was."""

    async def call(self, params: Message) -> Any:
        reply = await self.ask("tools/call", params)
        if reply is not None and reply.get("error", {}).get("code") == -32020:
            await self.list("tools/list")
            reply = await self.ask("tools/call", params)
        return reply


# -- streams


class _Comments(RawStateless):
    """Does something of its own with a comment in a stream."""

    def seen(self, chunk: bytes) -> bytes:
        lines = [self.line(each) for each in chunk.split(b"\n")]
        return b"\n".join(lines)

    def line(self, line: bytes) -> bytes:
        return line


@mutant("http.sse.comments-ignored", BROKEN)
class TakesCommentsForData(_Comments):
    def line(self, line: bytes) -> bytes:
        return b"data" + line if line.startswith(b":") else line

    def hear(self, text: Any) -> None:
        try:
            json.loads(text)
        except ValueError:
            self.exit_code = 5
        super().hear(text)

    async def exchange(self, method: str, params: Message) -> Any:
        found = await super().exchange(method, params)
        if self.exit_code:
            raise Gone
        return found


@mutant("http.sse.comments-ignored", BROKEN)
class TakesCommentsForTheEnd(_Comments):
    """Reads no further than to a comment."""

    def seen(self, chunk: bytes) -> bytes:
        self.has_ended = self.has_ended or chunk.startswith(b":")
        return b"" if self.has_ended else chunk

    has_ended = False

    async def opened(self) -> bool:
        found = await super().opened()
        if self.has_ended:
            raise Gone
        return found


# -- listening


@mutant("stdio.listen.correlate-by-id", "TellsListeners", over="stdio")
class HearsWhatIsNotANumber(RawStateless):
    def is_mine(self, params: Message) -> bool:
        given = params.get("_meta", {}).get(f"{P}subscriptionId")
        return super().is_mine(params) or isinstance(given, str)


class _Acknowledged(RawStateless):
    """Does not go on where not all was acknowledged."""

    is_refused = False

    async def subscribe(self) -> None:
        await super().subscribe()
        await asyncio.sleep(0.05)
        if self.is_refused:
            raise Gone

    def heed(self, message: Message) -> None:
        super().heed(message)
        if message["method"].endswith("acknowledged"):
            self.is_refused = self.objects(message["params"]["notifications"])

    def objects(self, part: Message) -> bool:
        raise NotImplementedError


@mutant("subscriptions.client-checks-ack", "TellsListeners")
class CountsWhatIsAcknowledged(_Acknowledged):
    def objects(self, part: Message) -> bool:
        return len(part) < len(self.filter)


@mutant("subscriptions.client-checks-ack", "TellsListeners", over="stdio")
class ReadsEveryPartOfTheAcknowledgement(_Acknowledged):
    def objects(self, part: Message) -> bool:
        return "resourcesListChanged" not in part


class _Resumes(RawStateless):
    """Wants to go on with the stream that broke."""

    count = 0

    async def subscribe(self) -> None:
        self.count += 1
        if self.count > 1:
            await self.resume()
        await super().subscribe()

    async def resume(self) -> None:
        raise NotImplementedError


@mutant("subscriptions.no-state-across-reconnect", "TellsListeners")
class ResumesByGet(_Resumes):
    async def resume(self) -> None:
        told = {"Accept": "text/event-stream", "Last-Event-ID": "1"}
        (await self.request("GET", told, None)).close()


@mutant("subscriptions.no-state-across-reconnect", "TellsListeners")
class ListensFromAnEvent(_Resumes):
    async def resume(self) -> None:
        pass

    def heads_of(self, message: Any) -> dict[str, str]:
        found = super().heads_of(message)
        is_again = message.get("method") == "subscriptions/listen" and self.count > 1
        return {**found, "Last-Event-ID": "1"} if is_again else found


# -- processes


class _ListensToLess(RawStateless):
    """Listens again after a crash, to less than before."""

    less: ClassVar[Message] = {}

    async def recover(self) -> None:
        self.filter = self.less  # type: ignore[misc]
        await super().recover()


faults(
    mutant("stdio.crash.relisten", "Crashes", over="stdio"),
    ListensToNothingAgain=altering(_ListensToLess),
    ListensToToolsAgain=altering(_ListensToLess, less={"toolsListChanged": True}),
)


class _Starts(RawStateless):
    """Starts its server again before some of its requests."""

    every = 1
    turn = 0

    async def exchange(self, method: str, params: Message) -> Any:
        self.turn += 1
        if self.turn > 1 and self.turn % self.every == 0:
            await self.leave()
            self.is_leaving = False
            await self.launch()
        return await super().exchange(method, params)

    async def subscribe(self) -> None:
        pass


@mutant("stateless.client.process-not-conversation", over="stdio")
class StartsAServerForTwoRequests(_Starts):
    every = 2


@mutant("stateless.client.process-not-conversation", over="stdio")
class StartsAndAsksWhoIsThere(_Starts):
    """Asks each new server what it is."""

    every = 2

    async def exchange(self, method: str, params: Message) -> Any:
        if method != "server/discover" and self.turn % 2:
            await super().exchange("server/discover", {})
        return await super().exchange(method, params)


# -- eras


@mutant("versioning.modern-client.stdio-discover-first", over="stdio")
class ReadsFirst(RawStateless):
    async def opened(self) -> bool:
        await self.ask("resources/read", {"uri": "play://note"})
        return await super().opened()


class _Refused(RawStateless):
    """Goes on in some way after its revision was refused."""

    async def opened(self) -> bool:
        if await super().opened():
            return True
        await self.go_on()
        return False

    async def go_on(self) -> None:
        raise NotImplementedError


@mutant("versioning.unsupported.client-retries", "SpeaksOnlyAnUnknownRevision")
class ProbesWithoutEnd(_Refused):
    async def go_on(self) -> None:
        for _ in range(9):
            await self.exchange("server/discover", {})


@mutant("versioning.unsupported.client-retries", "SpeaksOnlyAnUnknownRevision", over="stdio")
class TriesEveryListAllTheSame(_Refused):
    async def go_on(self) -> None:
        for method in ("tools/list", "prompts/list"):
            await self.exchange(method, {})


@mutant("http.compat.sse-fallback-checks-body", "RefusesFirstHeaders")
class LooksForTheOlderFormAfterHeaders(RawStateless):
    async def opened(self) -> bool:
        if not await super().opened():
            (await self.request("GET", {"Accept": "text/event-stream"}, None)).close()
            return False
        return True


@mutant("stdio.fallback.not-one-code", *ODD_CODES, over="stdio", revisions=ALL)
class FallsBackOnCodesOfServers(RawDual):
    def falls_back(self, code: Any) -> bool:
        return code in (-32601, -32000)


class _ReadsBodies(RawDual):
    """Falls back where it likes the body of the refusal."""

    likes = True

    async def take_body(self, status: int, body: bytes, id: Any) -> None:
        self.likes = self.is_liked(status, body)
        await super().take_body(status, body, id)

    def falls_back(self, code: Any) -> bool:
        return self.likes and super().falls_back(code)

    def is_liked(self, status: int, body: bytes) -> bool:
        raise NotImplementedError


faults(
    mutant("http.compat.client-inspects-400", *ODD_CODES, revisions=ALL),
    FallsBackOnErrorsAlone=altering(
        _ReadsBodies, is_liked=lambda self, status, body: not body or body.startswith(b"{")
    ),
    FallsBackOnTextAlone=altering(
        _ReadsBodies, is_liked=lambda self, status, body: not body.startswith(b"{")
    ),
)


@mutant("discover.stdio-probe", over="stdio", revisions=ALL)
class ListensBeforeItProbes(RawDual):
    async def probe(self) -> Any:
        reply = await self.exchange("prompts/list", {})
        return await self.ask("server/discover", {}) if reply and "result" in reply else reply


@mutant("discover.stdio-probe", over="stdio", revisions=ALL)
class OpensBeforeItProbes(RawDual):
    """Tries the handshake first, and stands on its own where that is refused."""

    async def probe(self) -> Any:
        modern = self.revision, self.capabilities
        self.is_legacy, self.revision = True, self.older
        message = {"jsonrpc": "2.0", "id": "open", "method": "initialize"}
        opening = await self.asked_with({**message, "params": self.opening()})
        self.is_legacy, (self.revision, capabilities) = False, modern
        assert capabilities
        if opening is not None and "result" in opening:
            return {"error": {"code": -32601}}
        return await super().probe()


class _ProbesLater(RawDual):
    """Probes a server again that it opened by a handshake."""

    legacy_method: ClassVar[str] = ""

    async def ask(self, method: str, params: Message | None = None) -> Any:
        if self.is_legacy and method == self.legacy_method:
            self.is_legacy, self.revision = False, "2026-07-28"
            await super().ask("server/discover", {})
            self.is_legacy, self.revision = True, self.older
        return await super().ask(method, params)


@mutant("versioning.era.cached", over="stdio", revisions=ALL)
class ProbesBeforeCalls(_ProbesLater):
    legacy_method = "tools/call"


@mutant("versioning.era.cached", revisions=ALL)
class ProbesBeforeCompletions(_ProbesLater):
    legacy_method = "completion/complete"
