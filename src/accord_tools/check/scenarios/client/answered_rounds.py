"""Questions of a server without a handshake: they travel in results, and the client asks again."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from accord.json_schema.validation import compile_schema
from accord.protocol.mirroring import NAME_MEMBERS
from accord.types import JsonObject, RevisionId
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.server import (
    FakeServer,
    Result,
    capabilities_in,
    client_scenario,
)
from accord_tools.check.probing.messages import new_request, params_of
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.scenarios.client.answered_questions import (
    FORMS,
    TOOL_CHOICE_IDS,
    can_show,
    judge_sampled,
    sampling_questions,
)

ASKING: Final = ("tools/call", "prompts/get", "resources/read")
_REPEATS: Final = 3
_SETTLING: Final = 0.3
# After the first round, which asks everything.
_ROUNDS: Final = 2
_PAGE: Final = "/agree"
_PURPOSES: Final = ("inputResponses", "requestState", "_meta")


class QuestionRound(msgspec.Struct):
    """Questions that were put in answer to a request, and how the client asked again.

    Attributes:
        request: what was answered with questions.
        questions: by key.
        state: what the client must bring back; None for nothing.
        retry: the request that brought the answers.
        repeats: how often the same request came again without them.
        visits: how often pages had been visited when the answers came.
    """

    request: JsonObject
    questions: dict[str, JsonObject]
    state: str | None
    retry: JsonObject | None = None
    repeats: int = 0
    visits: int = 0

    @property
    def target(self) -> tuple[str, object]:
        """What the request is about."""
        return target_of(self.request)


def target_of(request: Mapping[str, object]) -> tuple[str, object]:
    """Return the method of a request, and the name or the URI that it is about."""
    method = str(request.get("method"))
    return method, params_of(request).get(NAME_MEMBERS.get(method, ""))


def is_retry(request: Mapping[str, object]) -> bool:
    """Return whether a request brings answers or a state."""
    return bool({"inputResponses", "requestState"} & params_of(request).keys())


class _AsksBack(FakeServer):
    """Answers requests with questions before it answers them with results."""

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.rounds: list[QuestionRound] = []

    @property
    def page(self) -> str:
        """The address of a new page that a user may visit."""
        return f"{self.fake_transport.origin}{_PAGE}-{secrets.token_hex(4)}"

    async def work_result(self, line: RawConnection, request: JsonObject) -> Result:
        if request.get("method") not in ASKING:
            return await super().work_result(line, request)
        number = 0
        if is_retry(request):
            known = self._find_round(request)
            if known is not None:
                known.retry, known.visits = request, len(self.visited)
                number = sum(each.target == known.target for each in self.rounds)
        elif self._is_repeated(request):
            return self._ask(self.rounds[-1].questions, self.rounds[-1].state)
        asked = self.questions(line, request, number)
        if asked is None:
            return await super().work_result(line, request)
        self.rounds.append(QuestionRound(request, *asked))
        return self._ask(*asked)

    def _ask(self, questions: Mapping[str, object], state: str | None) -> JsonObject:
        result: JsonObject = {"resultType": "input_required"}
        if questions:
            result["inputRequests"] = questions
        if state is not None:
            result["requestState"] = state
        return result

    def _find_round(self, retry: JsonObject) -> QuestionRound | None:
        """Return the questions that a request answers: by what it is about, else by its state."""
        waiting = [each for each in self.rounds if each.retry is None]
        state = params_of(retry).get("requestState")
        own = [each for each in waiting if each.target == target_of(retry)]
        return next((each for each in own if each.state == state), own[-1] if own else None)

    def _is_repeated(self, request: JsonObject) -> bool:
        """Count a request that comes again without answers; a program may call a tool twice."""
        last = self.rounds[-1] if self.rounds else None
        if last is None or last.retry is not None or _without(last.request) != _without(request):
            return False
        last.repeats += 1
        return True

    def questions(
        self, line: RawConnection, request: JsonObject, number: int
    ) -> tuple[dict[str, JsonObject], str | None] | None:
        """Return the questions and the state of a round; None answers the request."""
        raise NotImplementedError


def _without(request: Mapping[str, object]) -> JsonObject:
    """Return the parameters that say what a request is about."""
    return {name: each for name, each in params_of(request).items() if name not in _PURPOSES}


_FULFIL: Final = "mrtr.client.fulfil-before-retry"
_ECHO: Final = "mrtr.client.echo-state"
_INVENTED: Final = "mrtr.client.no-invented-state"
_SHARED: Final = "mrtr.client.state-not-shared"
_FORM: Final = "elicitation.mode.absent-is-form"
_VALID: Final = "elicitation.answers.validated"
_NO_PREFETCH: Final = "elicitation.client.no-prefetch"
_NO_OPENING: Final = "elicitation.client.no-open-without-consent"


@client_scenario(
    _FULFIL,
    _ECHO,
    _INVENTED,
    _SHARED,
    _FORM,
    _VALID,
    _NO_PREFETCH,
    _NO_OPENING,
    *TOOL_CHOICE_IDS,
    era="stateless",
    on=("stdio", "http"),
    shows=(
        "mrtr.client.",
        "elicitation.",
        "sampling.",
        "roots.",
        "jsonrpc.client-no-responses",
        "caching.client.no-mrtr-results",
    ),
)
class AsksInRounds(_AsksBack):
    """Asks questions in rounds, with and without a state, before it answers."""

    def hints_of(self, method: str) -> Mapping[str, object] | None:
        # caching.client.no-mrtr-results: a lifetime, although the result may not be kept.
        kept = {"ttlMs": 3_600_000, "cacheScope": "public"}
        return kept if method == "resources/read" else super().hints_of(method)

    def questions(
        self, line: RawConnection, request: JsonObject, number: int
    ) -> tuple[dict[str, JsonObject], str | None] | None:
        state = f"state-{secrets.token_urlsafe(9)}"
        method = request.get("method")
        asked = _declared_questions(capabilities_in(request), self.page)
        if method == "prompts/get":
            return ({}, state) if number == 0 else None
        if method == "resources/read":
            return (dict([*asked.items()][:1]), None) if asked and number == 0 else None
        if number == 0:
            return asked, state
        more = {key: each for key, each in asked.items() if key.startswith("form")}
        if not more or number > _ROUNDS:
            return None
        # The second round has no state: that of the first one must not come back.
        return more, None if number == 1 else state

    async def judge(self, run: ClientRun) -> None:
        if not self.rounds:
            run.skip(self.ids, "the client calls no tool, and gets no prompt or resource")
            return
        for each in self.rounds:
            if each.retry is not None:
                self._judge_retry(run, each)
            elif each.repeats >= _REPEATS:
                why = f"sends {each.target[0]} again and again without what the result asks for"
                run.holds(_FULFIL if each.questions else _ECHO, condition=False, why=why)
        run.skip(self.ids, "the client does not ask again with answers")

    def _judge_retry(self, run: ClientRun, asked: QuestionRound) -> None:
        assert asked.retry is not None
        params, method = params_of(asked.retry), asked.target[0]
        proof = run.lines[-1].log.evidence_of([asked.request, asked.retry])
        state, answers = params.get("requestState"), params.get("inputResponses")
        given = answers if isinstance(answers, dict) else {}
        others = [each for each in self.rounds if each.target != asked.target]
        foreign = {each.state for each in others} | {
            key for each in others for key in each.questions
        }
        foreign -= {None}
        borrowed = [each for each in (state, *given) if isinstance(each, str) and each in foreign]
        why = f"sends {method} again with {str(borrowed)[:200]}, which belong to another request"
        if not run.holds(_SHARED, not borrowed, why, evidence=proof):
            return
        if asked.state is None:
            why = f"sends {method} again with a state, although the result had none"
            run.holds(_INVENTED, "requestState" not in params, why, evidence=proof)
        else:
            why = f"sends {method} again with the state {state!r:.100}, not {asked.state!r}"
            run.holds(_ECHO, state == asked.state, why, evidence=proof)
        if asked.questions:
            missing = sorted(asked.questions.keys() - given.keys())
            why = f"sends {method} again without answers to {missing}"
            run.holds(_FULFIL, not missing, why, evidence=proof)
        for key, question in asked.questions.items():
            if isinstance(given.get(key), dict):
                _judge_answer(run, question, given[key], proof)
                if params_of(question).get("mode") == "url":
                    path = urlsplit(params_of(question)["url"]).path
                    self._judge_page(run, asked, path, given[key])

    def _judge_page(
        self, run: ClientRun, asked: QuestionRound, path: str, answer: JsonObject
    ) -> None:
        if answer.get("action") == "accept":
            run.skip((_NO_PREFETCH, _NO_OPENING), "the user agreed, so that a visit proves nothing")
            return
        before, after = self.visited[: asked.visits], self.visited[asked.visits :]
        why = f"fetches the page of an elicitation that it answers with {answer}"
        run.holds(_NO_PREFETCH, path not in before, why)
        why = f"opens a page although it answered {answer}"
        run.holds(_NO_OPENING, path not in after, why)


_NO_RESPONSES: Final = "jsonrpc.client-no-responses"


@client_scenario(_NO_RESPONSES, is_judged=False, era="stateless", on=("stdio", "http"))
class AsksDirectly(FakeServer):
    """Sends requests of earlier revisions to the client during the first call of a tool."""

    streams = True
    has_asked = False

    async def work_result(self, line: RawConnection, request: JsonObject) -> Result:
        if request.get("method") == "tools/call" and not self.has_asked:
            self.has_asked = True
            form = {"message": "Please fill this in.", "requestedSchema": FORMS[0]}
            for method, params in (("roots/list", {}), ("elicitation/create", form), ("ping", {})):
                await self.send(line, new_request(method, params), beside=request)
            await asyncio.sleep(_SETTLING)
        return await super().work_result(line, request)

    async def judge(self, run: ClientRun) -> None:
        if not self.has_asked:
            run.skip(_NO_RESPONSES, "the client calls no tool")
            return
        # JSON-RPC has every request answered, so that an error is not held against the client.
        answers = [each for each in run.all_messages if "result" in each]
        why = "sends a result to a request of the server, which this revision does not have"
        run.holds(_NO_RESPONSES, not answers, why, evidence=run.evidence_of(*answers[:1]))


def _declared_questions(capabilities: JsonObject, page: str) -> dict[str, JsonObject]:
    """Return a question of each kind that a client declares; every key is used once."""
    found: list[tuple[str, JsonObject]] = []
    if can_show(capabilities, "form"):
        for form, more in zip(FORMS, ({}, {"mode": "form"}, {}), strict=True):
            params = {"message": "Please fill this in.", "requestedSchema": form, **more}
            found.append(("form", {"method": "elicitation/create", "params": params}))
    if "roots" in capabilities:
        found.append(("roots", {"method": "roots/list"}))
    if "sampling" in capabilities:
        found += [
            ("model", {"method": "sampling/createMessage", "params": params})
            for params in sampling_questions(capabilities["sampling"])
        ]
    if can_show(capabilities, "url"):
        url = {"mode": "url", "message": "Please agree.", "url": page}
        found.append(("page", {"method": "elicitation/create", "params": url}))
    return {f"{name}-{secrets.token_hex(4)}": each for name, each in found}


def _judge_answer(run: ClientRun, question: JsonObject, answer: JsonObject, proof: Any) -> None:
    params = params_of(question)
    if question["method"] == "sampling/createMessage":
        judge_sampled(run, params, answer, proof)
    schema = params.get("requestedSchema")
    if schema is None or answer.get("action") != "accept":
        return
    if "mode" not in params:
        why = "takes an elicitation without a mode for something else than a form"
        if not run.holds(_FORM, "content" in answer, why, evidence=proof):
            return
    wrong = compile_schema(schema)(answer.get("content") or {})
    run.holds(
        _VALID, wrong is None, f"submits a form with invalid content: {wrong}", evidence=proof
    )


@client_scenario(
    era="stateless",
    on=("stdio", "http"),
    shows=("roots.capability", "sampling.", "elicitation."),
)
class AsksForUndeclared(_AsksBack):
    """Asks in rounds for what the client did not declare."""

    def questions(
        self, line: RawConnection, request: JsonObject, number: int
    ) -> tuple[dict[str, JsonObject], str | None] | None:
        if number:
            return None
        declared = capabilities_in(request)
        asked: dict[str, JsonObject] = {}
        if "roots" not in declared:
            asked["roots"] = {"method": "roots/list"}
        sampling = declared.get("sampling")
        if not isinstance(sampling, dict) or "tools" not in sampling:
            plain, *_, tools = sampling_questions({"tools": {}})
            params = tools if isinstance(sampling, dict) else plain
            asked["model"] = {"method": "sampling/createMessage", "params": params}
        if not can_show(declared, "form"):
            form = {"message": "Please fill this in.", "requestedSchema": FORMS[0]}
            asked["form"] = {"method": "elicitation/create", "params": form}
        if not can_show(declared, "url"):
            url = {"mode": "url", "message": "Please agree.", "url": self.page}
            asked["page"] = {"method": "elicitation/create", "params": url}
        return (asked, None) if asked else None
