"""Answers and messages that a client must cope with: pages, errors, unusual and invalid ones."""

import secrets
from collections.abc import Mapping
from typing import Final

from accord.errors import InvalidParams, RequestError
from accord.types import JsonObject, RevisionId
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.server import (
    LISTS,
    STATELESS,
    FakeServer,
    Result,
    client_scenario,
    revisions_of,
)
from accord_tools.check.fake_server.transports import CannedResponse, ReceivedRequest
from accord_tools.check.probing.messages import params_of
from accord_tools.check.probing.raw_connection import RawConnection

_MORE: Final[Mapping[str, tuple[JsonObject, ...]]] = {
    "tools/list": tuple(
        {"name": name, "description": "Do nothing.", "inputSchema": {"type": "object"}}
        for name in ("third", "fourth")
    ),
    "resources/list": tuple(
        {"uri": f"play://{name}", "name": name, "mimeType": "text/plain"}
        for name in ("second", "third", "fourth")
    ),
    "resources/templates/list": tuple(
        {"uriTemplate": f"play://{name}/{{id}}", "name": name}
        for name in ("second", "third", "fourth")
    ),
    "prompts/list": tuple({"name": name} for name in ("second", "third", "fourth")),
}
_SIZES: Final = (2, 1, 0, 1)


class PagedLists(FakeServer):
    """Answers lists in pages, the first of two entries, then one, none, and one."""

    paged: tuple[str, ...] = tuple(_MORE)

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        # For each cursor: its connection, list and page.
        self.cursors: dict[str, tuple[RawConnection, str, int]] = {}
        # For each list: the sizes of the pages that the client fetched, of its longest try.
        self.fetched: dict[str, list[int]] = {}
        self._current: dict[str, list[int]] = {}
        self.foreign: list[str] = []

    async def result(self, connection: RawConnection, method: str, params: JsonObject) -> Result:
        if method in self.paged:
            return self.page_of(connection, method, params.get("cursor"))
        if method == "completion/complete":
            return {"completion": {"values": ["one"], "total": 1000, "hasMore": True}}
        return await super().result(connection, method, params)

    def page_of(self, connection: RawConnection, method: str, cursor: object) -> JsonObject:
        """Return a page, and the cursor of the next one."""
        number = 0
        if cursor is not None:
            known = self.cursors.get(cursor) if isinstance(cursor, str) else None
            if known is not None and known[0] is not connection:
                self.foreign.append(method)
            if known is None or known[0] is not connection or known[1] != method:
                raise RequestError("unknown cursor", code=-32602)
            number = known[2]
        member, entries = LISTS[method]
        entries = (*entries, *_MORE[method])
        begin = sum(_SIZES[:number])
        page: JsonObject = {member: list(entries[begin : begin + _SIZES[number]])}
        pages = [*(self._current.get(method, []) if number else ()), _SIZES[number]]
        self._current[method] = pages
        if len(pages) >= len(self.fetched.get(method, [])):
            self.fetched[method] = pages
        if number + 1 < len(_SIZES):
            page["nextCursor"] = f"{secrets.token_urlsafe(9)}=="
            self.cursors[page["nextCursor"]] = (connection, method, number + 1)
        return page


@client_scenario(
    "pagination.client.both-flows",
    "pagination.cursor.continues",
    "pagination.end.no-next-cursor",
    "pagination.page-size-not-assumed",
    "completion.client.care",
    era="both",
    # A client that keeps pages is compared with what it fetches here.
    shows=("pagination.", "caching.client.key"),
)
class ReturnsListsInPages(PagedLists):
    """Answers lists of tools and resources in pages of several sizes, one of them empty."""

    paged = ("tools/list", "resources/list", "resources/templates/list")

    async def judge(self, run: ClientRun) -> None:
        whole = [each for each, pages in self.fetched.items() if len(pages) >= len(_SIZES)]
        for method, pages in self.fetched.items():
            if len(pages) > 1:
                run.passes("pagination.cursor.continues")
                # A client that followed a cursor and stops here took a short page for the last.
                why = f"stops {method} at a page of {pages[-1]}, although more pages follow"
                stops_short = len(pages) < len(_SIZES) and pages[-1] < _SIZES[0]
                run.holds("pagination.page-size-not-assumed", not stops_short, why)
        if whole:
            self._judge_end(run, whole)
        _judge_exit(run, "pagination.client.both-flows", bool(self.fetched), bool(whole))
        if run.messages("completion/complete") and run.ended_as_usual:
            run.passes("completion.client.care")

    def _judge_end(self, run: ClientRun, whole: list[str]) -> None:
        for method in whole:
            cursors = [params_of(each).get("cursor") for each in run.messages(method)]
            unknown = [each for each in cursors if each is not None and each not in self.cursors]
            # The cursor of the last page, again after it: there was no other one.
            ends = [each for each in self.cursors if self.cursors[each][2] == len(_SIZES) - 1]
            again = [each for each in ends if cursors.count(each) > 1]
            why = f"continues {method} after the last page"
            run.holds("pagination.end.no-next-cursor", not (unknown or again), why)


@client_scenario("prompts.client.handles-pagination", era="both", shows=("pagination.",))
class ReturnsPromptsInPages(PagedLists):
    """Answers the list of prompts in pages."""

    paged = ("prompts/list",)

    async def judge(self, run: ClientRun) -> None:
        pages = self.fetched.get("prompts/list", [])
        _judge_exit(run, "prompts.client.handles-pagination", bool(pages), len(pages) > 1)


def _judge_exit(run: ClientRun, id: str, has_listed: bool, has_continued: bool) -> None:  # noqa: FBT001
    """Judge whether a client that succeeds without pages fails with them."""
    if not has_listed:
        run.skip(id, "the client lists nothing of this kind")
    elif run.usual_exit_code == 0 and run.exit_code != 0:
        ended = "does not end" if run.exit_code is None else f"ends with {run.exit_code}"
        run.fail(id, f"{ended} when lists come in pages, and with 0 when they do not")
    elif has_continued:
        run.passes(id)
    else:
        run.skip(id, "the client asks for no more than the first page")


# -- unexpected messages, errors and invalid results

_GARBAGE: Final[tuple[bytes, ...]] = (
    b"this is not a message",
    b'{"jsonrpc": "2.0", "method":',
    b"42",
    b"[]",
    b'{"jsonrpc": "1.0", "method": "notifications/message"}',
    b'{"jsonrpc": "2.0", "method": 7}',
    b'{"jsonrpc": "2.0", "method": "notifications/message", "params": "none"}',
    b'{"jsonrpc": "2.0", "id": {}, "result": {}}',
)


class _UnexpectedMessages(FakeServer):
    """Sends unexpected messages, and then pings."""

    streams = True
    answers: bool | None = None

    async def before_first_answer(self, connection: RawConnection, request: JsonObject) -> None:
        for each in self.unexpected_messages(connection):
            await self.send(connection, each, beside=request)
        self.answers = await self.ask(connection, "ping", beside=request) is not None

    def unexpected_messages(self, connection: RawConnection) -> tuple[object, ...]:
        """Return the messages to send."""
        raise NotImplementedError

    async def judge(self, run: ClientRun) -> None:
        id = "ping.response.prompt"
        if self.answers is None:
            run.skip(id, "the client left")
        else:
            did = self.name[0].lower() + self.name[1:]
            why = f"stays connected but answers no ping after the server {did}"
            run.holds(id, self.answers, why)


@client_scenario("ping.response.prompt", is_judged=False)
class SendsMalformedMessages(_UnexpectedMessages):
    """Sends text that is not a message, and malformed messages."""

    def unexpected_messages(self, connection: RawConnection) -> tuple[object, ...]:
        return _GARBAGE


@client_scenario("ping.response.prompt", is_judged=False)
class SendsUnrequestedAnswers(_UnexpectedMessages):
    """Sends answers to requests that were never sent, and one answer twice."""

    def unexpected_messages(self, connection: RawConnection) -> tuple[object, ...]:
        opening = next(iter(connection.messages("initialize")), {})
        error = {"code": -32603, "message": "a check"}
        return (
            {"jsonrpc": "2.0", "id": "never-sent", "result": {}},
            {"jsonrpc": "2.0", "id": 999_999, "error": error},
            {"jsonrpc": "2.0", "id": None, "error": error},
            {"jsonrpc": "2.0", "id": opening.get("id"), "result": {}},
        )


@client_scenario(era="both", shows=("errors.", "jsonrpc."))
class AnswersWithErrors(FakeServer):
    """Answers with errors: failed tools, missing resources, failed prompts."""

    async def result(self, connection: RawConnection, method: str, params: JsonObject) -> Result:
        if method == "tools/call":
            return {"content": [{"type": "text", "text": "it failed"}], "isError": True}
        if method == "resources/read":
            raise RequestError("resource not found", code=-32002 if self.has_handshake else -32602)
        if method in ("prompts/get", "completion/complete"):
            raise RequestError("invalid params", code=-32602)
        return await super().result(connection, method, params)


@client_scenario("lifecycle.capabilities.only-declared", "lifecycle.capabilities.respected")
class DeclaresNoCapabilities(FakeServer):
    """Declares no capabilities."""

    capabilities: Mapping[str, object] = {}

    async def result(self, connection: RawConnection, method: str, params: JsonObject) -> Result:
        if method not in ("initialize", "ping"):
            raise RequestError(f"there is no method {method[:80]}", code=-32601)
        return await super().result(connection, method, params)

    async def judge(self, run: ClientRun) -> None:
        if run.is_initialized:
            # Unless a monitor found a violation.
            run.passes("lifecycle.capabilities.only-declared", "lifecycle.capabilities.respected")


@client_scenario("lifecycle.capabilities.only-declared", "lifecycle.capabilities.respected")
class DeclaresNoOptions(FakeServer):
    """Declares tools, resources and prompts alone: no subscriptions, logging or completions."""

    capabilities: Mapping[str, object] = {"tools": {}, "resources": {}, "prompts": {}}

    async def result(self, connection: RawConnection, method: str, params: JsonObject) -> Result:
        if method in ("resources/subscribe", "resources/unsubscribe", "logging/setLevel"):
            raise RequestError(f"there is no method {method}", code=-32601)
        return await super().result(connection, method, params)


@client_scenario("tools.structured-content.client-validates", is_judged=False, era="both")
class ReturnsInvalidStructuredContent(FakeServer):
    """Returns structured results that do not match their schemas."""

    async def result(self, connection: RawConnection, method: str, params: JsonObject) -> Result:
        if method == "tools/list":
            sums = {"type": "object", "properties": {"sum": {"type": "number"}}}
            schema = {**sums, "required": ["sum"]}
            return {"tools": [{**tool, "outputSchema": schema} for tool in LISTS[method][1]]}
        if method == "tools/call":
            text = {"type": "text", "text": '{"sum": "many"}'}
            return {"content": [text], "structuredContent": {"sum": "many"}, "isError": False}
        return await super().result(connection, method, params)

    async def judge(self, run: ClientRun) -> None:
        id = "tools.structured-content.client-validates"
        if not run.messages("tools/call"):
            run.skip(id, "the client calls no tool")
        elif run.exit_code is not None and run.exit_code != run.usual_exit_code:
            run.passes(id)
        else:
            run.skip(id, "the client ends as usual, so that validation cannot be observed")


_KEPT: Final = {"ttlMs": 3_600_000, "cacheScope": "public"}
_SCHEMA_PATH: Final = "/schema.json"
_ICONS: Final = "icons.consumer."
_OUTPUT: Final = "tools.output-schema.any-type"
_CONTENT: Final = "tools.structured-content.any-json"
_LINK: Final = "prompts.content.resource-link-accepted"
_CURSOR: Final = "pagination.empty-cursor-is-a-cursor"
_PAGES: Final = "caching.client.bad-cursor-discards-pages"
_FETCH: Final = "schema.ref.no-network-fetch"
_MISSING: Final = "resources.read.client-accepts-32002"


@client_scenario(
    _OUTPUT,
    _CONTENT,
    _LINK,
    _CURSOR,
    _PAGES,
    _FETCH,
    _MISSING,
    era="stateless",
    on=("stdio", "http"),
    shows=("pagination.",),
)
class ReturnsUnusualResults(FakeServer):
    """Returns results of rare forms: lists as outputs, empty cursors, links, foreign schemas."""

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.cursors: list[object] = []
        self.refused: list[object] = []
        self.first_pages = 0

    def hints_of(self, method: str) -> Mapping[str, object] | None:
        # A page may be kept, until the cursor in it is refused.
        is_kept = method == "resources/templates/list"
        return _KEPT if is_kept else super().hints_of(method)

    async def result(self, line: RawConnection, method: str, params: JsonObject) -> Result:
        cursor = params.get("cursor")
        if method == "tools/list":
            return {"tools": self._tools()}
        if method == "tools/call":
            number = [1, 2] if params.get("name") == "echo" else None
            text = {"type": "text", "text": "[1, 2]" if number else "null"}
            return {"content": [text], "structuredContent": number, "isError": False}
        if method == "prompts/get":
            link = {"type": "resource_link", "uri": "play://note", "name": "note"}
            return {"messages": [{"role": "user", "content": link}]}
        if method == "resources/list":
            self.cursors.append(cursor)
            second = {"uri": "play://second", "name": "second"}
            return {"resources": [second]} if cursor == "" else self._first_page(method, "")
        if method == "resources/templates/list":
            if cursor is not None:
                self.refused.append(cursor)
                raise InvalidParams("unknown cursor")
            # A client that starts over gets another cursor, and does not repeat one.
            self.first_pages += 1
            return self._first_page(method, f"of-page-{self.first_pages}-that-is-gone")
        if method == "resources/read":
            raise RequestError("resource not found", code=-32002)
        return await super().result(line, method, params)

    def _first_page(self, method: str, cursor: str) -> JsonObject:
        member, entries = LISTS[method]
        return {member: [*entries], "nextCursor": cursor}

    def _tools(self) -> list[JsonObject]:
        echo, add = LISTS["tools/list"][1]
        foreign = {"$ref": f"{self.fake_transport.origin}{_SCHEMA_PATH}"}
        remote = {"type": "object", "properties": {"a": foreign}}
        return [
            {**echo, "outputSchema": {"type": "array", "items": {"type": "integer"}}},
            {**add, "outputSchema": {"type": ["null", "number"]}},
            {"name": "remote", "description": "Take anything.", "inputSchema": remote},
        ]

    async def judge(self, run: ClientRun) -> None:
        for method, id, what in (
            ("tools/list", _OUTPUT, "an outputSchema that is not an object"),
            ("tools/call", _CONTENT, "structuredContent that is not an object"),
            ("prompts/get", _LINK, "a resource_link in a prompt"),
        ):
            if run.messages(method):
                run.holds(id, not run.stumbles_at(method), f"fails because of {what}")
        if run.messages("resources/read") and run.stumbles_at("resources/read"):
            # It understood the error, perhaps: a missing resource may end a program.
            run.skip(_MISSING, "the client ends after an error, whatever its code may be")
        elif run.messages("resources/read"):
            run.passes(_MISSING)
        run.holds(_FETCH, _SCHEMA_PATH not in self.visited, "fetches a schema of another place")
        if self.cursors:
            follows = bool(self.refused)
            if "" in self.cursors:
                run.passes(_CURSOR)
            elif follows:
                why = "takes an empty nextCursor for the end of a list, and follows others"
                run.fail(_CURSOR, why)
        if self.refused:
            why = "sends a cursor again that the server refused"
            run.holds(_PAGES, len(self.refused) == len({*map(str, self.refused)}), why)


@client_scenario("result.type.absent-means-complete", era="stateless", on=("stdio", "http"))
class LeavesResultTypesOut(FakeServer):
    """Returns results without a resultType, as older servers do."""

    is_stamped = False

    async def judge(self, run: ClientRun) -> None:
        if not self.fulfilled or run.usual_exit_code is None:
            return
        if run.ended_as_usual:
            run.passes("result.type.absent-means-complete")
        elif run.usual_exit_code == 0 and run.exit_code is not None:
            # The rule is for servers of earlier revisions, and this one is not known as such.
            why = "the client ends when a server of this revision, which must send it, does not"
            run.skip("result.type.absent-means-complete", why)


@client_scenario(
    "result.type.unknown-is-invalid", is_judged=False, era="stateless", on=("stdio", "http")
)
class ReturnsUnknownResultTypes(FakeServer):
    """Answers calls with a resultType that does not exist."""

    async def result(self, line: RawConnection, method: str, params: JsonObject) -> Result:
        found = await super().result(line, method, params)
        if method == "tools/call" and found is not None:
            return {**found, "resultType": "accord-check.example/unknown", "taskId": "odd"}
        return found

    async def judge(self, run: ClientRun) -> None:
        id = "result.type.unknown-is-invalid"
        if not run.messages("tools/call"):
            run.skip(id, "the client calls no tool")
        elif any(run.messages(f"tasks/{each}") for each in ("get", "update", "cancel")):
            run.fail(id, "takes a result of an unknown type for a task")
        elif any("requestState" in params_of(each) for each in run.all_messages):
            run.fail(id, "takes a result of an unknown type for a question")
        elif run.exit_code is not None and run.exit_code != run.usual_exit_code:
            run.passes(id)
        else:
            run.skip(id, "the client ends as usual, so that its reaction cannot be observed")


@client_scenario(
    "result.type.unknown-is-invalid", is_judged=False, era="stateless", on=("stdio", "http")
)
class ListsToolsByAnUnknownType(FakeServer):
    """Answers the list of tools with a resultType that does not exist."""

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.tool = f"listed-{secrets.token_hex(4)}"

    async def result(self, line: RawConnection, method: str, params: JsonObject) -> Result:
        found = await super().result(line, method, params)
        if method == "tools/list" and found is not None:
            tools = [{**LISTS[method][1][0], "name": self.tool}]
            return {**found, "tools": tools, "resultType": "accord-check.example/unknown"}
        return found

    async def judge(self, run: ClientRun) -> None:
        id = "result.type.unknown-is-invalid"
        called = [
            each for each in run.messages("tools/call") if params_of(each).get("name") == self.tool
        ]
        if called:
            why = "calls a tool of a list whose resultType is unknown"
            run.holds(id, condition=False, why=why, evidence=run.evidence_of(*called[:1]))
        else:
            run.skip(id, "the client calls no tool of a list whose resultType is unknown")


# -- icons

_SEEN_ICONS: Final = tuple(
    f"{_ICONS}{each}"
    for each in (
        "reject-unsafe-scheme",
        "same-origin",
        "no-cross-origin-redirect",
        "no-credentials",
    )
)


@client_scenario(
    *_SEEN_ICONS,
    era="both",
    revisions=(*revisions_of(_SEEN_ICONS[0]), STATELESS.id),
    on=("stdio", "http"),
)
class OffersIcons(FakeServer):
    """Offers icons in the open, of another origin, and behind a redirect."""

    secrets: tuple[str, ...] = ()

    async def result(self, line: RawConnection, method: str, params: JsonObject) -> Result:
        if method == "tools/list":
            return {"tools": [{**each, "icons": self._icons()} for each in LISTS[method][1]]}
        return await super().result(line, method, params)

    def _icons(self) -> list[Mapping[str, object]]:
        origin = self.fake_transport.origin
        other = origin.replace("127.0.0.1", "localhost")
        sources = (f"{origin}/icon", f"{origin}/icon-moved", f"{other}/icon-of-another")
        return [{"src": each, "mimeType": "image/png", "sizes": ["48x48"]} for each in sources]

    def http(self, request: ReceivedRequest) -> CannedResponse | None:
        if not request.path.startswith("/icon"):
            return None
        self.visited.append(request.path)
        if {"authorization", "cookie"} & request.headers.keys():
            self.secrets = (*self.secrets, request.path)
        if request.path == "/icon-moved":
            other = self.fake_transport.origin.replace("127.0.0.1", "localhost")
            head = {"location": f"{other}/icon-elsewhere", "set-cookie": "seen=1"}
            return CannedResponse(302, head)
        return CannedResponse(200, {"content-type": "image/png", "set-cookie": "seen=1"}, b"")

    async def judge(self, run: ClientRun) -> None:
        unsafe, same, redirect, secret = _SEEN_ICONS
        fetched = [each for each in self.visited if each.startswith("/icon")]
        if not fetched:
            run.skip(_SEEN_ICONS, "the client fetches no icon")
            return
        run.holds(secret, not self.secrets, f"fetches {self.secrets} with credentials")
        followed = "/icon-elsewhere" in fetched
        run.holds(redirect, not followed, "follows the redirect of an icon to another origin")
        foreign = "/icon-of-another" in fetched
        run.holds(same, not foreign, "fetches an icon of another origin than the server's")
        plain = [each for each in fetched if each in ("/icon", "/icon-moved")]
        why = f"fetches the icon {plain[:1]} over http, which is neither https nor data"
        run.holds(unsafe, not plain, why)
