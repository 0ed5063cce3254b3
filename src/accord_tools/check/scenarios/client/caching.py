"""What a client keeps, and how it listens for changes.

The same program is run with several lifetimes of results, and compared.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from accord.types import JsonObject, RevisionId
from accord_tools.check.fake_server.client_run import ClientRun, cross_run_check
from accord_tools.check.fake_server.server import (
    ACKNOWLEDGED,
    CACHEABLE,
    LISTEN,
    FakeServer,
    Result,
    acknowledged_part,
    client_scenario,
    tag,
)
from accord_tools.check.probing.messages import is_same_id, new_notification, params_of
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.scenarios.client.answered_rounds import AsksInRounds, is_retry
from accord_tools.check.scenarios.client.answers import PagedLists, ReturnsListsInPages

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
