"""Questions that 2025-11-25 added: pages to visit, models with tools, and modes not declared."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Final

from accord.json_schema.validation import compile_schema
from accord.types import JsonObject, RevisionId
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.server import FakeServer, client_scenario, revisions_of
from accord_tools.check.probing.messages import Reply, new_notification
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.scenarios.client.questions import FORMS, ask_slowly
from accord_tools.check.scenarios.client.rounds import can_show
from accord_tools.check.scenarios.client.sampling import (
    MISSING_RESULT,
    MIXED_RESULTS,
    TOOL_CHOICE_IDS,
    judge_sampled,
    sampling_questions,
)

_ELICIT: Final = "elicitation/create"
_SAMPLE: Final = "sampling/createMessage"
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
                reply = await ask_slowly(self, line, _SAMPLE, params, request)
                if reply is not None:
                    self.sampled.append((params, reply))
            for id, params in _AMISS.items():
                reply = await ask_slowly(self, line, _SAMPLE, params, request)
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
            await ask_slowly(self, line, _SAMPLE, tools, request)
        if "tasks" not in declared:
            params = {**plain, "task": {"ttl": 60_000}}
            self.augmented = await ask_slowly(self, line, _SAMPLE, params, request)

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
