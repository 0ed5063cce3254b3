"""Questions of the server that nobody answers in time: what it does, and what of late answers."""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.check.probing.client_answers import answer_to
from accord.check.probing.raw_connection import ConnectionEnded, MessageTimeout
from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._asking import harmless, replies
from accord.check.scenarios.server._calling import asking_tools

if TYPE_CHECKING:
    from accord.check.probing.probe import Probe
    from accord.check.probing.raw_connection import RawConnection

__all__: list[str] = []

_CANCELLED: Final = "notifications/cancelled"
_ESTABLISHED: Final = "timeouts.established"
_TOLD: Final = "timeouts.cancel-by-notification"
_MAXIMUM: Final = "timeouts.maximum-despite-progress"
_LATE: Final = "cancellation.sender.ignores-late"
_ALL: Final = (_ESTABLISHED, _TOLD, _MAXIMUM, _LATE)
# So many tools show how a server waits.
_TOOLS: Final = 4
# How often the time to settle is waited for: long enough for who is impatient, no more.
_WAITS: Final = 4


class _Question(msgspec.Struct):
    """A question that stays unanswered for a while.

    Attributes:
        call: the id of the call during which it was asked.
        message: the question.
        waits: how many times the settling time passed without an answer of that call.
    """

    call: Any
    message: dict[str, Any]
    waits: int = 0

    @property
    def token(self) -> Any:
        """The token under which the server wants to hear of progress."""
        params = self.message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        return meta.get("progressToken") if isinstance(meta, dict) else None

    def is_given_up(self, line: "RawConnection") -> bool:
        """Tell whether the server said that it needs no answer any more."""
        return any(
            each.get("method") == _CANCELLED
            and isinstance(params := each.get("params"), dict)
            and params.get("requestId") == self.message.get("id")
            for each in line.received
        )

    def is_over(self, line: "RawConnection") -> bool:
        """Tell whether the call was answered all the same."""
        return any(each.message.get("id") == self.call for each in replies(line.received))


@scenario(*_ALL)
async def leaves_questions_unanswered(probe: "Probe") -> None:
    asking = (await asking_tools(probe))[:_TOOLS]
    if not asking:
        for id in _ALL:
            probe.skip(id, "no tool that may be called asks something")
        return
    async with probe.open() as line:
        # What a server asks at the beginning belongs to no call, and is answered.
        await line.collect(probe.subject.settling)
        line.respond = _silent
        questions: list[_Question] = []
        for tool, arguments in asking:
            try:
                found = await _asked(line, str(tool["name"]), arguments)
            except MessageTimeout:
                # It may let all calls wait for the answer that it does not get.
                break
            if found is not None:
                questions.append(found)
        await _wait(probe, line, questions)
        for question in questions:
            _judge_waiting(probe, line, question)
        for question in questions:
            if not question.is_over(line):
                await line.notify(_CANCELLED, {"requestId": question.call, "reason": "a check"})
        await line.collect(probe.subject.settling)
        await _answer_late(probe, line, [each for each in questions if each.is_given_up(line)])
    probe.skip(_ESTABLISHED, "the server waits longer for answers than a check does")
    probe.skip(_TOLD, "the server waits longer for answers than a check does")
    probe.skip(_MAXIMUM, "the server wants to hear of no progress, or waits longer than a check")


async def _silent(line: "RawConnection", question: dict[str, Any]) -> None:
    if question.get("method") == "ping":
        await line.say(answer_to(question, line.client_capabilities))


async def _asked(line: "RawConnection", tool: str, arguments: dict[str, Any]) -> _Question | None:
    """Call a tool and return what it asks; None where it asks nothing this time.

    Raises:
        Silence: it neither asks nor is done.
    """
    since = len(line.received)
    call = await line.start("tools/call", {"name": tool, "arguments": arguments})

    def is_next(message: dict[str, Any]) -> bool:
        if "method" in message:
            return "id" in message and message["method"] != "ping"
        return bool(message.get("id") == call)

    message = await line.until(is_next, f"a question of {tool}", since=since)
    if "method" not in message:
        return None
    return _Question(call, message)


async def _wait(probe: "Probe", line: "RawConnection", questions: list[_Question]) -> None:
    """Let the time pass in which an impatient server gives up; tell it of progress if it wants."""
    for step in range(_WAITS):
        for question in questions:
            if question.token is not None:
                params = {"progressToken": question.token, "progress": step + 1}
                await line.notify("notifications/progress", params)
        await line.collect(probe.subject.settling)
        for question in questions:
            question.waits += not question.is_over(line)


def _judge_waiting(probe: "Probe", line: "RawConnection", question: _Question) -> None:
    is_told = question.is_given_up(line)
    # A call that is answered at once never waited for the client; one that is not may still wait.
    if not is_told and not (question.waits and question.is_over(line)):
        return
    probe.holds(_ESTABLISHED, condition=True, why="")
    if question.token is not None:
        probe.holds(_MAXIMUM, condition=True, why="")
    method = question.message.get("method")
    probe.holds(_TOLD, is_told, f"gives up {method} after a while and does not cancel it")


async def _answer_late(probe: "Probe", line: "RawConnection", questions: list[_Question]) -> None:
    """Answer what the server gave up: nothing may come of it."""
    if not questions:
        probe.skip(_LATE, "the server cancels nothing that it asked")
        return
    try:
        for question in questions:
            await line.say(answer_to(question.message, line.client_capabilities))
        await line.ask(harmless(probe.facts))
    except (ConnectionEnded, MessageTimeout) as error:
        probe.fail(_LATE, f"falls over an answer to what it had cancelled: {error}")
        line.end("the server answers nothing more")
    else:
        probe.holds(_LATE, condition=True, why="")
