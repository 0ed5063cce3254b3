"""Requests to a client: valid ones, undeclared ones, malformed ones, and those of 2025-11-25.

That revision added pages to visit, models with tools, and modes.
"""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from accord.json_schema.validation import compile_schema
from accord.protocol.catalogue import catalogue
from accord.protocol.verdict import Evidence
from accord.types import JsonObject, RevisionId
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.server import FakeServer, client_scenario, revisions_of
from accord_tools.check.probing.messages import (
    Reply,
    new_notification,
    new_request,
    progress_token_of,
)
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection

SAMPLING: Final[JsonObject] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Say hello."}}],
    "maxTokens": 10,
    "_meta": {"progressToken": "sampling"},
}
# A client that sends messages for this long has received a ping.
_PROMPT: Final = 2.0
_TEXT: Final = {"type": "string", "title": "Name", "description": "Any name."}
FORMS: Final[tuple[JsonObject, ...]] = (
    {"type": "object", "properties": {"name": _TEXT}, "required": ["name"]},
    {
        "type": "object",
        "properties": {
            "code": {"type": "string", "minLength": 2, "maxLength": 4},
            "mail": {"type": "string", "format": "email"},
            "page": {"type": "string", "format": "uri"},
            "day": {"type": "string", "format": "date"},
            "time": {"type": "string", "format": "date-time"},
        },
        "required": ["code", "mail", "page", "day", "time"],
    },
    {
        "type": "object",
        "properties": {
            "age": {"type": "integer", "minimum": 18, "maximum": 99},
            "share": {"type": "number", "minimum": 0.5, "maximum": 0.75},
            "agreed": {"type": "boolean", "default": False},
            "colour": {
                "type": "string",
                "enum": ["red", "blue"],
                "enumNames": ["Red", "Blue"],
            },
        },
        "required": ["age", "share", "agreed", "colour"],
    },
)
# Seconds for answers of a person or a model, which take longer than those of a program.
_THINKING: Final = 20.0
# More reports than a user can read during one answer.
_MOST_REPORTS: Final = 200


def knows_forms(connection: RawConnection) -> bool:
    """Return whether the revision of a connection has forms at all."""
    row = catalogue()["elicitation.capability.declared"]
    return connection.revision is not None and row.holds_in(connection.revision)


def can_show(capabilities: Mapping[str, object], mode: str) -> bool:
    """Return whether a client declares a mode of elicitation; an empty object means forms."""
    declared = capabilities.get("elicitation")
    if not isinstance(declared, dict):
        return False
    return mode in declared or (mode == "form" and "url" not in declared)


def can_elicit(connection: RawConnection) -> bool:
    """Return whether the client may be asked to show a form."""
    return knows_forms(connection) and "elicitation" in connection.client_capabilities


async def asks_model(
    server: FakeServer, connection: RawConnection, request: JsonObject
) -> float | None:
    """Send a sampling request; return the seconds it took, None without a result."""
    began = asyncio.get_running_loop().time()
    reply = await ask_slowly(server, connection, "sampling/createMessage", SAMPLING, request)
    return None if reply is None or reply.is_error else asyncio.get_running_loop().time() - began


async def ask_slowly(
    server: FakeServer, connection: RawConnection, method: str, params: object, request: JsonObject
) -> Reply | None:
    """Send a request that a person or a model answers: a late answer is not a violation."""
    reply = await server.ask(connection, method, params, beside=request, patience=_THINKING)
    if reply is None:
        server.unanswered_methods.pop()
    return reply


@client_scenario(
    "ping.response.prompt",
    "roots.list-changed.sent",
    "elicitation.answers.validated",
    "progress.rate-limited",
    shows=(
        "sampling.",
        "elicitation.",
        "roots.",
        "progress.",
        "ping.",
        "meta.",
        "jsonrpc.response.",
    ),
)
class SendsEveryRequest(FakeServer):
    """Sends every request and notification that a server may send."""

    streams = True

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.is_pinged = False
        self.failures: list[tuple[str, Reply]] = []
        self.roots: list[tuple[object, int]] = []
        self.forms: list[tuple[JsonObject, Reply]] = []

    async def before_first_answer(self, connection: RawConnection, request: JsonObject) -> None:
        await self._tell(connection, request)
        await self._ping(connection, request)
        await self._list_roots(connection, request)
        if self.declares(connection, "sampling"):
            reply = await ask_slowly(self, connection, "sampling/createMessage", SAMPLING, request)
            if reply is not None and reply.is_error:
                self.failures.append(("sampling.errors", reply))
        for form in FORMS if can_elicit(connection) else ():
            params = {"message": "Please fill this in.", "requestedSchema": form}
            reply = await ask_slowly(self, connection, "elicitation/create", params, request)
            if reply is not None:
                self.forms.append((form, reply))
        await self._list_roots(connection, request)

    async def _ping(self, connection: RawConnection, request: JsonObject) -> None:
        """Ping; a client that goes on for a while before it leaves could have answered."""
        since, before = asyncio.get_running_loop().time(), len(connection.received)
        try:
            self.is_pinged = await self.ask(connection, "ping", beside=request) is not None
        except ConnectionEnded:
            waited = asyncio.get_running_loop().time() - since
            if waited > _PROMPT and len(connection.received) > before:
                self.unanswered_methods.append("ping")
            raise

    async def _list_roots(self, connection: RawConnection, request: JsonObject) -> None:
        if self.declares(connection, "roots"):
            reply = await self.ask(connection, "roots/list", beside=request)
            if reply is not None and reply.is_error:
                self.failures.append(("roots.errors", reply))
            elif reply is not None:
                changes = len(connection.messages("notifications/roots/list_changed"))
                self.roots.append((reply.result.get("roots"), changes))

    async def _tell(self, connection: RawConnection, request: JsonObject) -> None:
        token = progress_token_of(request)
        told: list[tuple[str, object]] = [
            ("notifications/message", {"level": "info", "data": "a log message"}),
            ("notifications/tools/list_changed", None),
            ("notifications/resources/list_changed", None),
            ("notifications/prompts/list_changed", None),
            ("notifications/accord-check/unknown", {}),
        ]
        if token is not None:
            progress = {"progressToken": token, "progress": 1, "total": 2}
            told.append(("notifications/progress", progress))
        for method, params in told:
            await self.send(connection, new_notification(method, params), beside=request)
        # An answer that arrives before the next question answers a notification.
        await asyncio.sleep(0.1)

    async def judge(self, run: ClientRun) -> None:
        if self.is_pinged:
            run.passes("ping.response.prompt")
        self._judge_roots(run)
        self._judge_forms(run)
        self._judge_failures(run)
        self._judge_reports(run)

    def _judge_failures(self, run: ClientRun) -> None:
        """Record errors of the client itself: a check cannot cause them."""
        for id, reply in self.failures:
            if reply.code == -32603:
                run.passes(id, "errors.code.internal-error")
            elif id == "sampling.errors":
                run.passes(id)
            if reply.code == -32602 and "data" in reply.error:
                run.passes("errors.invalid-params.data-details")

    def _judge_reports(self, run: ClientRun) -> None:
        id, reports = "progress.rate-limited", len(run.messages("notifications/progress"))
        if reports:
            why = f"reports progress {reports} times during one short answer"
            run.holds(id, reports <= _MOST_REPORTS, why)
        else:
            run.skip(id, "the client reports no progress")

    def _judge_roots(self, run: ClientRun) -> None:
        id = "roots.list-changed.sent"
        if run.messages("notifications/roots/list_changed"):
            run.passes(id)
        connection = run.connection
        declared = connection.client_capabilities.get("roots") if connection is not None else None
        announces = isinstance(declared, dict) and declared.get("listChanged") is True
        if connection is not None and not announces:
            run.not_applicable(id, "the client does not declare roots.listChanged")
        elif len(self.roots) == 2 and self.roots[0][0] != self.roots[1][0]:
            told = self.roots[1][1] > 0
            run.holds(id, told, "changes its roots without a notification")

    def _judge_forms(self, run: ClientRun) -> None:
        id = "elicitation.answers.validated"
        for form, reply in self.forms:
            if reply.result.get("action") == "accept":
                wrong = compile_schema(form)(reply.result.get("content") or {})
                run.holds(id, wrong is None, f"submits a form with invalid content: {wrong}")


@client_scenario(
    "errors.code.method-not-found",
    "errors.code.invalid-params",
    "errors.code.internal-error",
    "errors.code.parse-error",
    "errors.code.invalid-request",
    "errors.invalid-params.data-details",
    "roots.errors",
    "sampling.errors",
    shows=("roots.", "sampling.", "elicitation.capability", "errors.", "jsonrpc."),
)
class SendsInvalidRequests(FakeServer):
    """Sends unknown, undeclared and malformed requests."""

    streams = True

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.replies: dict[str, Reply] = {}

    async def before_first_answer(self, connection: RawConnection, request: JsonObject) -> None:
        asked: list[tuple[str, str, object]] = [("unknown", "accord-check/nothing", {})]
        if not self.declares(connection, "roots"):
            asked.append(("roots", "roots/list", None))
        if self.declares(connection, "sampling"):
            asked.append(("senseless", "sampling/createMessage", {"messages": "none"}))
        else:
            asked.append(("sampling", "sampling/createMessage", SAMPLING))
        if knows_forms(connection) and not self.declares(connection, "elicitation"):
            form = {"message": "?", "requestedSchema": FORMS[0]}
            asked.append(("elicitation", "elicitation/create", form))
        for what, method, params in asked:
            reply = await self.ask(connection, method, params, beside=request)
            if reply is not None:
                self.replies[what] = reply

    async def judge(self, run: ClientRun) -> None:
        unknown = self.replies.get("unknown")
        if unknown is not None:
            id = "errors.code.method-not-found"
            run.holds(id, unknown.code == -32601, f"answers an unknown method with {unknown}")
        roots = self.replies.get("roots")
        if roots is not None:
            why = f"answers roots/list although it did not declare roots: {roots}"
            run.holds("roots.errors", roots.code == -32601, why)
        run.skip("roots.errors", "the client declared roots, so that no error is expected")
        self._judge_sampling(run)
        run.skip("errors.code.internal-error", "the check cannot make the client fail")
        ids = ("errors.code.parse-error", "errors.code.invalid-request")
        run.not_applicable(ids, "a client cannot be asked by anything but a request")

    def _judge_sampling(self, run: ClientRun) -> None:
        undeclared, senseless = self.replies.get("sampling"), self.replies.get("senseless")
        if undeclared is not None:
            why = "answers sampling/createMessage although it did not declare sampling"
            run.holds("sampling.errors", undeclared.is_error, f"{why}: {undeclared}")
        if senseless is None or not senseless.is_error:
            run.skip("errors.code.invalid-params", "the client accepted invalid parameters")
            return
        run.passes("sampling.errors")
        # From here, internal errors (-32603) and refusals of the user (-1) look the same.
        if senseless.code not in (-32603, -1):
            why = f"answers invalid parameters with {senseless}"
            wrong = senseless.code in (-32600, -32601, -32700)
            run.holds("errors.code.invalid-params", not wrong, why)
        if "data" in senseless.error:
            run.passes("errors.invalid-params.data-details")


@client_scenario("jsonrpc.batch.receive", revisions=revisions_of("jsonrpc.batch.receive"))
class SendsBatches(FakeServer):
    """Pings twice in one batch."""

    streams = True
    answered: int | None = None
    batch: Sequence[JsonObject] = ()

    async def before_first_answer(self, connection: RawConnection, request: JsonObject) -> None:
        ids = ("batch-1", "batch-2")
        self.batch = [new_request("ping", id=id) for id in ids]
        await self.send(connection, self.batch, beside=request)
        self.answered = 0
        for id in ids:
            try:
                await connection.reply_to(id, what="a ping in a batch")
            except MessageTimeout:
                return
            self.answered += 1

    async def judge(self, run: ClientRun) -> None:
        if self.answered is None or not run.is_initialized:
            return
        # Otherwise it left because of the batch.
        stays = self.answered == 2 or run.ended_as_usual or run.exit_code is None
        if run.connection is not None and stays:
            why = f"answers {self.answered} of the two pings in a batch"
            evidence = run.evidence_of(self.batch)
            run.holds("jsonrpc.batch.receive", self.answered == 2, why, evidence=evidence)


_REQUIRED: Final = "sampling.tool-choice.required"
_NONE: Final = "sampling.tool-choice.none"
_LIMIT: Final = "sampling.max-tokens-respected"
TOOL_CHOICE_IDS: Final[tuple[str, ...]] = (_REQUIRED, _NONE, _LIMIT)
_MAX_TOKENS: Final = 100
# No tokenizer joins so many words into one token.
_WORDS_PER_TOKEN: Final = 4
_WEATHER: Final = {
    "name": "weather",
    "description": "Tell the weather of a city.",
    "inputSchema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


def _message(role: str, *content: JsonObject) -> JsonObject:
    return {"role": role, "content": [*content]}


_TEXT_RESULT: Final = {"type": "text", "text": "What is the weather in Oslo?"}
_USE: Final = {"type": "tool_use", "id": "use-1", "name": "weather", "input": {"city": "Oslo"}}
_RESULT: Final = {
    "type": "tool_result",
    "toolUseId": "use-1",
    "content": [{"type": "text", "text": "4 degrees"}],
}
MISSING_RESULT: Final[JsonObject] = {
    "messages": [
        _message("user", _TEXT_RESULT),
        _message("assistant", _USE),
        _message("user", {"type": "text", "text": "And?"}),
    ],
    "maxTokens": _MAX_TOKENS,
    "tools": [_WEATHER],
}
"""A tool is used, and its result never comes."""

MIXED_RESULTS: Final[JsonObject] = {
    "messages": [
        _message("user", _TEXT_RESULT),
        _message("assistant", _USE),
        _message("user", _RESULT, {"type": "text", "text": "And tomorrow?"}),
    ],
    "maxTokens": _MAX_TOKENS,
    "tools": [_WEATHER],
}
"""The result of a tool comes beside other content."""


def sampling_questions(declared: object) -> list[JsonObject]:
    """Return the parameters of valid sampling requests, with tools where they are declared."""
    asked: JsonObject = {
        "messages": [{"role": "user", "content": _TEXT_RESULT}],
        "maxTokens": _MAX_TOKENS,
    }
    if not isinstance(declared, dict) or "tools" not in declared:
        return [asked]
    tools = {**asked, "tools": [_WEATHER]}
    choices = ("none", "required")
    return [asked, *({**tools, "toolChoice": {"mode": mode}} for mode in choices)]


def judge_sampled(
    run: ClientRun, params: JsonObject, result: JsonObject, proof: Sequence[Evidence] | None
) -> None:
    """Judge what a model said by what it was asked."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else [content]
    said = [each for each in blocks if isinstance(each, dict)]
    if not said:
        return  # a monitor judges malformed content
    used = any(each.get("type") == "tool_use" for each in said)
    choice = params.get("toolChoice")
    mode = choice.get("mode") if isinstance(choice, dict) else None
    if mode == "required":
        run.holds(_REQUIRED, used, "uses no tool, although one is required", evidence=proof)
    elif mode == "none":
        run.holds(_NONE, not used, "uses a tool, although none may be used", evidence=proof)
    words = sum(len(str(each.get("text", "")).split()) for each in said)
    limit = params.get("maxTokens")
    if isinstance(limit, int):
        why = f"answers with {words} words, although maxTokens is {limit}"
        run.holds(_LIMIT, words <= limit * _WORDS_PER_TOKEN, why, evidence=proof)


_ELICIT: Final = "elicitation/create"
_NO_PREFETCH: Final = "elicitation.client.no-prefetch"
_NO_OPENING: Final = "elicitation.client.no-open-without-consent"
_UNKNOWN: Final = "elicitation.complete.unknown-ignored"
_FORM: Final = "elicitation.mode.absent-is-form"
_VALID: Final = "elicitation.answers.validated"
_AMISS: Final[Mapping[str, JsonObject]] = {
    "sampling.error.missing-tool-result": MISSING_RESULT,
    "sampling.error.mixed-tool-results": MIXED_RESULTS,
}
# Time for a client that opens a page although the user did not agree.
_SETTLING: Final = 0.2
_NEWER_FORM: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "class": {
            "type": "string",
            "oneOf": [{"const": "e", "title": "Economy"}, {"const": "b", "title": "Business"}],
            "default": "e",
        },
        "extras": {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "items": {
                "anyOf": [{"const": "wifi", "title": "Wi-Fi"}, {"const": "meal", "title": "Meal"}]
            },
        },
    },
    "required": ["class", "extras"],
}


@client_scenario(
    _NO_PREFETCH,
    _NO_OPENING,
    _UNKNOWN,
    _FORM,
    _VALID,
    *TOOL_CHOICE_IDS,
    *_AMISS,
    revisions=revisions_of(_FORM),
    shows=("elicitation.", "sampling."),
)
class AsksInNewerModes(FakeServer):
    """Asks with forms of newer kinds, pages to visit, and tools for the model."""

    streams = True

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.forms: list[tuple[JsonObject, Reply]] = []
        self.modes: list[tuple[JsonObject, Reply]] = []
        self.sampled: list[tuple[JsonObject, Reply]] = []
        self.refused: dict[str, Reply] = {}
        self.page: Reply | None = None
        self.visits: tuple[int, int] = (0, 0)
        self.is_alive: bool | None = None

    async def before_first_answer(self, line: RawConnection, request: JsonObject) -> None:
        if can_show(line.client_capabilities, "form"):
            await self._show_forms(line, request)
        if can_show(line.client_capabilities, "url"):
            await self._show_page(line, request)
        sampling = line.client_capabilities.get("sampling")
        if isinstance(sampling, dict) and "tools" in sampling:
            for params in sampling_questions(sampling):
                reply = await ask_slowly(self, line, "sampling/createMessage", params, request)
                if reply is not None:
                    self.sampled.append((params, reply))
            for id, params in _AMISS.items():
                reply = await ask_slowly(self, line, "sampling/createMessage", params, request)
                if reply is not None:
                    self.refused[id] = reply

    async def _show_forms(self, line: RawConnection, request: JsonObject) -> None:
        for form in (FORMS[0], _NEWER_FORM):
            params = {"message": "Please fill this in.", "requestedSchema": form}
            reply = await ask_slowly(self, line, _ELICIT, {**params, "mode": "form"}, request)
            if reply is not None:
                self.forms.append((form, reply))
        reply = await ask_slowly(
            self, line, _ELICIT, {"message": "Again.", "requestedSchema": FORMS[0]}, request
        )
        if reply is not None:
            self.modes.append((FORMS[0], reply))

    async def _show_page(self, line: RawConnection, request: JsonObject) -> None:
        id = secrets.token_hex(8)
        page = {
            "mode": "url",
            "message": "Please agree on this page.",
            "url": f"{self.fake_transport.origin}/agree-{id}",
            "elicitationId": id,
        }
        self.page = await ask_slowly(self, line, _ELICIT, page, request)
        before = len(self.visited)
        await asyncio.sleep(_SETTLING)
        self.visits = before, len(self.visited) - before
        for each in ("never-asked", id, id):
            done = new_notification("notifications/elicitation/complete", {"elicitationId": each})
            await self.send(line, done, beside=request)
        self.is_alive = await self.ask(line, "ping", beside=request) is not None
        if not self.is_alive:
            self.unanswered_methods.remove("ping")

    async def judge(self, run: ClientRun) -> None:
        self._judge_forms(run)
        self._judge_page(run)
        for params, reply in self.sampled:
            if not reply.is_error:
                judge_sampled(run, params, reply.result, None)
        for id, reply in self.refused.items():
            why = f"answers a request with the results of tools amiss with {reply}"
            code = reply.code
            if reply.is_error and not (isinstance(code, int) and -32768 <= code <= -32000):
                # Whether the client, its user or its model refused it cannot be seen.
                run.skip(id, f"the client refuses it with code {code}")
            else:
                run.holds(id, code == -32602, why)

    def _judge_forms(self, run: ClientRun) -> None:
        for form, reply in (*self.forms, *self.modes):
            if reply.result.get("action") == "accept":
                wrong = compile_schema(form)(reply.result.get("content") or {})
                run.holds(_VALID, wrong is None, f"submits a form with invalid content: {wrong}")
        named = [reply for _, reply in self.forms if not reply.is_error]
        for _, reply in self.modes if named else ():
            why = f"refuses an elicitation without a mode, but takes the mode form: {reply}"
            run.holds(_FORM, not reply.is_error, why)

    def _judge_page(self, run: ClientRun) -> None:
        if self.is_alive is not None:
            why = "answers no ping after an elicitation that it does not know was completed"
            run.holds(_UNKNOWN, self.is_alive, why)
        if self.page is None:
            run.skip((_NO_PREFETCH, _NO_OPENING), "the client does not declare elicitation.url")
            return
        before, after = self.visits
        if self.page.result.get("action") == "accept":
            run.skip((_NO_PREFETCH, _NO_OPENING), "the user agreed, so that a visit proves nothing")
            return
        why = f"fetches the page of an elicitation that it answers with {self.page}"
        run.holds(_NO_PREFETCH, not before, why)
        run.holds(_NO_OPENING, not after, f"opens a page although it answered {self.page}")


@client_scenario(
    "tasks.undeclared.ignored",
    revisions=revisions_of(_FORM),
    shows=("elicitation.", "sampling."),
)
class AsksInUndeclaredModes(FakeServer):
    """Asks with modes, tools and tasks that the client did not declare."""

    streams = True
    augmented: Reply | None = None

    async def before_first_answer(self, line: RawConnection, request: JsonObject) -> None:
        declared = line.client_capabilities
        if not can_show(declared, "url"):
            url = f"{self.fake_transport.origin}/agree"
            page = {"mode": "url", "message": "?", "url": url}
            page["elicitationId"] = secrets.token_hex(8)
            await ask_slowly(self, line, _ELICIT, page, request)
        if not can_show(declared, "form"):
            form = {"mode": "form", "message": "?", "requestedSchema": FORMS[0]}
            await ask_slowly(self, line, _ELICIT, form, request)
        sampling = declared.get("sampling")
        if not isinstance(sampling, dict):
            return
        plain, *_, tools = sampling_questions({"tools": {}})
        if "tools" not in sampling:
            await ask_slowly(self, line, "sampling/createMessage", tools, request)
        if "tasks" not in declared:
            params = {**plain, "task": {"ttl": 60_000}}
            self.augmented = await ask_slowly(self, line, "sampling/createMessage", params, request)

    async def judge(self, run: ClientRun) -> None:
        id = "tasks.undeclared.ignored"
        if self.augmented is None:
            run.skip(id, "the client declares tasks, or answers no sampling request")
        elif self.augmented.is_error and self.augmented.code not in (-32600, -32601, -32602):
            run.skip(id, f"the client answers the request with {self.augmented}")
        else:
            why = f"did not declare tasks, and answers a request with a task by {self.augmented}"
            is_plain = not self.augmented.is_error and "task" not in self.augmented.result
            run.holds(id, is_plain, why)
