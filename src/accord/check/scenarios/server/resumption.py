"""Streams that break off and are taken up again: what is replayed, and what goes on meanwhile."""

from typing import TYPE_CHECKING, Any, Final

from accord.bindings.sse import CONTENT_TYPE
from accord.check.probing.exchange import Heard, exchanging, posted
from accord.check.probing.raw_connection import RawConnection, next_id
from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._posting import calls, conversing

if TYPE_CHECKING:
    from accord.check.probing.probe import Probe

__all__: list[str] = []

_REPLAY: Final = "http.sse.no-foreign-replay"
_NAMES: Final = "http.sse.event-id-names-stream"
_CANCEL: Final = "http.disconnect.not-cancel"
_PRIMING: Final = "http.sse.priming-event"
_IDS: Final = (_REPLAY, _NAMES, _CANCEL, _PRIMING)
# What was left a moment ago may still count as connected.
_BUSY: Final = 409
_TRIES: Final = 3


@scenario(*_IDS, on=("http",))
async def takes_up_streams_again(probe: "Probe") -> None:
    async with conversing(probe) as line:
        call, first = await _streaming(probe, line)
        if call is None or first is None:
            return
        probe.holds(
            _PRIMING, first.is_primed, "begins a stream without an id that comes before all data"
        )
        again = _again(call)
        await posted(line, again)
        resumed = await _resumed(line, first.ids[0], call["id"], probe.subject.settling)
        if not resumed.is_stream:
            for id in (_REPLAY, _NAMES, _CANCEL):
                probe.not_applicable(id, f"the server replays nothing: {resumed}")
            return
        # Where the only event is the last one, all that follows is of other streams.
        stray = _of(resumed, again)
        probe.holds(_REPLAY, not stray, f"replays messages of another stream: {stray[:1]}")
        if not resumed.answers_to(call["id"]):
            for id in (_NAMES, _CANCEL):
                probe.not_applicable(id, "the server replays nothing")
            return
        probe.holds(_NAMES, condition=True, why="")
        await _judge_strangers(probe, call, first)
        await _judge_disconnect(probe, line)


async def _streaming(
    probe: "Probe", line: RawConnection
) -> tuple[dict[str, Any] | None, Heard | None]:
    """Find a call that is answered with a stream whose events have ids, several if there is one."""
    has_streamed = False
    single: tuple[dict[str, Any], Heard] | None = None
    for call in calls(probe):
        heard = await posted(line, call)
        has_streamed = has_streamed or heard.is_stream
        if heard.is_stream and len(heard.ids) > 1:
            return call, heard
        if heard.is_stream and heard.ids:
            single = single or (call, heard)
    if single is not None:
        return single
    for id in _IDS:
        if has_streamed:
            probe.not_applicable(id, "the server gives its events no ids")
        else:
            probe.skip(id, "no tool that may be called is answered with a stream")
    return None, None


def _again(call: dict[str, Any]) -> dict[str, Any]:
    """Return the same call under another id and another token."""
    token = f"accord-check-{next_id()}"
    params = call["params"] | {"_meta": {"progressToken": token}}
    return call | {"id": next_id(), "params": params}


async def _resumed(line: RawConnection, last: str, id: Any, patience: float) -> Heard:
    """Take up a stream after an event and read until the answer, or for so long."""
    for _ in range(_TRIES):
        async with exchanging(line, method="GET", accept=CONTENT_TYPE, last_event_id=last) as heard:
            if heard.status == _BUSY:
                await heard.rest(patience)
                continue
            if heard.is_stream:
                await heard.until(lambda heard: bool(heard.answers_to(id)), patience)
                await heard.rest(min(patience, 0.1))
            return heard
    return heard


def _of(heard: Heard, call: dict[str, Any]) -> list[Any]:
    """Return what a stream carries that belongs to a call."""
    token = call["params"]["_meta"]["progressToken"]
    progress = [
        each
        for each in heard.messages
        if isinstance(each, dict)
        and isinstance(each.get("params"), dict)
        and each["params"].get("progressToken") == token
    ]
    return heard.answers_to(call["id"]) + progress


async def _judge_strangers(probe: "Probe", call: dict[str, Any], first: Heard) -> None:
    async with conversing(probe) as line:
        if line.carrier.session is None:
            return
        heard = await _resumed(line, first.ids[0], call["id"], probe.subject.settling)
        stray = _of(heard, call)
        probe.holds(_REPLAY, not stray, f"replays messages of another session: {stray[:1]}")


async def _judge_disconnect(probe: "Probe", line: RawConnection) -> None:
    for call in calls(probe):
        async with exchanging(line, call) as heard:
            if not heard.is_stream:
                continue
            await heard.until(lambda heard: bool(heard.ids), line.patience)
            if not heard.ids or heard.answers_to(call["id"]):
                continue
        resumed = await _resumed(line, heard.ids[-1], call["id"], line.patience)
        probe.holds(
            _CANCEL,
            resumed.answers_to(call["id"]),
            f"never answers {call['params']['name']} once its client disconnected",
        )
        return
    probe.skip(_CANCEL, "no call takes long enough to disconnect during it")
