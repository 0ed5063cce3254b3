"""Late and missing answers, cancellations of both parties, broken streams, and crashes."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from accord.protocol.mirroring import NAME_MEMBERS
from accord.types import JsonObject
from accord_tools.check.fake_server.client_run import ClientRun, cross_run_check
from accord_tools.check.fake_server.server import (
    LISTEN,
    TASKS,
    FakeServer,
    capabilities_in,
    client_scenario,
    has_extension,
)
from accord_tools.check.probing.messages import (
    is_request,
    is_same_id,
    new_notification,
    new_request,
    params_of,
    progress_token_of,
)
from accord_tools.check.probing.raw_connection import MessageTimeout, RawConnection
from accord_tools.check.scenarios.client.answered_questions import SAMPLING, asks_model

_CANCELLED: Final = "notifications/cancelled"
# An answer that takes this long is not ready when a cancellation arrives.
_SLOW: Final = 0.08
_SURELY_SLOW: Final = 1.0
_AGAIN: Final = 2
_SETTLING: Final = 0.3
_LOOKS: Final = 30
_RATE: Final = 0.05
_FOREVER: Final = 120.0


class LeavesRequestUnanswered(FakeServer):
    """Leaves one request unanswered."""

    stuck: JsonObject | None = None

    def is_stuck(self, request: Mapping[str, object]) -> bool:
        """Return whether this is the request to leave unanswered."""
        return request.get("method") not in ("initialize", "ping", "server/discover")

    async def respond(self, connection: RawConnection, request: JsonObject) -> None:
        if self.stuck is None and self.is_stuck(request):
            self.stuck = request
            await self.stick(connection, request)
        else:
            await super().respond(connection, request)

    async def stick(self, connection: RawConnection, request: JsonObject) -> None:
        """Run instead of answering."""

    def is_cancelled(self, run: ClientRun) -> bool:
        """Return whether the client cancelled the request."""
        id = None if self.stuck is None else self.stuck.get("id")
        return any(params_of(each).get("requestId") == id for each in run.messages(_CANCELLED))

    def is_left(self, connection: RawConnection, request: JsonObject) -> bool:
        """Return whether the client left the stream of the answer."""
        is_http = connection.log.transport == "http"
        return is_http and not connection.carrier.is_waited_for(request.get("id"))

    def patience_text(self) -> str:
        """Return that the client did not give up, as text."""
        if self.stuck is None:
            return "the client sent no request that could be left unanswered"
        return "the client did not give up a request before the time limit of the check"


@client_scenario(
    "timeouts.established",
    "timeouts.cancel-by-notification",
    "http.cancel.explicit",
    shows=("cancellation.", "progress.token."),
)
class NeverAnswers(LeavesRequestUnanswered):
    """Never answers the first request."""

    async def judge(self, run: ClientRun) -> None:
        is_http = run.transport == "http"
        if self.stuck is None or (run.exit_code is None and not self.is_cancelled(run)):
            run.skip(self.ids, self.patience_text())
            return
        run.passes("timeouts.established")
        told = self.is_cancelled(run)
        why = f"gives up {self.stuck.get('method')} without notifications/cancelled"
        if is_http:
            run.holds("http.cancel.explicit", told, why)
        if told or not is_http:
            run.holds("timeouts.cancel-by-notification", told, why)


@client_scenario("timeouts.maximum-despite-progress", era="both")
class ReportsProgressForever(LeavesRequestUnanswered):
    """Reports progress and never answers."""

    streams = True
    has_left = False

    def is_stuck(self, request: Mapping[str, object]) -> bool:
        return super().is_stuck(request) and progress_token_of(request) is not None

    async def stick(self, connection: RawConnection, request: JsonObject) -> None:
        for number in range(int(_FOREVER / _RATE)):
            self.has_left = self.is_left(connection, request)
            if connection.messages(_CANCELLED) or self.has_left:
                return
            params = {"progressToken": progress_token_of(request), "progress": number + 1}
            message = new_notification("notifications/progress", params)
            await self.send(connection, message, beside=request)
            await asyncio.sleep(_RATE)

    async def judge(self, run: ClientRun) -> None:
        id = "timeouts.maximum-despite-progress"
        if self.stuck is None:
            run.skip(id, "the client asks for no progress")
        elif self.is_cancelled(run) or self.has_left or run.exit_code is not None:
            run.passes(id)
        else:
            run.skip(id, self.patience_text())


@client_scenario("cancellation.sender.ignores-late")
class AnswersCancelledRequests(LeavesRequestUnanswered):
    """Answers a request after the client cancelled it."""

    streams = True
    survived: bool | None = None
    _has_answered = False

    async def stick(self, connection: RawConnection, request: JsonObject) -> None:
        await connection.until(
            lambda message: message.get("method") == _CANCELLED, "a cancellation", patience=_FOREVER
        )
        if connection.log.transport == "http":
            # Time for the client to leave the stream of the answer.
            for _ in range(_LOOKS):
                if self.is_left(connection, request):
                    self.survived = True
                    return
                await asyncio.sleep(_SETTLING / _LOOKS)
        result = await self.result(connection, str(request.get("method")), params_of(request))
        self._has_answered = True
        await connection.send({"jsonrpc": "2.0", "id": request.get("id"), "result": result})
        if connection.log.transport == "http" and not self.fake_transport.streaming:
            return  # a disconnected client cannot be pinged
        self.survived = await self.ask(connection, "ping") is not None
        if not self.survived:
            # The late answer caused the silence, not the ping.
            self.unanswered_methods.remove("ping")

    async def judge(self, run: ClientRun) -> None:
        id = "cancellation.sender.ignores-late"
        if run.transport == "http" and self.is_cancelled(run) and not self._has_answered:
            # It may have disconnected earlier; it left the stream of the answer in any case.
            self.survived = True
        if self.survived is None:
            run.skip(id, "the client cancelled nothing, or left at once")
        else:
            run.holds(id, self.survived, "answers no further request after a late answer")


@client_scenario("ping.timeout.may-terminate", "ping.timeout-is-failure")
class NeverAnswersPings(LeavesRequestUnanswered):
    """Never answers a ping."""

    def is_stuck(self, request: Mapping[str, object]) -> bool:
        return request.get("method") == "ping"

    async def judge(self, run: ClientRun) -> None:
        if self.stuck is None:
            run.skip(self.ids, "the client sends no ping")
        elif run.exit_code not in (None, run.usual_exit_code) or self._is_last(run):
            run.passes(*self.ids)
        else:
            run.skip(self.ids, "the client's reaction cannot be observed")

    def _is_last(self, run: ClientRun) -> bool:
        """Return whether the client sent no further request after the ping."""
        if run.connection is None or self.stuck is None or run.exit_code is None:
            return False
        received = run.connection.received
        return not any(map(is_request, received[received.index(self.stuck) + 1 :]))


# -- the server cancels


@client_scenario(
    "cancellation.races", "cancellation.receiver.stops", "cancellation.receiver.frees-and-silent"
)
class CancelsItsRequests(FakeServer):
    """Sends requests and cancels them at once."""

    streams = True
    copes: bool | None = None
    late: str | None = None
    has_waited = False

    async def before_first_answer(self, connection: RawConnection, request: JsonObject) -> None:
        for number in range(5):
            await self._ask_and_cancel(connection, request, f"taken-back-{number}", "ping", None)
        self.copes = await self.ask(connection, "ping", beside=request) is not None
        if not self.copes:
            self.unanswered_methods.remove("ping")
        elif self.declares(connection, "sampling"):
            seconds = await self._time_sampling(connection, request)
            if seconds is not None and seconds >= _SLOW:
                await self._cancel_sampling(connection, request, seconds)

    async def _time_sampling(self, connection: RawConnection, request: JsonObject) -> float | None:
        """Return the shortest time in which the client answers, of several tries."""
        seconds = await asks_model(self, connection, request)
        for _ in range(_AGAIN):
            if seconds is None or not _SLOW <= seconds < _SURELY_SLOW:
                break
            again = await asks_model(self, connection, request)
            seconds = seconds if again is None else min(seconds, again)
        return seconds

    async def _cancel_sampling(
        self, connection: RawConnection, request: JsonObject, seconds: float
    ) -> None:
        id = "taken-back-sampling"
        await self._ask_and_cancel(connection, request, id, "sampling/createMessage", SAMPLING)
        try:
            reply = await connection.reply_to(id, patience=2 * seconds + _SETTLING)
        except MessageTimeout:
            self.has_waited = True
        else:
            self.late = "error" if reply.is_error else "result"

    async def _ask_and_cancel(
        self, connection: RawConnection, request: JsonObject, id: str, method: str, params: object
    ) -> None:
        cancelled = new_notification(_CANCELLED, {"requestId": id, "reason": "a check"})
        await self.send(connection, new_request(method, params, id=id), beside=request)
        await self.send(connection, cancelled, beside=request)

    async def judge(self, run: ClientRun) -> None:
        if self.copes is not None:
            why = "answers no further request after cancelled ones"
            run.holds("cancellation.races", self.copes, why)
        stops, silent = "cancellation.receiver.stops", "cancellation.receiver.frees-and-silent"
        if self.has_waited:
            run.passes(stops, silent)
        elif self.late == "result":
            run.fail(stops, "continues a sampling request that was cancelled at once")
        elif self.late == "error":
            run.passes(stops)
            run.fail(silent, "answers a sampling request that was cancelled at once")
        else:
            why = "the client answers nothing that takes long enough to be cancelled"
            run.skip((stops, silent), why)


@client_scenario(
    "cancellation.invalid-ignored", "cancellation.receiver.may-ignore", is_judged=False
)
class CancelsUnknownRequests(FakeServer):
    """Cancels unknown requests, with malformed notifications."""

    streams = True
    stray: list[object] | None = None

    async def before_first_answer(self, connection: RawConnection, request: JsonObject) -> None:
        done = await self.ask(connection, "ping", beside=request)
        since = len(connection.received)
        senseless: list[object] = [
            {"requestId": "never-asked"},
            {"requestId": None if done is None else done.id},
            {"reason": "a check"},
            {"requestId": {}},
        ]
        for params in senseless:
            await self.send(connection, new_notification(_CANCELLED, params), beside=request)
        reply = await self.ask(connection, "ping", beside=request)
        answers = [each for each in connection.received[since:] if "method" not in each]
        own = None if reply is None else reply.id
        self.stray = [each for each in answers if each.get("id") != own]
        if reply is None:
            self.unanswered_methods.remove("ping")
            self.stray = ["nothing more"]

    async def judge(self, run: ClientRun) -> None:
        if self.stray is None:
            return
        shown = str(self.stray[0])[:200] if self.stray else ""
        why = f"does not ignore a cancellation of an unknown request: {shown}"
        run.holds("cancellation.invalid-ignored", not self.stray, why)
        run.passes("cancellation.receiver.may-ignore")


_EXPIRY: Final = "timeouts.cancel-on-expiry"
_BY_NOTIFICATION: Final = "stdio.cancel.by-notification"
_SENDS: Final = "cancellation.client-sends"
_LATE: Final = "cancellation.sender.ignores-late"

_REISSUES: Final = "http.sse.client-reissues-lost-request"
_COMMENTS: Final = "http.sse.comments-ignored"
_RESTART: Final = "stdio.crash.restart"
_RELISTEN: Final = "stdio.crash.relisten"
_FALLBACK: Final = "extensions.one-sided-fallback"
_PROCESS: Final = "stateless.client.process-not-conversation"
_SHORT: Final = 3
_EARLIER: Final = ("notifications/initialized", "notifications/roots/list_changed")
_FIRST: Final = ("tools/call", "resources/read", "prompts/get")


class _Leaves(LeavesRequestUnanswered):
    """Leaves a request of a client without a handshake unanswered."""

    def is_stuck(self, request: Mapping[str, object]) -> bool:
        return request.get("method") in _FIRST


@client_scenario(
    "timeouts.established",
    _EXPIRY,
    _BY_NOTIFICATION,
    _SENDS,
    _LATE,
    era="stateless",
    on=("stdio", "http"),
    shows=("cancellation.",),
)
class NeverAnswersStateless(_Leaves):
    """Never answers the first call, resource or prompt, unless the client cancels it."""

    messages_before_late: int | None = None

    async def stick(self, connection: RawConnection, request: JsonObject) -> None:
        if connection.log.transport != "stdio":
            return
        id = request.get("id")
        await connection.until(
            lambda message: params_of(message).get("requestId") == id,
            "a cancellation",
            patience=_FOREVER,
        )
        result = {"resultType": "complete", "content": [], "isError": False}
        self.messages_before_late = len(connection.received)
        await connection.send({"jsonrpc": "2.0", "id": id, "result": result})

    async def judge(self, run: ClientRun) -> None:
        told = self.is_cancelled(run)
        post = next((each for each in run.requests if each.message == self.stuck), None)
        has_left = post is not None and post.was_left
        gave_up = run.exit_code is not None or told or has_left
        if self.stuck is None or not gave_up:
            run.skip(self.ids, self.patience_text())
            return
        run.passes("timeouts.established")
        method = self.stuck.get("method")
        if run.transport == "http":
            why = f"gives up {method} by a notification, and does not close its stream"
            if told and not has_left and run.exit_code is None:
                run.fail(_EXPIRY, why)
            else:
                run.passes(_EXPIRY, _SENDS)
            return
        why = f"gives up {method} without notifications/cancelled"
        proof = run.evidence_of(self.stuck)
        goes_on = is_request(run.all_messages[-1]) and run.all_messages[-1] is not self.stuck
        run.holds(_EXPIRY, told, why, evidence=proof)
        if self.messages_before_late is not None:
            later = run.all_messages[self.messages_before_late :]
            if any(map(is_request, later)):
                run.passes(_LATE)
        if told or goes_on:
            run.holds(_BY_NOTIFICATION, told, why, evidence=proof)
            run.holds(_SENDS, told, why, evidence=proof)


@client_scenario(_REISSUES, _COMMENTS, era="stateless", on=("http",))
class BreaksStatelessStreams(_Leaves):
    """Breaks the stream of the first call before its answer, and writes comments into others."""

    streams = True
    comment = b": still there\n\n"

    async def stick(self, connection: RawConnection, request: JsonObject) -> None:
        token = params_of(request).get("_meta", {}).get("progressToken")
        if token is not None:
            told = {"progressToken": token, "progress": 1}
            progress = new_notification("notifications/progress", told)
            await self.send(connection, progress, beside=request)
        await asyncio.sleep(0.05)
        connection.carrier.drop(request.get("id"))

    async def judge(self, run: ClientRun) -> None:
        if run.usual_exit_code == 0 and run.exit_code not in (0, None) and self.stuck is None:
            run.fail(_COMMENTS, "fails when a stream has comments")
        elif self.stuck is not None:
            run.passes(_COMMENTS)
        if self.stuck is None:
            return
        resumed = [each for each in run.requests if "last-event-id" in each.headers]
        why = "resumes the stream of a request, which this revision does not know"
        run.holds(_REISSUES, not resumed, why, request=resumed[0] if resumed else None)
        again = _repeats(run, self.stuck)
        for each in again:
            is_same = is_same_id(each.get("id"), self.stuck.get("id"))
            why = "sends a request whose stream broke again under the same id"
            run.holds(_REISSUES, not is_same, why, evidence=run.evidence_of(each))
        if not again and not resumed:
            run.found.pop(_REISSUES, None)
            run.skip(_REISSUES, "the client does not send the request again, and may not need to")


def _repeats(run: ClientRun, first: JsonObject) -> list[JsonObject]:
    """Return the requests after one that ask for the same."""
    method = first.get("method")
    member = NAME_MEMBERS[str(method)]
    alike = [
        each
        for each in run.stateless
        if each.get("method") == method
        and params_of(each).get(member) == params_of(first).get(member)
    ]
    return alike[alike.index(first) + 1 :] if first in alike else []


@client_scenario(_RESTART, _RELISTEN, era="stateless", on=("stdio",))
class Crashes(_Leaves):
    """Exits when the first call arrives."""

    async def stick(self, connection: RawConnection, request: JsonObject) -> None:
        await connection.carrier.close()

    async def judge(self, run: ClientRun) -> None:
        if self.stuck is None:
            run.skip(self.ids, "the client calls no tool, and gets no prompt or resource")
            return
        first, *later = run.lines
        if not any(is_request(each) for line in later for each in line.received):
            run.skip(self.ids, "the client does not start the server again, and may not need to")
            return
        run.passes(_RESTART)
        if not first.messages(LISTEN):
            run.skip(_RELISTEN, "the client did not listen before the server exited")
        elif run.exit_code is not None:
            listens = any(line.messages(LISTEN) for line in later)
            why = "starts the server again after it exited, and does not listen again"
            if run.holds(_RELISTEN, listens, why):
                # A client may take back every subscription before it ends.
                heard = (_listen_filters(line, with_ended=True) for line in later)
                missing = _listen_filters(first) - set[str]().union(*heard)
                why = f"listens again after the server exited, but no more for {sorted(missing)}"
                run.holds(_RELISTEN, not missing, why)


def _listen_filters(line: RawConnection, *, with_ended: bool = False) -> set[str]:
    """Return what a client listens for, with or without the subscriptions that it took back."""
    taken = [params_of(each).get("requestId") for each in line.messages("notifications/cancelled")]
    asked = [each for each in line.messages(LISTEN) if with_ended or each.get("id") not in taken]
    filters = [params_of(each).get("notifications") for each in asked]
    return {
        name
        for each in filters
        for name, value in (each.items() if isinstance(each, dict) else ())
        if value
    }


@cross_run_check(_FALLBACK, _PROCESS)
def check_conduct(runs: Sequence[ClientRun]) -> None:
    """Judge extensions that only the client has, and how often a client starts its server."""
    for run in runs:
        if not run.server.is_judged or not run.server.fulfilled:
            continue
        declared = any(has_extension(capabilities_in(each), TASKS) for each in run.stateless)
        if declared and not has_extension(run.server.capabilities, TASKS):
            used = [each for each in run.stateless if str(each.get("method")).startswith("tasks/")]
            why = "sends requests of the tasks extension to a server that does not have it"
            run.holds(_FALLBACK, not used, why, evidence=run.evidence_of(*used[:1]))
        if run.server.ids:
            continue
        _judge_notifications(run)
        if run.transport == "stdio":
            short = [line for line in run.lines if _is_short(line)]
            why = f"starts the server {len(run.lines)} times, each time for a request or two"
            run.holds(_PROCESS, len(short) < _SHORT or len(short) < len(run.lines), why)


def _judge_notifications(run: ClientRun) -> None:
    """Judge that a client without a handshake sends no notification but cancellations."""
    told = run.messages("notifications/progress")
    why = "reports progress, which only a server does"
    run.holds("progress.server-only", not told, why, evidence=run.evidence_of(*told[:1]))
    if run.messages("initialize"):
        return
    for method in _EARLIER:
        told = run.messages(method)
        why = f"sends {method}, which this revision does not have"
        run.holds("progress.server-only", not told, why, evidence=run.evidence_of(*told[:1]))


def _is_short(line: RawConnection) -> bool:
    asked = [each for each in line.received if is_request(each)]
    return bool(asked) and sum(each["method"] != "server/discover" for each in asked) <= 2
