"""Checks a client against every requirement that binds it: many runs against different servers."""

import asyncio
import logging
import os
import shlex
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import cache
from time import monotonic
from typing import Final, TypeAlias

import msgspec

from accord.errors import ConnectFailed
from accord.protocol.catalogue import Requirement, catalogue
from accord.protocol.revisions import BEFORE_HANDSHAKE, REVISIONS, in_order
from accord.protocol.verdict import Verdict, VerdictName, out_of_scope
from accord.stdio.child import Child
from accord.trace import Transport
from accord.types import JsonObject, RevisionId
from accord_tools.check.fake_server.client_run import (
    COMPARED,
    CROSS_RUN_CHECKS,
    PASSIVELY_CHECKED,
    ClientRun,
    run_passive_checks,
)
from accord_tools.check.fake_server.protected import PREREGISTERED
from accord_tools.check.fake_server.server import STATELESS, FakeServer
from accord_tools.check.fake_server.transports import FakeHttpTransport, FakeStdioTransport
from accord_tools.check.probing.messages import is_request
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout
from accord_tools.check.verdicts import (
    NO_OCCASION,
    chosen_requirements,
    explain_untried,
    is_chosen,
    make_verdict,
    worst,
)
from accord_tools.reports.report import Report, Setting, merge_revisions

log = logging.getLogger("accord_tools.check")

_LEAVING: Final = 3.0
_ALL: Final = frozenset({"handshake", "stateless"})
_ELSEWHERE: Final[Mapping[str, tuple[Transport, ...]]] = {
    "lifecycle.shutdown.http-close": ("http", "sse"),
    "lifecycle.shutdown.stdio-close-stdin": ("stdio",),
    # Elsewhere a connection is a session.
    "pagination.no-cross-session-cursors": ("http",),
    "discover.stdio-probe": ("stdio",),
    "versioning.modern-client.stdio-discover-first": ("stdio",),
    "stateless.client.process-not-conversation": ("stdio",),
    "tools.x-mcp-header.client-drops-invalid-tool": ("http",),
}
_LOOK: Final = 0.02
_LOOKS: Final = 100
# A client may take this many times the timeout to connect: starting many programs is slow.
_STARTING: Final = 4

OnRun: TypeAlias = Callable[[str, int, int], None]
"""Called before each run with what the server does in it, the number done, and the total."""


class ServerAddress(msgspec.Struct, frozen=True):
    """Where the server is: a URL, or a command to launch; the other one is empty."""

    url: str
    command: list[str]


class ClientPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which requirements to check, and how to run the client.

    Attributes:
        command: runs the client; `{url}` and `{server}` stand for where the server is, and
            `{client_id}` for an id that its authorization servers know.
        transport: which HTTP form `{url}` speaks; `{server}` is always stdio.
        revisions: the revisions to agree on; empty tries all of them.
        only: ids of requirements, or their beginnings; empty checks all.
        timeout: seconds for one run of the client, once it has connected.
        env: variables for the client, beside those of this process.
        patience: seconds to wait for an answer of the client.
        at_once: how many runs go on at the same time.
        scenarios: names of the classes of scenarios to run; empty runs all.
        client: a client in this process, in place of a command: called with the address of
            the server, it returns its exit code.
    """

    command: Sequence[str]
    transport: Transport = "http"
    revisions: Sequence[RevisionId] = ()
    only: Collection[str] = ()
    timeout: float = 30.0
    patience: float = 5.0
    env: Mapping[str, str] = {}
    at_once: int = 3
    scenarios: Collection[str] = ()
    client: Callable[[ServerAddress], Awaitable[int]] | None = None

    @property
    def played_over(self) -> Transport:
        """The transport between the client and the servers."""
        if any("{server}" in word for word in self.command):
            return "stdio"
        return self.transport


async def check_client(plan: ClientPlan, *, step: OnRun | None = None) -> Report:
    """Run a client against one server after another, and report on all runs.

    Raises:
        ConnectFailed: the client cannot be launched, or never connects.
    """
    began = monotonic()
    good, slots = _good_servers(plan), asyncio.Semaphore(plan.at_once)
    total = len(good) + len(_faulty_servers(plan, _ALL))
    runs: list[ClientRun] = []

    async def run_client(server: FakeServer, usual_exit: int | None = None) -> None:
        async with slots:
            if step is not None:
                step(server.name, len(runs), total)
            runs.append(await _run_against(plan, server, usual_exit))

    # The first run is alone: a client that cannot be launched is launched only once.
    await run_client(good[0])
    if not runs[0].lines and not runs[0].requests:
        raise ConnectFailed(_never_connected(runs[0]))
    async with asyncio.TaskGroup() as group:
        for server in good[1:]:
            group.create_task(run_client(server))
    usual = {run.server.revision: run.exit_code for run in runs if not run.server.is_dual}
    faulty = _faulty_servers(plan, _spoken_eras(runs))
    total = len(good) + len(faulty)
    async with asyncio.TaskGroup() as group:
        for server in faulty:
            usual_exit = usual.get(server.revision, runs[0].exit_code)
            group.create_task(run_client(server, usual_exit))
    for conclude in CROSS_RUN_CHECKS:
        conclude(runs)
    spoken = _spoken_revisions(plan, runs)
    found = {revision: _verdicts(plan, revision, runs) for revision in spoken}
    setting = Setting(transport=plan.played_over, seconds=round(monotonic() - began, 3))
    return merge_revisions(found, target=shlex.join(plan.command), party="client", setting=setting)


def _never_connected(run: ClientRun) -> str:
    stderr = " | ".join(list(run.stderr)[-3:])
    ended = "it had to be stopped" if run.exit_code is None else f"exit code {run.exit_code}"
    return f"the client never connected; {ended}{stderr and f': {stderr}'}"[:1000]


def _spoken_revisions(plan: ClientPlan, runs: Sequence[ClientRun]) -> list[RevisionId]:
    """Return the revisions under which the client went on, or the one it asked for."""
    spoken = {
        each.revision
        for each in runs
        if each.went_on and (not plan.revisions or each.revision in plan.revisions)
    }
    return in_order(spoken or {runs[0].revision})[::-1]


def _spoken_eras(runs: Sequence[ClientRun]) -> frozenset[str]:
    """Return with which kinds of revisions the client began, whether it went on or not."""
    begun = {"handshake" for run in runs if run.messages("initialize") or run.is_initialized}
    begun |= {"stateless" for run in runs if run.stateless}
    return frozenset(begun) or _ALL


def _good_servers(plan: ClientPlan) -> list[FakeServer]:
    """Return the correct servers: of each revision, of any one, and of both eras at once."""
    over = plan.played_over
    spoken = plan.revisions or [
        row.id
        for row in REVISIONS.values()
        if (over != "http" or row.streamable_http) and (over != "sse" or row.handshake)
    ]
    own = [FakeServer(revision) for revision in in_order({*spoken})[::-1]]
    if plan.revisions:
        return own
    both = FakeServer(None)
    both.is_dual = True
    return [FakeServer(None), *own, *([] if over == "sse" else [both])]


def _faulty_servers(plan: ClientPlan, eras: Collection[str]) -> list[FakeServer]:
    """Return the servers of all scenarios that a client of these eras can be held to."""
    from accord_tools.check.scenarios.client import CLIENT_SCENARIOS

    found = []
    for kind in CLIENT_SCENARIOS:
        is_met = not kind.needs_both or {*eras} >= _ALL
        if plan.played_over in kind.on and is_met and _is_wanted(plan, kind):
            found += _servers_of_kind(plan, kind, eras)
    return found


def _servers_of_kind(
    plan: ClientPlan, kind: type[FakeServer], eras: Collection[str]
) -> list[FakeServer]:
    fitting = ("handshake", "stateless") if kind.era == "both" else (kind.era,)
    under: Sequence[RevisionId | None] = kind.revisions or plan.revisions
    if not under:
        under = [None if era == "handshake" else STATELESS.id for era in fitting]
    found = []
    for revision in under:
        era = "handshake" if revision is None or REVISIONS[revision].handshake else "stateless"
        is_chosen_revision = revision is None or not plan.revisions or revision in plan.revisions
        if era in fitting and era in eras and is_chosen_revision:
            found.append(kind(revision))
    return found


def _is_wanted(plan: ClientPlan, kind: type[FakeServer]) -> bool:
    """Return whether a scenario was chosen, and can see a requirement that was chosen."""
    if plan.scenarios:
        return kind.__name__ in plan.scenarios
    if not plan.only or any(is_chosen(id, plan.only) for id in kind.ids):
        return True
    chosen = [id for id in catalogue() if is_chosen(id, plan.only)]
    return any(id.startswith(kind.shows) for id in chosen) if kind.shows else False


# -- one run


async def _run_against(plan: ClientPlan, server: FakeServer, usual_exit: int | None) -> ClientRun:
    over = plan.played_over
    transport = (
        FakeStdioTransport(server, patience=plan.patience)
        if over == "stdio"
        else FakeHttpTransport(server, is_older=over == "sse", patience=plan.patience)
    )
    run = ClientRun(server, over, server.revision or BEFORE_HANDSHAKE.id)
    run.usual_exit_code = usual_exit
    run.has_client_id = any("{client_id}" in word for word in plan.command)
    server.fake_transport = transport
    async with transport:
        await _run(plan, ServerAddress(transport.url, transport.command), run)
        _settle_revision(plan, run)
        try:
            if server.is_judged:
                run_passive_checks(run)
            await server.judge(run)
        except (ConnectionEnded, MessageTimeout) as error:
            run.skip(server.ids, str(error))
        except Exception as error:
            log.exception("the scenario %r failed", server.name)
            run.skip(server.ids, f"the check itself failed: {type(error).__name__}: {error}")
        else:
            run.skip(server.ids, NO_OCCASION.format("client"))
    for line in server.lines:
        if line.log.monitor is not None:
            run.tallies.append(line.log.monitor.tallies)
    return run


def _settle_revision(plan: ClientPlan, run: ClientRun) -> None:
    """Judge by the agreed revision, or by the one the client asked for if it did not go on."""
    is_chosen_revision = bool(plan.revisions) or not run.server.has_handshake
    is_faulty = type(run.server) is not FakeServer
    if is_faulty and run.server.revision is not None and is_chosen_revision:
        # A faulty server counts for its revision, even where a client leaves that.
        run.revision = run.server.revision
        return
    # A client of both eras may try a handshake first, in vain.
    went_on_alone = bool(run.server.fulfilled) and not run.is_initialized
    if run.stateless and (went_on_alone or not run.messages("initialize")):
        run.revision = STATELESS.id
        return
    agreed = next((each.revision for each in run.lines if each.revision), None)
    asked = next(iter(run.server.requested_revisions), None)
    # A client may forget notifications/initialized, and go on all the same.
    goes_on = run.is_initialized or any(map(_is_work, run.all_messages))
    for named in (agreed if goes_on else None, asked, agreed):
        if named is not None and named in REVISIONS and REVISIONS[named].handshake:
            run.revision = REVISIONS[named].id
            return


def _is_work(message: JsonObject) -> bool:
    """Return whether a message is a request that follows a handshake."""
    return is_request(message) and message["method"] not in ("initialize", "ping")


def _fill_in(command: Sequence[str], address: ServerAddress) -> list[str]:
    """Put the address of the server into the command; `{server}` may become several words."""
    words: list[str] = []
    for word in command:
        if word == "{server}":
            words += address.command
        else:
            text = shlex.join(address.command)
            word = word.replace("{server}", text).replace("{url}", address.url)
            words.append(word.replace("{client_id}", PREREGISTERED))
    return words


async def _run(plan: ClientPlan, address: ServerAddress, run: ClientRun) -> None:
    """Run the client, and record how it ended."""
    if plan.client is not None:
        await _await_end(plan, plan.client(address), run)
        return
    env = {**os.environ, **run.server.env, **plan.env}
    child = Child(_fill_in(plan.command, address), env=env, has_input=False)
    child.start()
    try:
        await _await_end(plan, child.wait(), run)
    finally:
        await child.stop(terminate_grace=_LEAVING)
        run.stderr = child.stderr.lines


async def _await_end(plan: ClientPlan, work: Awaitable[int | None], run: ClientRun) -> None:
    """Wait for the end of a client within its time, and record how it ended."""
    ending, begun = asyncio.ensure_future(work), monotonic()
    try:
        # When many programs start at once, starting takes longer than the run itself.
        while not ending.done() and not (run.lines or run.requests):
            if monotonic() - begun > _STARTING * plan.timeout:
                break
            await asyncio.wait({ending}, timeout=_LOOK)
        else:
            await asyncio.wait({ending}, timeout=plan.timeout)
        if ending.done():
            run.exit_code = ending.result()
            await _look_for_survivors(run)
        else:
            run.was_connected = any(each.ended is None for each in run.lines)
    finally:
        ending.cancel()
        await asyncio.wait({ending})


async def _look_for_survivors(run: ClientRun) -> None:
    """Record whether launched servers outlive the client; give those that are ending time."""
    launched = len(run.server.fake_transport.pids)
    for _ in range(_LOOKS):
        run.left_servers_running = run.server.events.count("gone") < launched
        has_all = run.transport != "stdio" or all(each.ended is not None for each in run.lines)
        if has_all and not run.left_servers_running:
            return
        await asyncio.sleep(_LOOK)


# -- verdicts


def _verdicts(plan: ClientPlan, revision: RevisionId, runs: Sequence[ClientRun]) -> list[Verdict]:
    """Return a verdict on each requirement that binds a client, from all runs of a revision."""
    found = []
    own = [each for each in runs if each.revision == revision]
    # Runs that are not judged say nothing about what applies under their revision.
    scope = own if any(each.server.is_judged and each.lines for each in own) else runs
    for row in chosen_requirements("client", revision, plan.only):
        known = [each for run in own if (each := run.verdict(row.id)) is not None]
        verdict = worst(known)
        if verdict is None or verdict.verdict == "not-exercised":
            known_reason = verdict or _verdict_elsewhere(row, runs)
            name, why = _why_untried(row, revision, plan, scope, known_reason)
            verdict = make_verdict(row, revision, name, why)
        found.append(verdict)
    return found


def _verdict_elsewhere(row: Requirement, runs: Sequence[ClientRun]) -> Verdict | None:
    """Return why a requirement was not put to the test under other revisions."""
    known = [each for run in runs if (each := run.found.get(row.id)) is not None]
    reasons = [each for each in known if each.verdict in ("not-applicable", "not-exercised")]
    return min(reasons, key=lambda each: each.verdict, default=None)


def _why_untried(
    row: Requirement,
    revision: RevisionId,
    plan: ClientPlan,
    runs: Sequence[ClientRun],
    known: Verdict | None,
) -> tuple[VerdictName, str]:
    foreign = why_not_of_clients(row, revision)
    if foreign is not None:
        return "not-applicable", foreign
    if row.id in _ELSEWHERE and plan.played_over not in _ELSEWHERE[row.id]:
        return "not-applicable", f"it does not concern {plan.played_over}"
    reason = _out_of_scope(row, plan, runs)
    if reason is not None:
        return "not-applicable", reason
    if known is not None:
        return known.verdict, known.message
    if row.id in UNSEEN:
        return "not-exercised", UNSEEN[row.id]
    return "not-exercised", explain_untried(row, _ids_with_scenarios(), "client")


@cache
def _ids_with_scenarios() -> frozenset[str]:
    """Return the ids of the requirements that a faulty server tries, or that any run runs."""
    from accord_tools.check.scenarios.client import CLIENT_SCENARIOS

    return PASSIVELY_CHECKED | COMPARED | {id for each in CLIENT_SCENARIOS for id in each.ids}


def _out_of_scope(row: Requirement, plan: ClientPlan, runs: Sequence[ClientRun]) -> str | None:
    """Return why a requirement applies in none of these runs; None if it applies in one."""
    reasons = [
        out_of_scope(row, line.log.monitor.conversation, {plan.played_over})
        for run in runs
        for line in run.lines
        if line.log.monitor is not None and line.revision is not None
    ]
    return reasons[0] if reasons and None not in reasons else None


# Requirements that no message of a client can show, or that concern no client.
_SCHEMAS: Final = "no message shows what a client makes of a schema"
_ICONS: Final = "it takes a person to see how a client shows icons"
_FORMS: Final = "it takes a person to see how a client shows a form"
UNSEEN: Final[Mapping[str, str]] = {
    "caching.client.page-refetch-by-cursor": "no message shows which pages a client kept",
    "caching.client.private-not-shared": "it takes two authorizations in one process to see this",
    "caching.client.snapshot-from-start": "no message shows if a client needs a consistent list",
    "elicitation.client.decline-and-cancel": _FORMS,
    "elicitation.form.prefill-defaults": _FORMS,
    "icons.client.png-jpeg": _ICONS,
    "icons.client.svg-webp": _ICONS,
    "icons.consumer.content-sniffed": _ICONS,
    "icons.consumer.resource-limits": _ICONS,
    "sampling.error.user-rejected": "no message shows whether a user or a client refused",
    "sampling.meta-preserved": "no message shows what a client hands to its model",
    "schema.bounds": _SCHEMAS,
    "schema.dialect.default-2020-12": _SCHEMAS,
    "schema.dialect.supports-2020-12": _SCHEMAS,
    "schema.dialect.unsupported-reported": _SCHEMAS,
    "schema.dialect.validated-as-declared": _SCHEMAS,
    "schema.ref.unresolved-rejected": _SCHEMAS,
    "tasks.cancel.attempt-stop": "no message shows whether a client stops its work",
    "tools.errors.execution-errors-to-model": "no message shows what a client tells its model",
    "tools.name.case-sensitive": "a client takes names as the server lists them",
    "tools.schema.client-follows-ref-rules": _SCHEMAS,
}
"""What takes a look inside the client."""

_ONE_SERVER: Final = "a client has one server on each connection"
_NO_QUESTIONS: Final = "the tasks of a client ask the server nothing"
_ONLY_SERVERS: Final = "only servers send this"
NOT_OF_CLIENTS: Final[Mapping[str, str]] = {
    "errors.reserved-range.specified-meaning": _ONLY_SERVERS,
    "sampling.message.role-and-content": _ONLY_SERVERS,
    "sampling.tool-choice.values": _ONLY_SERVERS,
    "schema.wire-schemas-valid": _ONLY_SERVERS,
    "tasks.errors.tool-error-is-failed": "a client has no tools",
    "tasks.input.leaves-status": _NO_QUESTIONS,
    "tasks.input.related-task": _NO_QUESTIONS,
    "tasks.input.status-set": _NO_QUESTIONS,
    "tasks.security.bound-to-context": _ONE_SERVER,
    "tasks.security.foreign-rejected": _ONE_SERVER,
    "tasks.security.list-own-only": _ONE_SERVER,
    "tasks.security.no-list-unidentified": _ONE_SERVER,
    "tools.x-mcp-header.safe-integers": _ONLY_SERVERS,
}
"""What binds both parties by its words, and only servers in fact."""

# What a party does with the requests of the other one, and with their progress.
_RECEIVING: Final = (
    "jsonrpc.response.",
    "jsonrpc.error.",
    "jsonrpc.request.answered",
    "cancellation.receiver.",
    "cancellation.races",
    "cancellation.invalid-ignored",
    "progress.notification.",
    "progress.value.",
    "progress.stops-",
    "progress.rate-limited",
    "errors.",
)


def why_not_of_clients(row: Requirement, revision: RevisionId) -> str | None:
    """Return why a requirement concerns no client of a revision; None if it may."""
    if row.id in NOT_OF_CLIENTS:
        return NOT_OF_CLIENTS[row.id]
    if not REVISIONS[revision].server_requests and row.id.startswith(_RECEIVING):
        return "a client of this revision gets no requests"
    return None
