"""Answers that a person gave once for all: later questions of the same kind get them at once."""

from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.types import JsonObject
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.log.sketch import shorten

if TYPE_CHECKING:
    from accord_tools.inspector.live.questions import QuestionAnswer, QuestionKind

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
