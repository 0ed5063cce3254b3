"""Clients without a handshake: rounds of questions, results that they keep, and how they listen.

How long results are kept shows when the same program is run with several lifetimes.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from accord.json_schema.validation import compile_schema
from accord.protocol.mirroring import NAME_MEMBERS
from accord.types import JsonObject, RevisionId
from accord_tools.check.fake_server.client_run import ClientRun, cross_run_check
from accord_tools.check.fake_server.server import (
    ACKNOWLEDGED,
    CACHEABLE,
    LISTEN,
    FakeServer,
    Result,
    acknowledged_part,
    capabilities_in,
    client_scenario,
    tag,
)
from accord_tools.check.probing.messages import is_same_id, new_notification, new_request, params_of
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.scenarios.client.answered_questions import (
    FORMS,
    TOOL_CHOICE_IDS,
    can_show,
    judge_sampled,
    sampling_questions,
)
from accord_tools.check.scenarios.client.answers import PagedLists, ReturnsListsInPages

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


# -- kept results

_P: Final = "caching.client."
_HOUR: Final = {"ttlMs": 3_600_000, "cacheScope": "public"}
_SHORT: Final = 100
_POLLED: Final = "prompts/list"
_NEGATIVE: Final = "resources/list"
# Long enough for a client that polls to be seen.
_PAUSE: Final = 1.5
_POLLS: Final = 5
# Timers of clients are this even without jitter.
_EVEN: Final = 0.1
_ABSENT: Final = frozenset({"tools/list", "resources/read", "resources/templates/list"})


class _Key(msgspec.Struct, frozen=True):
    """What a result is kept for: a method, and the parameters that the result depends on."""

    method: str
    params: str


def key_of(request: Mapping[str, object]) -> _Key:
    """Return what the result of a request would be kept for."""
    params = {name: each for name, each in params_of(request).items() if name != "_meta"}
    text = msgspec.json.encode(params, order="sorted").decode()
    return _Key(str(request.get("method")), text)


def fetches_of(run: ClientRun) -> Counter[_Key]:
    """Count the requests of a run whose results may be kept, by what they would be kept for."""
    asked = [each for each in run.stateless if each.get("method") in CACHEABLE]
    found = [each for each in asked if each["method"] != "server/discover" and not is_retry(each)]
    return Counter(map(key_of, found))


def needs_again(run: ClientRun, key: _Key) -> bool:
    """Return whether a client fetches something before its first tool call, and again after."""
    keys = [key_of(each) for each in run.stateless]
    calls = [place for place, each in enumerate(keys) if each.method == "tools/call"]
    return bool(calls) and key in keys[: calls[0]] and key in keys[calls[0] :]


@client_scenario(
    f"{_P}positive-is-fresh",
    f"{_P}key",
    era="stateless",
    on=("stdio", "http"),
    # Whether a client keeps anything at all is seen here.
    shows=(_P,),
)
class LetsResultsBeKept(FakeServer):
    """Lets every result be kept for an hour."""

    hints: Mapping[str, object] = _HOUR


@client_scenario(f"{_P}key", era="stateless", on=("stdio", "http"))
class LetsPagesBeKept(PagedLists):
    """Answers lists in pages, and lets every page be kept for an hour."""

    paged = ReturnsListsInPages.paged
    hints: Mapping[str, object] = _HOUR


@client_scenario(
    f"{_P}absent-is-zero",
    f"{_P}negative-is-zero",
    f"{_P}zero-is-stale",
    f"{_P}refetch-when-stale",
    f"{_P}not-a-poll-interval",
    f"{_P}poll-with-jitter",
    era="stateless",
    on=("stdio", "http"),
)
class NamesOddLifetimes(FakeServer):
    """Names no lifetime, a negative one or a short one, and takes its time for a call."""

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.polls: list[float] = []
        self.has_paused = False

    def hints_of(self, method: str) -> Mapping[str, object] | None:
        if method in _ABSENT:
            return None
        lifetimes = {_NEGATIVE: -1_000, _POLLED: _SHORT}
        return {"ttlMs": lifetimes.get(method, 0), "cacheScope": "public"}

    async def result(self, line: RawConnection, method: str, params: JsonObject) -> Result:
        if method == _POLLED:
            self.polls.append(asyncio.get_running_loop().time())
        if method == "tools/call" and not self.has_paused:
            self.has_paused = True
            await asyncio.sleep(_PAUSE)
        return await super().result(line, method, params)


@cross_run_check(f"{_P}no-mrtr-results", f"{_P}notification-invalidates")
def check_caching(runs: Sequence[ClientRun]) -> None:
    """Compare what a client fetches when nothing may be kept with what it fetches otherwise."""
    plain = [
        each
        for each in runs
        if type(each.server) is FakeServer and not each.server.has_handshake and each.went_on
    ]
    if not plain:
        return
    usual = fetches_of(plain[0])
    kept = [each for each in runs if isinstance(each.server, LetsResultsBeKept)]
    caches = any(run.ended_as_usual and _is_less(fetches_of(run), usual) for run in kept)
    for run in runs:
        if not run.ended_as_usual and not isinstance(run.server, NamesOddLifetimes):
            continue
        if isinstance(run.server, LetsResultsBeKept):
            _judge_kept(run, usual, caches=caches)
        elif isinstance(run.server, NamesOddLifetimes):
            _judge_odd(run, plain[0], caches=caches)
        elif isinstance(run.server, AsksInRounds):
            _judge_rounds(run, usual, caches=caches)
        elif isinstance(run.server, TellsListeners):
            _judge_changes(run, plain[0], caches=caches)


@cross_run_check(f"{_P}key")
def check_kept_pages(runs: Sequence[ClientRun]) -> None:
    """Compare the pages that a client fetches when it may keep them with those it fetches else."""
    paged = [
        each.server
        for each in runs
        if isinstance(each.server, ReturnsListsInPages) and not each.server.has_handshake
    ]
    for run in runs:
        if not paged or not isinstance(run.server, LetsPagesBeKept):
            continue
        for method, pages in run.server.fetched.items():
            if len(paged[0].fetched.get(method, ())) > 1:
                why = f"takes the first page of {method} that it kept for the pages after it"
                run.holds(f"{_P}key", len(pages) > 1, why)


def _is_less(found: Counter[_Key], usual: Counter[_Key]) -> bool:
    return any(0 < found[key] < count for key, count in usual.items())


def _judge_kept(run: ClientRun, usual: Counter[_Key], *, caches: bool) -> None:
    if caches:
        run.passes(f"{_P}positive-is-fresh")
    found = fetches_of(run)
    methods = {key.method for key in found}
    missing = [key for key in usual if not found[key] and key.method in methods]
    shown = f"{missing[0].method} {missing[0].params}"[:200] if missing else ""
    why = f"takes what it kept of another request for {shown}, which it fetches otherwise"
    if caches or missing:
        run.holds(f"{_P}key", not missing, why)


def _judge_odd(run: ClientRun, plain: ClientRun, *, caches: bool) -> None:
    server, usual = run.server, fetches_of(plain)
    assert isinstance(server, NamesOddLifetimes)
    _judge_polls(run, server, usual)
    if not run.ended_as_usual:
        return
    found = fetches_of(run)
    for key, count in usual.items():
        name = key.method
        if name in (*_ABSENT, _NEGATIVE) and found[key] > count:
            other = "without" if name in _ABSENT else "with a negative one"
            why = f"fetches {name} {count} times with ttlMs 0, and {found[key]} times {other}"
            run.fail(f"{_P}zero-is-stale", why)
        if not caches or count < 2:
            continue
        run.passes(f"{_P}zero-is-stale")
        why = f"fetches {name} {found[key]} times, and {count} times when it may not keep it"
        if name in _ABSENT:
            run.holds(f"{_P}absent-is-zero", found[key] >= count, why)
        elif name == _NEGATIVE:
            run.holds(f"{_P}negative-is-zero", found[key] >= count, why)
        elif name == _POLLED and needs_again(plain, key):
            run.holds(f"{_P}refetch-when-stale", found[key] > 1, why)


def _judge_polls(run: ClientRun, server: NamesOddLifetimes, usual: Counter[_Key]) -> None:
    asked = sum(count for key, count in usual.items() if key.method == _POLLED)
    polls = len(server.polls)
    if not asked or not server.has_paused:
        return
    why = f"fetches {_POLLED} {polls} times, each time when its ttlMs of {_SHORT} ran out"
    id = f"{_P}not-a-poll-interval"
    if run.holds(id, polls < asked + _POLLS, why):
        run.skip(f"{_P}poll-with-jitter", "the client does not poll")
        return
    pauses = [b - a for a, b in pairwise(server.polls)][-_POLLS:]
    mean = sum(pauses) / len(pauses)
    spread = (max(pauses) - min(pauses)) / mean if mean else 0.0
    why = f"polls {_POLLED} every {mean * 1000:.0f} ms, without jitter or backoff"
    run.holds(f"{_P}poll-with-jitter", spread > _EVEN, why)


def _judge_rounds(run: ClientRun, usual: Counter[_Key], *, caches: bool) -> None:
    found = fetches_of(run)
    # Of a client that can be asked nothing, a resource is read without questions.
    answered = {params_of(each).get("uri") for each in run.stateless if is_retry(each)}
    for key, count in usual.items():
        uri = msgspec.json.decode(key.params).get("uri")
        if key.method == "resources/read" and count > 1 and uri in answered:
            why = f"keeps the result of a resource that it got by answers: {key.params[:200]}"
            if caches or found[key] < count:
                run.holds(f"{_P}no-mrtr-results", found[key] >= count, why)


def _judge_changes(run: ClientRun, plain: ClientRun, *, caches: bool) -> None:
    server = run.server
    assert isinstance(server, TellsListeners)
    found = fetches_of(run)
    for key in fetches_of(plain):
        if key.method in server.changed and caches and needs_again(plain, key):
            why = f"does not fetch {key.method} again after a notification that it changed"
            run.holds(f"{_P}notification-invalidates", found[key] > 1, why)


# -- listening

_ACK: Final = "subscriptions.client-checks-ack"
_AGAIN: Final = "subscriptions.no-state-across-reconnect"
_BY_ID: Final = "stdio.listen.correlate-by-id"
# Time for a client that reacts to a notification, or to the end of a stream.
_REACTING: Final = 0.3
_LISTS: Final[Mapping[str, tuple[str, str]]] = {
    "toolsListChanged": ("notifications/tools/list_changed", "tools/list"),
    "promptsListChanged": ("notifications/prompts/list_changed", "prompts/list"),
    "resourcesListChanged": ("notifications/resources/list_changed", "resources/list"),
}


@client_scenario(
    _ACK,
    _AGAIN,
    _BY_ID,
    era="stateless",
    on=("stdio", "http"),
    shows=("subscriptions.", "caching.client.notification"),
)
class TellsListeners(FakeServer):
    """Acknowledges a part of what a client listens for, tells it, and ends the stream.

    Attributes:
        changed: the methods whose results are out of date, as a notification said.
        reactions: whether the client fetched the list after a notification of another
            subscription, and after one of its own.
    """

    hints: Mapping[str, object] = {"ttlMs": 3_600_000, "cacheScope": "public"}

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.changed: set[str] = set()
        self.reactions: tuple[bool, bool] | None = None
        self.left_out: list[str] = []
        self.ended: JsonObject | None = None
        self.has_told = False

    async def listen(self, line: RawConnection, request: JsonObject) -> None:
        self.listening.append(request)
        part = acknowledged_part(request, self.capabilities)
        if len(self.listening) == 1 and len(part) > 1:
            self.left_out = [[*part][-1]]
            part = {name: each for name, each in part.items() if name not in self.left_out}
        await self.notify(line, request, ACKNOWLEDGED, {"notifications": part})

    async def work_result(self, line: RawConnection, request: JsonObject) -> Result:
        if request.get("method") == "tools/call" and not self.has_told:
            self.has_told = True
            if self.listening:
                await self._tell(line, self.listening[-1])
        return await super().work_result(line, request)

    async def _tell(self, line: RawConnection, listener: JsonObject) -> None:
        wanted = params_of(listener).get("notifications")
        asked = [each for each in _LISTS if isinstance(wanted, dict) and wanted.get(each) is True]
        told = [each for each in asked if each not in self.left_out]
        if told and line.log.transport == "stdio":
            notification, method = _LISTS[told[0]]
            stray = new_notification(notification, tag("of-another-subscription"))
            await line.send(stray)
            foreign = await self._is_fetched(line, method)
            await self.notify(line, listener, notification)
            self.reactions = foreign, await self._is_fetched(line, method)
        for each in told:
            notification, method = _LISTS[each]
            await self.notify(line, listener, notification)
            self.changed.add(method)
        await asyncio.sleep(_REACTING)
        self.ended = listener
        if line.log.transport == "http":
            line.carrier.drop(listener.get("id"))
        else:
            result = {"resultType": "complete", **tag(listener.get("id"))}
            await line.send({"jsonrpc": "2.0", "id": listener.get("id"), "result": result})
        await asyncio.sleep(_REACTING)

    async def _is_fetched(self, line: RawConnection, method: str) -> bool:
        """Return whether the client fetches a list within some time."""
        since = len(line.received)
        await asyncio.sleep(_REACTING)
        return bool(line.messages(method, since))

    async def judge(self, run: ClientRun) -> None:
        if not self.listening:
            run.skip(self.ids, "the client does not listen")
            return
        if self.left_out:
            why = f"fails when the server does not acknowledge {self.left_out}"
            stops = run.stumbles_at(LISTEN)
            if stops or run.ended_as_usual:
                run.holds(_ACK, not stops, why)
        if self.reactions is not None and self.reactions[1]:
            why = "acts on a notification that names a subscription of another client"
            run.holds(_BY_ID, not self.reactions[0], why)
        if self.ended is not None:
            place = self.listening.index(self.ended)
            for each in self.listening[place + 1 :]:
                # An id that answered before may be used again, but the request is a new one.
                is_same = is_same_id(each.get("id"), self.ended.get("id"))
                why = "listens again under the id of the stream that broke"
                run.holds(_AGAIN, not (is_same and run.transport == "http"), why)
            resumed = [each for each in run.requests if "last-event-id" in each.headers]
            if resumed:
                why = "wants to go on with the stream that broke, which no server keeps"
                run.holds(_AGAIN, condition=False, why=why, request=resumed[0])
        run.skip(_AGAIN, "the client does not listen again, and may not need to")
        run.skip(_BY_ID, "the client does not react to notifications by requests")
