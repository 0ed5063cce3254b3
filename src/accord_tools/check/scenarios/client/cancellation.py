"""Late and missing answers, and cancellations of both parties."""

import asyncio
from collections.abc import Mapping
from typing import Final

from accord.types import JsonObject
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.server import FakeServer, client_scenario
from accord_tools.check.probing.messages import (
    is_request,
    new_notification,
    new_request,
    params_of,
    progress_token_of,
)
from accord_tools.check.probing.raw_connection import MessageTimeout, RawConnection
from accord_tools.check.scenarios.client.questions import SAMPLING, asks_model

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
