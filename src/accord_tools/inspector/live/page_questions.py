"""Questions of the server, and sign-ins: they wait until a person answers them on the page.

A person may make an answer a standing one, for all questions of the same kind.
"""

import asyncio
import time
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from accord.client.options import Sampled
from accord.errors import FlowFailed
from accord.protocol.questions import find_choice_fault
from accord.types import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    ElicitResult,
    JsonObject,
    TextContent,
)
from accord_tools.inspector.actions import action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.forms.errors import find_errors
from accord_tools.inspector.forms.model import build_form
from accord_tools.inspector.live.texts import encode_text, read_plain
from accord_tools.inspector.log.log_entry import shorten
from accord_tools.inspector.log.logged_conversation import current_call
from accord_tools.inspector.log.message_log import InspectedLog

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession


_RULES_MOST: Final = 100
# The kinds of questions that may be answered without a person; addresses and sign-ins never are.
_KINDS: Final = ("sampling", "elicitation")
_NAMES_SHOWN: Final = 5


class StandingAnswer(msgspec.Struct):
    """An answer for later questions.

    Attributes:
        id: of the rule.
        kind: of the questions.
        schema: the requested schema of the questions, in one way of writing; empty for sampling.
        given: what the person answered.
        summary: says which answer it is.
        uses: how many questions got it.
    """

    id: str
    kind: "QuestionKind"
    schema: bytes
    given: "QuestionAnswer"
    summary: str
    uses: int = 0


class StandingAnswers:
    """The standing answers of a session; they end with it."""

    def __init__(self) -> None:
        self._rules: dict[tuple[str, bytes], StandingAnswer] = {}
        self._numbers = count(1)

    def check(self, kind: "QuestionKind", params: Any) -> None:
        """Find out whether an answer may be kept for later questions.

        Raises:
            ActionRefused: such questions need a person each time, or there are too many answers.
        """
        if kind not in _KINDS:
            raise ActionRefused("a person has to look at each address; answer this one alone")
        is_new = (kind, _schema_of(kind, params)) not in self._rules
        if len(self._rules) >= _RULES_MOST and is_new:
            raise ActionRefused(f"there are {_RULES_MOST} standing answers; end one first")

    def add(self, kind: "QuestionKind", params: Any, given: "QuestionAnswer") -> None:
        """Keep an answer that was checked, in place of an earlier one for the same questions."""
        schema, id = _schema_of(kind, params), f"r{next(self._numbers)}"
        self._rules[kind, schema] = StandingAnswer(
            id, kind, schema, given, _summarize(params, given)
        )

    def find(self, kind: "QuestionKind", params: Any) -> StandingAnswer | None:
        """Return the answer for a question, if there is one."""
        return self._rules.get((kind, _schema_of(kind, params))) if self._rules else None

    def forget(self, id: str) -> None:
        """End an answer.

        Raises:
            ActionRefused: it has ended already.
        """
        key = next((key for key, rule in self._rules.items() if rule.id == id), None)
        if key is None:
            raise ActionRefused("this standing answer has ended already", field="id")
        del self._rules[key]

    def snapshot(self) -> list[JsonObject]:
        """Return all of them, the oldest first."""
        return [
            {"id": each.id, "kind": each.kind, "summary": each.summary, "uses": each.uses}
            for each in self._rules.values()
        ]


def _schema_of(kind: "QuestionKind", params: Any) -> bytes:
    if kind != "elicitation":
        return b""
    return msgspec.json.encode(params.requested_schema or {}, order="deterministic")


def _summarize(params: Any, given: "QuestionAnswer") -> str:
    """Describe an answer by the names of its members: their values may be secrets."""
    if given.action != "accept":
        return given.action
    if given.text is not None:
        return shorten(f"text: {given.text}")
    if given.result is not None:
        return "a whole result"
    names = list(msgspec.json.decode(given.content or "{}"))
    more = ", ..." if len(names) > _NAMES_SHOWN else ""
    asked = f" ({params.message})" if params.message else ""
    return shorten(f"accept with {', '.join(names[:_NAMES_SHOWN]) or 'no member'}{more}{asked}")


QuestionKind: TypeAlias = Literal["sampling", "elicitation", "url", "sign-in"]
AnswerAction: TypeAlias = Literal["accept", "decline", "cancel"]

# Servers may ask much; a person cannot answer more.
_OPEN_MOST: Final = 100
_ERRORS_SHOWN: Final = 5
_MODEL: Final = "a person"


class QuestionAnswer(msgspec.Struct, kw_only=True):
    """What a person answered.

    Attributes:
        id: of the question.
        action: whether the person accepts.
        content: JSON text, for elicitation.
        text: what the model says, for sampling.
        model: its name.
        stop_reason: why it stopped.
        result: JSON text of a whole result of sampling, in place of `text`.
        redirected: the address that the browser ended up at, or the code, after a sign-in.
        always: whether later questions of this kind get the same answer.
    """

    id: str
    action: AnswerAction
    content: str | None = None
    text: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    result: str | None = None
    redirected: str | None = None
    always: bool = False


class _Question:
    """One question while it is open."""

    def __init__(self, id: str, kind: QuestionKind, params: Any, *, url: str = "") -> None:
        self.id = id
        self.kind: QuestionKind = kind
        self.params = params
        self.url = url
        self.at = time.time()
        self.call = current_call.get()
        self._form = None
        if kind == "elicitation":
            self._form = build_form(params.requested_schema or {"type": "object"})
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = loop.create_future()

    def snapshot(self) -> JsonObject:
        params = self.params
        found: JsonObject = {
            "id": self.id,
            "kind": self.kind,
            "at": self.at,
            "expires_at": None,
            "call": self.call,
            "message": getattr(params, "message", ""),
            "params": "{}" if params is None else encode_text(params),
            "form": None,
            "url": self.url,
            "host": (urlsplit(self.url).hostname or "") if self.url else "",
            "model_hint": "",
        }
        if self.kind == "elicitation":
            found["form"] = self._form
        elif self.kind == "sampling":
            found["message"] = params.system_prompt or ""
            hints = params.model_preferences and params.model_preferences.hints
            found["model_hint"] = next((each.name for each in hints or () if each.name), "")
        elif self.kind == "sign-in":
            found["message"] = "sign in at this address; then the connection goes on"
        return found


class AskedQuestions:
    """The questions that wait for a person, a part of a session.

    Attributes:
        rules: the answers that a person gave once for all.
    """

    def __init__(self, session: "InspectedSession") -> None:
        self.rules = StandingAnswers()
        self._session = session
        self._open: dict[str, _Question] = {}
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._open)

    def snapshot(self) -> list[JsonObject]:
        """Return the open questions, the oldest first."""
        return [each.snapshot() for each in self._open.values()]

    def schema_of(self, id: str) -> JsonObject | None:
        """Return the schema of the form of an open question; None if it has none."""
        question = self._open.get(id)
        return getattr(question and question.params, "requested_schema", None)

    # -- asked by the client

    async def sample(self, params: CreateMessageParams) -> Sampled:
        """Have a person answer in place of a model."""
        return await self._ask("sampling", params)  # type: ignore[no-any-return]

    async def fill_in(self, params: ElicitParams) -> ElicitResult:
        """Have a person fill in a form."""
        return await self._ask("elicitation", params)  # type: ignore[no-any-return]

    async def visit(self, params: ElicitParams) -> bool | None:
        """Ask a person to open a page; the client has checked its address."""
        return await self._ask("url", params, url=params.url or "")  # type: ignore[no-any-return]

    async def sign_in(self, url: str) -> str:
        """Show the address of a sign-in; returns the address of the redirect that was pasted.

        The question is withdrawn when the redirect reaches this machine by itself.
        """
        return await self._ask("sign-in", None, url=url)  # type: ignore[no-any-return]

    async def _ask(self, kind: QuestionKind, params: Any, *, url: str = "") -> Any:
        if len(self._open) >= _OPEN_MOST:
            if kind == "sign-in":
                raise FlowFailed("authorization", came=f"{_OPEN_MOST} questions wait already")
            return ElicitResult("cancel") if kind == "elicitation" else None
        question = _Question(f"q{next(self._numbers)}", kind, params, url=url)
        from accord_tools.inspector.live.calls import Calls

        calls = self._session.part(Calls)
        question.call = question.call or calls.only_running()
        if self._answer_by_rule(question):
            calls.note_rule_answer(question.call)
            self._mark()
            return question.answer.result()
        self._open[question.id] = question
        self._mark()
        try:
            return await question.answer
        finally:
            # Also where the call has ended, or the server does not want an answer any more.
            self._open.pop(question.id, None)
            self._mark()

    def _answer_by_rule(self, question: _Question) -> bool:
        """Give the standing answer, if there is one that fits."""
        rule = self.rules.find(question.kind, question.params)
        if rule is None:
            return False
        try:
            if rule.given.action == "accept" and question.kind == "sampling":
                result = _accept_sampling(question.params, rule.given)
                if find_choice_fault(question.params, result) is not None:
                    return False
            _give(question, rule.given)
        except ActionRefused:
            return False  # a person answers this one
        rule.uses += 1
        # The message with the answer is marked in the log.
        self._session.part(InspectedLog).rule_answers.note(rule.id)
        return True

    def forget_rule(self, id: str) -> None:
        """End a standing answer; questions wait for a person again.

        Raises:
            ActionRefused: it has ended already.
        """
        self.rules.forget(id)
        self._mark()

    def _mark(self) -> None:
        self._session.mark("questions")
        self._session.mark("session")

    # -- answered by a person

    def answer(self, given: QuestionAnswer) -> None:
        """Answer a question.

        Raises:
            ActionRefused: it is answered or withdrawn, or the answer does not fit it.
        """
        question = self._open.get(given.id)
        if question is None or question.answer.done():
            raise ActionRefused("this question is answered already, or the server withdrew it")
        if given.always:
            self.rules.check(question.kind, question.params)
        _give(question, given)
        if given.always:
            self.rules.add(question.kind, question.params, given)
            self._mark()


def _give(question: _Question, given: QuestionAnswer) -> None:
    """Hand an answer to what waits for it.

    Raises:
        ActionRefused: it does not fit the question.
    """
    if given.action == "accept":
        question.answer.set_result(_ACCEPT[question.kind](question.params, given))
    elif question.kind == "sign-in":
        came = "a person did not sign in"
        question.answer.set_exception(FlowFailed("authorization", came=came))
    elif question.kind == "elicitation":
        question.answer.set_result(ElicitResult(given.action))
    else:
        question.answer.set_result(False if given.action == "decline" else None)


def _accept_form(params: ElicitParams, given: QuestionAnswer) -> ElicitResult:
    content = read_plain(given.content or "{}", "content")
    if not isinstance(content, dict):
        raise ActionRefused("the content of a form is an object", field="content")
    found = find_errors(params.requested_schema or {}, content)
    if found:
        shown = "; ".join(
            f"{each.pointer or '/'}: {each.message}" for each in found[:_ERRORS_SHOWN]
        )
        raise ActionRefused(f"the answer does not fit the form: {shown}", field="content")
    return ElicitResult("accept", content)


def _accept_sampling(params: CreateMessageParams, given: QuestionAnswer) -> CreateMessageResult:
    if given.result is not None:
        try:
            return msgspec.json.decode(given.result, type=CreateMessageResult)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ActionRefused(
                f"this is not a result of sampling: {error}", field="result"
            ) from None
    if given.text is None:
        raise ActionRefused("write what the model says", field="text")
    return CreateMessageResult(
        "assistant",
        TextContent(given.text),
        given.model or _MODEL,
        stop_reason=given.stop_reason or "endTurn",
    )


def _accept_sign_in(params: object, given: QuestionAnswer) -> str:
    if not given.redirected:
        raise ActionRefused("paste the address that the browser ended up at", field="redirected")
    return given.redirected


_ACCEPT: Final[dict[QuestionKind, Any]] = {
    "elicitation": _accept_form,
    "sampling": _accept_sampling,
    "url": lambda params, given: True,
    "sign-in": _accept_sign_in,
}


# -- actions of the page


@action("questions.list")
async def list_questions(session: "InspectedSession") -> object:
    """Return the questions that wait for a person."""
    return {"questions": session.part(AskedQuestions).snapshot()}


@action("questions.answer")
async def answer_question(session: "InspectedSession", params: QuestionAnswer) -> object:
    """Answer a question."""
    session.part(AskedQuestions).answer(params)
    return {}


@action("questions.rules")
async def list_rules(session: "InspectedSession") -> object:
    """Return the standing answers."""
    return {"rules": session.part(AskedQuestions).rules.snapshot()}


@action("questions.forget_rule")
async def forget_rule(session: "InspectedSession", *, id: str) -> None:
    """End a standing answer."""
    session.part(AskedQuestions).forget_rule(id)
