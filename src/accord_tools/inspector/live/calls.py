"""The calls of a session: started by a person, followed, cancelled, and shown with their texts."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import count
from statistics import quantiles
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import msgspec

from accord.client.options import CallOptions
from accord.client.tasks import ToolTask
from accord.errors import AccordError
from accord.secrets.masks import Secrets
from accord.types import JsonObject, PromptReference, ResourceTemplateReference
from accord_tools.inspector.actions import action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.forms.errors import find_errors
from accord_tools.inspector.history.call_history import CallHistory
from accord_tools.inspector.history.call_record import CallRecord
from accord_tools.inspector.live.call_state import Call, CallError, CallKind
from accord_tools.inspector.live.capture import CapturedExchange, capture
from accord_tools.inspector.live.live_connection import LiveConnection
from accord_tools.inspector.live.server_catalog import ServerCatalog, reason_to_confirm
from accord_tools.inspector.live.task_list import TaskList
from accord_tools.inspector.live.texts import (
    read_meta,
    read_object,
    read_plain,
    read_texts,
    show_text,
)
from accord_tools.inspector.log.logged_conversation import current_call
from accord_tools.inspector.log.message_log import InspectedLog

if TYPE_CHECKING:
    from accord.client import Client
    from accord_tools.inspector.session import InspectedSession


Perform: TypeAlias = Callable[["Client", Call, CallOptions], Awaitable[Any]]

_KEPT: Final = 100
_OPEN_MOST: Final = 100
TIMES_MOST: Final = 100
_ROWS_SHOWN: Final = 200
# Requests and answers of all calls together; the log has them, too.
_TEXTS_MOST: Final = 64 * 1024 * 1024


class Calls:
    """The calls of a session, a part of it."""

    def __init__(self, session: "InspectedSession") -> None:
        self._session = session
        self._calls: dict[str, Call] = {}
        self._numbers = count(1)
        self._agreed: set[str] = set()
        # The id of the next call, where it was named in advance.
        self._reserved = ""
        self._planned: dict[str, Call] = {}

    # -- starting

    def tool(
        self,
        name: str,
        arguments: str,
        *,
        meta: str = "",
        timeout: float | None = None,
        as_task: bool = False,
    ) -> Call:
        """Call a tool; returns at once.

        Raises:
            ActionRefused: there is no connection, or the arguments are not an object.
        """
        given, how = read_object(arguments, "arguments"), self._options(meta, timeout)

        async def perform(client: "Client", call: Call, how: CallOptions) -> None:
            if not as_task:
                await client.call_tool(name, given, **how)
                return
            task = await client.start_tool(name, given, **how)
            try:
                await task.result()
            except asyncio.CancelledError:
                self._session.spawn(_abandon(task))
                raise

        return self._begin("tool", name, arguments, perform, how)

    def read(self, uri: str) -> Call:
        """Read a resource."""

        async def perform(client: "Client", call: Call, how: CallOptions) -> None:
            await client.read_resource(uri, **how)

        return self._begin("resource", uri, "{}", perform, {})

    def prompt(self, name: str, arguments: str) -> Call:
        """Fill in a prompt.

        Raises:
            ActionRefused: an argument is not text.
        """
        given = read_texts(arguments, "arguments")

        async def perform(client: "Client", call: Call, how: CallOptions) -> None:
            await client.get_prompt(name, given, **how)

        return self._begin("prompt", name, arguments, perform, {})

    def request(self, method: str, params: str) -> Call:
        """Send any request.

        Raises:
            ActionRefused: the params are not an object.
        """
        given: Mapping[str, Any] | None = read_object(params, "params") if params.strip() else None

        async def perform(client: "Client", call: Call, how: CallOptions) -> None:
            await client.request(method, given, **how)

        return self._begin("request", method, params or "{}", perform, {})

    def task_result(self, id: str) -> Call:
        """Fetch the result of a task."""

        async def perform(client: "Client", call: Call, how: CallOptions) -> None:
            task = await client.task(id, **how)
            await task.result()

        name = self._session.part(TaskList).tool_of(id)
        return self._begin("tool", name or id, "{}", perform, {})

    def repeat(self, times: int, start: Callable[[], Call]) -> list[str]:
        """Make the same call several times, one after another.

        Returns:
            the ids that the calls will have.
        """
        first = start()
        ids = [first.id, *(self._next_id() for _ in range(times - 1))]

        for id in ids[1:]:
            self._planned[id] = Call(id, first.kind, first.name, first.arguments)
        series = self._session.spawn(self._go_on(first, ids[1:], start))
        for id in ids[1:]:
            self._planned[id].work = series  # to cancel one is to cancel those after it
        return ids

    async def _go_on(self, call: Call, ids: list[str], start: Callable[[], Call]) -> None:
        try:
            for id in ids:
                if call.work is not None:
                    await asyncio.wait([call.work])
                if call.state in ("cancelled", "lost"):
                    return
                self._planned.pop(id, None)
                self._reserved = id
                call = start()
        except ActionRefused:
            return  # the connection is gone
        finally:
            self._reserved = ""
            for id in ids:
                self._planned.pop(id, None)
            self._session.mark("calls")

    def _next_id(self) -> str:
        return f"c{next(self._numbers)}"

    def _options(self, meta: str, timeout: float | None) -> CallOptions:
        how: CallOptions = {}
        if meta.strip():
            how["meta"] = read_meta(meta)
        if timeout is not None:
            if not timeout > 0:
                raise ActionRefused("a timeout is a number of seconds above 0", field="timeout")
            how["timeout"] = timeout
        return how

    def _begin(
        self, kind: CallKind, name: str, arguments: str, perform: Perform, how: CallOptions
    ) -> Call:
        client = self._session.part(LiveConnection).client
        if sum(each.is_running for each in self._calls.values()) >= _OPEN_MOST:
            raise ActionRefused(f"{_OPEN_MOST} calls are under way; wait, or cancel some")
        id, self._reserved = self._reserved or self._next_id(), ""
        call = Call(id, kind, name, arguments)
        call.revision = client.revision
        how["on_progress"] = lambda params: self._note_progress(call, params)
        self._calls[id] = call
        self._forget_oldest()
        call.work = self._session.spawn(self._run(client, call, perform, how))
        call.work.add_done_callback(lambda _: self._on_done(call))
        self._session.mark("calls")
        return call

    def _on_done(self, call: Call) -> None:
        if call.is_running:  # cancelled before its first step
            call.end("cancelled")
            self._session.mark("calls")

    def _forget_oldest(self) -> None:
        for id in list(self._calls):
            if len(self._calls) <= _KEPT:
                return
            if not self._calls[id].is_running:
                del self._calls[id]

    async def _run(self, client: "Client", call: Call, perform: Perform, how: CallOptions) -> None:
        current_call.set(call.id)
        try:
            with capture(partial(self._take_answer, call)) as call.captured:
                await perform(client, call, how)
            call.end("done")
        except asyncio.CancelledError:
            call.end("cancelled")
        except AccordError as error:
            call.end_with(error)
            if call.tasks and self._session.part(TaskList).is_cancelled(call.tasks[-1]):
                call.state = "cancelled"
        except (TypeError, ValueError) as error:
            call.end("error", CallError(None, str(error), "nothing was sent"))
        finally:
            if call.is_running:
                call.end("error", CallError(None, "the call failed within the inspector"))
            self._session.mark("calls")
            lost = call.error.message if call.state == "lost" and call.error else ""
            self._session.part(LiveConnection).note_outcome(lost)
            self._keep(call)
            self._drop_texts()

    def _drop_texts(self) -> None:
        """Forget the texts of the oldest calls where all together are too large."""
        kept = 0
        for call in reversed(self._calls.values()):
            kept += call.captured.size
            if kept > _TEXTS_MOST and not call.is_running:
                kept -= call.captured.size
                call.captured.exchanges.clear()

    def _take_answer(self, call: Call, exchange: CapturedExchange) -> None:
        id = self._session.part(TaskList).take_answer(exchange, call)
        if id is not None and id not in call.tasks:
            call.tasks.append(id)
        if not call.is_running:
            call.measure()
        self._session.mark("calls")

    def _note_progress(self, call: Call, params: Any) -> None:
        call.note_progress(params)
        self._session.mark("calls")

    def _keep(self, call: Call) -> None:
        state = call.state
        if state == "running":
            return
        response = call.response
        self._session.part(CallHistory).add(
            CallRecord(
                kind=call.kind,
                name=call.name,
                arguments=call.arguments,
                response="" if response is None else response.decode(errors="replace"),
                started=call.at,
                seconds=call.seconds or 0.0,
                outcome=state,
                is_error=call.is_error,
                revision=call.revision,
            )
        )

    # -- while they run

    def confirm(self, name: str, *, is_confirmed: bool) -> str:
        """Return why a person should agree to a call of a tool; asked once for each tool."""
        if name in self._agreed:
            return ""
        try:
            reason = reason_to_confirm(self._session.part(ServerCatalog).find("tools", name).value)
        except ActionRefused:
            reason = "the server has not listed this tool, which may change things"
        if is_confirmed or not reason:
            self._agreed.add(name)
            return ""
        return reason

    def cancel(self, id: str) -> None:
        """Cancel a call.

        Raises:
            ActionRefused: it is over, or unknown.
        """
        call = self.find(id)
        if not call.is_running or call.work is None:
            raise ActionRefused(f"the call is over already: {call.state}")
        call.work.cancel()

    def only_running(self) -> str | None:
        """Return the id of the call under way, if there is exactly one."""
        running = [each.id for each in self._calls.values() if each.is_running]
        return running[0] if len(running) == 1 else None

    def note_rule_answer(self, id: str | None) -> None:
        """Count a question of a call that a standing answer was given to."""
        call = None if id is None else self._calls.get(id)
        if call is not None:
            call.rule_answers += 1
            self._session.mark("calls")

    # -- for the page

    def find(self, id: str) -> Call:
        """Return a call.

        Raises:
            ActionRefused: it is unknown.
        """
        call = self._calls.get(id) or self._planned.get(id)
        if call is None:
            raise ActionRefused(
                f"there is no call {id!r:.40}; the newest {_KEPT} are kept", field="id"
            )
        return call

    def snapshot(self) -> list[JsonObject]:
        """Return all calls, the newest first."""
        return [
            {**each.snapshot(), **self._count_breaches(self._rows(each.id))}
            for each in reversed(self._calls.values())
        ]

    def describe(self, id: str, *, is_revealed: bool = False) -> JsonObject:
        """Return everything about a call.

        Args:
            id: of the call.
            is_revealed: whether secrets are shown, where the options allow that.
        """
        call, rows = self.find(id), self._rows(id)
        reveal = is_revealed and self._session.options.shows_secrets
        main = self._session.part(InspectedLog).main
        masks = Secrets() if main is None else main.masks
        return {
            **call.describe(None if reveal else masks),
            **self._count_breaches(rows),
            "rows": rows,
            "schema_errors": self._check_output(call),
        }

    def _rows(self, id: str) -> list[int]:
        return self._session.part(InspectedLog).rows_of_call(id, _ROWS_SHOWN)

    def _count_breaches(self, rows: list[int]) -> JsonObject:
        log, counts = self._session.part(InspectedLog), {"fail": 0, "warn": 0}
        for number in rows:
            entry = log.get(number)
            for breach in () if entry is None else entry.breaches:
                counts[breach.severity] += 1
        return counts

    def _check_output(self, call: Call) -> list[JsonObject]:
        if call.is_running:
            return []
        if call.schema_errors is None:
            call.schema_errors = self._find_schema_errors(call)
        return call.schema_errors

    def _find_schema_errors(self, call: Call) -> list[JsonObject]:
        """Return where structured content does not fit the output schema of its tool."""
        if call.kind != "tool" or call.state == "error" or call.response is None:
            return []
        try:
            tool = self._session.part(ServerCatalog).find("tools", call.name).value
            result = read_plain(show_text(call.response), "response")
        except ActionRefused:
            return []
        schema = tool.get("outputSchema") if isinstance(tool, dict) else None
        if schema is None or not isinstance(result, dict) or result.get("isError") is True:
            return []
        if "structuredContent" not in result:
            why = "the tool has an output schema, but the result has no structuredContent"
            return [{"pointer": "", "message": why}]
        found = find_errors(schema, result["structuredContent"])
        return [{"pointer": each.pointer, "message": each.message} for each in found]

    def spread(self, ids: list[str]) -> JsonObject:
        """Return how long some calls took."""
        ended = [
            self._calls[id] for id in ids if id in self._calls and not self._calls[id].is_running
        ]
        times = sorted(each.seconds or 0.0 for each in ended)
        running = [id for id in ids if id in self._calls and self._calls[id].is_running]
        pending = len(running) + len(self._planned.keys() & set(ids))
        if not times:
            unknown = dict.fromkeys(("min", "median", "p90", "max"))
            return {"count": 0, **unknown, "errors": 0, "pending": pending}
        tenths = quantiles(times, n=10, method="inclusive") if len(times) > 1 else times * 9
        return {
            "count": len(times),
            "min": times[0],
            "median": tenths[4],
            "p90": tenths[8],
            "max": times[-1],
            "errors": sum(each.state != "done" or each.is_error for each in ended),
            "pending": pending,
        }


async def _abandon(task: ToolTask) -> None:
    try:
        await task.cancel()
    except AccordError:
        return  # it is finished, or the connection is gone


class ToolParams(msgspec.Struct):
    """A call of a tool."""

    name: str
    arguments: str = "{}"
    meta: str | None = None
    timeout: float | None = None
    as_task: bool = False
    confirmed: bool = False
    times: Annotated[int, msgspec.Meta(ge=1, le=TIMES_MOST)] = 1


@action("calls.tool")
async def call_tool(session: "InspectedSession", params: ToolParams) -> object:
    """Call a tool, or ask first whether it may be called."""
    calls = session.part(Calls)
    reason = calls.confirm(params.name, is_confirmed=params.confirmed)
    if reason:
        return {"confirm": reason}

    def start() -> "Call":
        return calls.tool(
            params.name,
            params.arguments,
            meta=params.meta or "",
            timeout=params.timeout,
            as_task=params.as_task,
        )

    if params.times > 1:
        return {"ids": calls.repeat(params.times, start)}
    return {"id": start().id}


@action("calls.read")
async def read_resource(session: "InspectedSession", *, uri: str) -> object:
    """Read a resource."""
    return {"id": session.part(Calls).read(uri).id}


@action("calls.prompt")
async def get_prompt(session: "InspectedSession", *, name: str, arguments: str = "{}") -> object:
    """Fill in a prompt."""
    return {"id": session.part(Calls).prompt(name, arguments).id}


@action("calls.request")
async def send_request(session: "InspectedSession", *, method: str, params: str = "") -> object:
    """Send a request of any method."""
    return {"id": session.part(Calls).request(method, params).id}


@action("calls.list")
async def list_calls(session: "InspectedSession") -> object:
    """Return the newest calls."""
    return {"calls": session.part(Calls).snapshot()}


@action("calls.get")
async def get_call(session: "InspectedSession", *, id: str, reveal: bool = False) -> object:
    """Return everything about a call."""
    return session.part(Calls).describe(id, is_revealed=reveal)


@action("calls.cancel")
async def cancel_call(session: "InspectedSession", *, id: str) -> None:
    """Cancel a call."""
    session.part(Calls).cancel(id)


@action("calls.spread")
async def get_spread(session: "InspectedSession", *, ids: list[str]) -> object:
    """Return how long some calls took."""
    return session.part(Calls).spread(ids)


@action("calls.complete")
async def complete_argument(
    session: "InspectedSession",
    *,
    kind: Literal["prompt", "template"],
    name: str,
    argument: str,
    value: str,
    context: dict[str, str] | None = None,
) -> object:
    """Return suggestions of the server for an argument."""
    client = session.part(LiveConnection).client
    is_prompt = kind == "prompt"
    ref = PromptReference(name) if is_prompt else ResourceTemplateReference(name)
    try:
        found = await client.complete(ref, argument, value, context=context or None)
    except AccordError as error:
        raise ActionRefused(str(error)) from None
    return {"values": found.values, "total": found.total, "has_more": bool(found.has_more)}


@action("tasks.result")
async def fetch_task_result(session: "InspectedSession", *, id: str) -> JsonObject:
    """Fetch the result of a task, shown as a call."""
    return {"id": session.part(Calls).task_result(id).id}
