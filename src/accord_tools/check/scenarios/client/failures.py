"""Answers that never come, streams that break and servers that crash, without a handshake."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from accord.protocol.mirroring import NAME_MEMBERS
from accord.types import JsonObject
from accord_tools.check.fake_server.client_run import ClientRun, cross_run_check
from accord_tools.check.fake_server.server import (
    LISTEN,
    TASKS,
    capabilities_in,
    client_scenario,
    has_extension,
)
from accord_tools.check.probing.messages import is_request, is_same_id, new_notification, params_of
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.scenarios.client.cancellation import LeavesRequestUnanswered

_EXPIRY: Final = "timeouts.cancel-on-expiry"
_BY_NOTIFICATION: Final = "stdio.cancel.by-notification"
_SENDS: Final = "cancellation.client-sends"
_LATE: Final = "cancellation.sender.ignores-late"
_FOREVER: Final = 120.0
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
                listened = (_listen_filters(line, with_ended=True) for line in later)
                missing = _listen_filters(first) - set[str]().union(*listened)
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
