"""Late and missing answers, and cancellations of both parties."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from accord.check.fake_server.client_run import ClientRun
from accord.check.fake_server.server import FakeServer, client_scenario
from accord.check.probing.raw_connection import MessageTimeout, RawConnection
from accord.check.scenarios.client.questions import SAMPLING, asks_model
from accord.types import JsonObject, RevisionId

_CANCELLED: Final = "notifications/cancelled"
# An answer that takes this long is not ready when a cancellation arrives.
_SLOW: Final = 0.08
_SURELY_SLOW: Final = 1.0
_AGAIN: Final = 2
_SETTLING: Final = 0.3
_LOOKS: Final = 30
_RATE: Final = 0.05
_FOREVER: Final = 120.0


class _LeavesRequestUnanswered(FakeServer):
    """Leaves one request unanswered."""

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.stuck: JsonObject | None = None

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
        named = [each.get("params") for each in run.messages(_CANCELLED)]
        return any(isinstance(each, dict) and each.get("requestId") == id for each in named)

    def patient(self, run: ClientRun) -> str:
        """Record that the client did not give up."""
        if self.stuck is None:
            return "the client sent no request that could be left unanswered"
        return "the client did not give up a request before the time limit of the check"


@client_scenario("timeouts.established", "timeouts.cancel-by-notification", "http.cancel.explicit")
class NeverAnswers(_LeavesRequestUnanswered):
    """Never answers the first request."""

    async def judge(self, run: ClientRun) -> None:
        is_http = run.transport == "http"
        if self.stuck is None or (run.exit_code is None and not self.is_cancelled(run)):
            for id in self.ids:
                run.skip(id, self.patient(run))
            return
        run.passes("timeouts.established")
        told = self.is_cancelled(run)
        why = f"gives up {self.stuck.get('method')} without notifications/cancelled"
        if is_http:
            run.holds("http.cancel.explicit", told, why)
        if told or not is_http:
            run.holds("timeouts.cancel-by-notification", told, why)


@client_scenario("timeouts.maximum-despite-progress")
class ReportsProgressForever(_LeavesRequestUnanswered):
    """Reports progress and never answers."""

    streams = True

    def is_stuck(self, request: Mapping[str, object]) -> bool:
        return super().is_stuck(request) and _token(request) is not None

    async def stick(self, connection: RawConnection, request: JsonObject) -> None:
        for number in range(int(_FOREVER / _RATE)):
            if any(each.get("method") == _CANCELLED for each in connection.received):
                return
            params = {"progressToken": _token(request), "progress": number + 1}
            message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            await self.send(connection, message, beside=request)
            await asyncio.sleep(_RATE)

    async def judge(self, run: ClientRun) -> None:
        id = "timeouts.maximum-despite-progress"
        if self.stuck is None:
            run.skip(id, "the client asks for no progress")
        elif self.is_cancelled(run) or run.exit_code is not None:
            run.passes(id)
        else:
            run.skip(id, self.patient(run))


def _token(request: Mapping[str, object]) -> Any:
    params = request.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get("progressToken") if isinstance(meta, dict) else None


@client_scenario("cancellation.sender.ignores-late")
class AnswersCancelledRequests(_LeavesRequestUnanswered):
    """Answers a request after the client cancelled it."""

    streams = True

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.survived: bool | None = None
        self._has_answered = False

    async def stick(self, connection: RawConnection, request: JsonObject) -> None:
        await connection.until(
            lambda message: message.get("method") == _CANCELLED, "a cancellation", patience=_FOREVER
        )
        if connection.log.transport == "http":
            # Time for the client to leave the stream of the answer.
            for _ in range(_LOOKS):
                if not connection.carrier.is_waited_for(request.get("id")):
                    self.survived = True
                    return
                await asyncio.sleep(_SETTLING / _LOOKS)
        method, params = str(request.get("method")), request.get("params")
        result = await self.result(connection, method, params if isinstance(params, dict) else {})
        answer = {"jsonrpc": "2.0", "id": request.get("id"), "result": result}
        self._has_answered = True
        await connection.send(answer)
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
class NeverAnswersPings(_LeavesRequestUnanswered):
    """Never answers a ping."""

    def is_stuck(self, request: Mapping[str, object]) -> bool:
        return request.get("method") == "ping"

    async def judge(self, run: ClientRun) -> None:
        for id in self.ids:
            if self.stuck is None:
                run.skip(id, "the client sends no ping")
            elif run.exit_code not in (None, run.usual_exit_code) or self._is_last(run):
                run.passes(id)
            else:
                run.skip(id, "the client's reaction cannot be observed")

    def _is_last(self, run: ClientRun) -> bool:
        """Return whether the client sent no further request after the ping."""
        if run.connection is None or self.stuck is None or run.exit_code is None:
            return False
        place = run.connection.received.index(self.stuck)
        return not any(
            "method" in each and "id" in each for each in run.connection.received[place + 1 :]
        )


# -- the server cancels


@client_scenario(
    "cancellation.races", "cancellation.receiver.stops", "cancellation.receiver.frees-and-silent"
)
class CancelsItsRequests(FakeServer):
    """Sends requests and cancels them at once."""

    streams = True

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.copes: bool | None = None
        self.late: str | None = None
        self.has_waited = False

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
        message: JsonObject = {"jsonrpc": "2.0", "id": id, "method": method}
        if params is not None:
            message["params"] = params
        told = {"requestId": id, "reason": "a check"}
        cancelled = {"jsonrpc": "2.0", "method": _CANCELLED, "params": told}
        await self.send(connection, message, beside=request)
        await self.send(connection, cancelled, beside=request)

    async def judge(self, run: ClientRun) -> None:
        if self.copes is not None:
            run.holds(
                "cancellation.races", self.copes, "answers no further request after cancelled ones"
            )
        stops, silent = "cancellation.receiver.stops", "cancellation.receiver.frees-and-silent"
        if self.has_waited:
            run.passes(stops, silent)
        elif self.late == "result":
            run.fail(stops, "continues a sampling request that was cancelled at once")
        elif self.late == "error":
            run.passes(stops)
            run.fail(silent, "answers a sampling request that was cancelled at once")
        else:
            for id in (stops, silent):
                run.skip(id, "the client answers nothing that takes long enough to be cancelled")


@client_scenario(
    "cancellation.invalid-ignored", "cancellation.receiver.may-ignore", is_judged=False
)
class CancelsUnknownRequests(FakeServer):
    """Cancels unknown requests, with malformed notifications."""

    streams = True

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.stray: list[object] | None = None

    async def before_first_answer(self, connection: RawConnection, request: JsonObject) -> None:
        done = await self.ask(connection, "ping", beside=request)
        since = len(connection.received)
        senseless: list[object] = [
            {"requestId": "never-asked"},
            {"requestId": None if done is None else done.message.get("id")},
            {"reason": "a check"},
            {"requestId": {}},
        ]
        for params in senseless:
            message = {"jsonrpc": "2.0", "method": _CANCELLED, "params": params}
            await self.send(connection, message, beside=request)
        reply = await self.ask(connection, "ping", beside=request)
        answers = [each for each in connection.received[since:] if "method" not in each]
        own = None if reply is None else reply.message.get("id")
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
