"""Checks a server against every requirement that binds it: all scenarios, each revision."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cache, partial
from time import monotonic
from traceback import format_exc
from typing import Final, Self, TypeAlias

import msgspec
from msgspec.structs import replace

from accord.errors import AccordError, ConnectFailed
from accord.protocol.catalogue import Requirement
from accord.protocol.revisions import BEFORE_HANDSHAKE, HANDSHAKE, REVISIONS, in_order
from accord.protocol.verdict import Verdict, VerdictName, out_of_scope
from accord.types import RevisionId
from accord_tools.check.probing.messages import CAPABILITY_OF, Reply
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import (
    AuthorizationRequired,
    ConnectionEnded,
    MessageTimeout,
    RawConnection,
)
from accord_tools.check.probing.server_facts import (
    CheckRules,
    OnPlan,
    annotations_of,
    discover,
    later_annotations,
    new_facts,
    report_once,
    try_tools,
    withheld_calls,
)
from accord_tools.check.probing.target import (
    FORM_NAMES,
    MESSAGE_PREFIX,
    ServerTarget,
    name_form,
    with_form,
)
from accord_tools.check.probing.tool_calls import CallLimit
from accord_tools.check.scenarios._scenario import (
    WORK_OF_AUTHORS,
    Scenario,
    blame_for_ending,
    can_show,
)
from accord_tools.check.verdicts import (
    NO_MESSAGE,
    NO_OCCASION,
    chosen_requirements,
    edit_texts,
    explain_untried,
    make_verdict,
)
from accord_tools.reports.report import Report, Setting, merge_revisions
from accord_tools.reports.tool_calls import CallPlan

_LONGEST: Final = 1000
# The newest revision in which a server says by server/discover what it supports.
_WITHOUT_HANDSHAKE: Final = [row for row in REVISIONS.values() if not row.handshake][-1]

# What only results without a handshake have: that of server/discover, and all of them.
_STATELESS_MEMBERS: Final = ("supportedVersions", "resultType")

Opening: TypeAlias = Reply | str | None
"""The answer to initialize or server/discover, or why it is missing; None if it takes a token."""


async def spoken_revisions(subject: ServerTarget) -> list[RevisionId]:
    """Ask which revisions the server speaks over this transport.

    Raises:
        ConnectFailed: it speaks none of them, or cannot be reached.
    """
    async with RevisionProbe(subject) as probe:
        return await probe.find_revisions()


class RevisionProbe:
    """Connects to a server under each revision, and keeps the connections for the check.

    Launching a server is slow, so launched ones are used again.

    Attributes:
        target: the server; `one_at_a_time` is set if a second copy does not start.
        notes: remarks for the report.
    """

    def __init__(self, subject: ServerTarget) -> None:
        self.target = subject
        self.notes: list[str] = []
        self._kept: dict[RevisionId, list[RawConnection]] = {}
        self._has_run_twice = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close_kept()

    async def _close_kept(self) -> None:
        kept, self._kept = self._kept, {}
        await asyncio.gather(*(line.close() for lines in kept.values() for line in lines))

    async def find_revisions(self, wanted: Sequence[RevisionId] = ()) -> list[RevisionId]:
        """Return the wanted revisions; by default all that the server speaks.

        Raises:
            ConnectFailed: it speaks none, or not one of the wanted; the message names the others.
        """
        reachable = _reachable(self.target)
        answers = await self._ask(wanted or reachable)
        if None in answers.values():
            # Without a token only refusals are checked, which hardly differ between revisions.
            return list(wanted) or [BEFORE_HANDSHAKE.id]
        if wanted and all(_may_speak(answers[each], each) for each in wanted):
            return list(wanted)
        others = [each for each in reachable if each not in answers]
        if others and any(isinstance(answer, Reply) for answer in answers.values()):
            answers |= await self._ask(others)
        found = _agreed_revisions(answers)
        if not found:
            raise ConnectFailed(self._explain_failure(answers))
        missing = [each for each in wanted if each not in found]
        if missing:
            raise ConnectFailed(
                f"{self.target.spec.name} does not speak {', '.join(missing)}; it speaks"
                f" {', '.join(found)}: choose one of these with --revision, or leave it out"
            )
        # It may answer with another revision although it speaks this one: the check judges that.
        return list(wanted) or found

    async def lines(self, revision: RevisionId) -> list[RawConnection]:
        """Return the open connections of a revision, or a new one."""
        kept = self._kept.pop(revision, [])
        if self.target.one_at_a_time:
            await self._close_kept()
        ended = [line for line in kept if line.ended is not None]
        await asyncio.gather(*(line.close() for line in ended))
        return [line for line in kept if line.ended is None] or [self.target.connection()]

    # -- asking

    async def _ask(self, revisions: Sequence[RevisionId]) -> dict[RevisionId, Opening]:
        """Connect under each revision, at once if possible."""
        if self.target.one_at_a_time:
            return {each: await self._open(each) for each in revisions}
        copies = list(revisions)
        if self.target.spec.command and len(copies) == 1 and not self._has_run_twice:
            # The check has to know whether a second copy runs beside the first.
            copies *= 2
        opened: dict[RevisionId, Opening] = {}
        failed: list[tuple[RevisionId, str]] = []
        for revision, answer in await self._open_at_once(copies):
            if isinstance(answer, str):
                failed.append((revision, answer))
            if not isinstance(opened.get(revision), Reply):
                opened[revision] = answer
        self._has_run_twice = True
        if any(isinstance(opened.get(each), Reply) for each in HANDSHAKE):
            # An older server may end at, or be silent on, a request before its handshake.
            failed = [each for each in failed if each[0] in HANDSHAKE]
        if failed and self.target.spec.command:
            opened |= await self._ask_alone(failed)
        return opened

    async def _open_at_once(self, copies: Sequence[RevisionId]) -> list[tuple[RevisionId, Opening]]:
        """Open several conversations; one without a handshake may be late or fail.

        Raises:
            ConnectFailed: the server cannot be launched or reached.
        """
        tasks = [asyncio.ensure_future(self._open(each)) for each in copies]
        first = [task for task, id in zip(tasks, copies, strict=True) if id in HANDSHAKE] or tasks
        try:
            await asyncio.wait(first)
            # Many older servers never answer what they do not know.
            await asyncio.wait(tasks, timeout=self.target.patience)
        finally:
            late = [task for task in tasks if not task.done()]
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        # One failure must not leave other copies behind that are still launching.
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        found: list[tuple[RevisionId, Opening]] = []
        for revision, answer in zip(copies, answers, strict=True):
            if isinstance(answer, asyncio.CancelledError):
                found.append((revision, f"an answer to a request under {revision} did not arrive"))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.append((revision, answer))
        return found

    async def _ask_alone(
        self, failed: Sequence[tuple[RevisionId, str]]
    ) -> dict[RevisionId, Opening]:
        """Try again, one copy at a time, the revisions that failed when several copies ran."""
        await self._close_kept()
        opened: dict[RevisionId, Opening] = {}
        before = self.target
        self.target = msgspec.structs.replace(before, one_at_a_time=True, at_once=1)
        for revision, why in reversed(failed):
            answer = await self._open(revision)
            if isinstance(answer, str):
                # It fails alone as well, so other copies are not the reason.
                break
            if not opened:
                self.notes.append(
                    "a second copy of the server did not start beside the first, but one copy"
                    f" alone does, so the copies were launched one at a time ({why})"
                )
            opened[revision] = answer
        if not opened:
            self.target = before
        return opened

    async def _open(self, revision: RevisionId) -> Opening:
        line = self.target.connection(is_judged=False)
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(line)
                answer = await line.begin_conversation(revision)
                if answer.is_error and line.is_stateless:
                    answer = await _list_without_discovery(line) or answer
            except AuthorizationRequired:
                return None
            except (MessageTimeout, ConnectionEnded) as error:
                return add_stderr(str(error), line)
            is_kept = self.target.spec.command and not self.target.one_at_a_time
            if is_kept and _spoken_in(answer) == revision and line.log.judge():
                stack.pop_all()
                self._kept.setdefault(revision, []).append(line)
            return answer

    def _explain_failure(self, opened: Mapping[RevisionId, Opening]) -> str:
        """Return why the server speaks none of these revisions."""
        answers = [each for each in opened.values() if each is not None]
        known = _named_revisions(answers)
        reachable = _reachable(self.target)
        if any(each in reachable for each in known):
            return (
                f"{self.target.spec.name} names {', '.join(known)} as supported, but refuses to"
                f" begin a conversation under it: {describe_answers(answers)}"
            )
        if known:
            return (
                f"{self.target.spec.name} speaks {', '.join(known)}, but none of the revisions that"
                f" can be checked: {', '.join(reachable)}"
            )
        return describe_failure(self.target, answers)


def describe_failure(subject: ServerTarget, answers: Iterable[Reply | str]) -> str:
    """Return why the handshake with a server failed."""
    answers = list(answers)
    reasons = describe_answers(answers)
    if reasons.startswith(MESSAGE_PREFIX):
        # `accord run` launched it, and its own message is the best one.
        return reasons.removeprefix(MESSAGE_PREFIX)
    if any(isinstance(answer, Reply) and not answer.is_error for answer in answers):
        return f"{subject.spec.name} speaks no revision that accord knows: {reasons}"
    hint = "; is it another path?" if subject.spec.url else ""
    return f"{subject.spec.name}: {reasons}{hint}"


def describe_answers(answers: Iterable[Reply | str]) -> str:
    """Return what a server answered to the first request of each conversation."""
    return "; ".join(dict.fromkeys(_describe(answer) for answer in answers))[:_LONGEST]


def add_stderr(text: str, line: RawConnection) -> str:
    """Add the last lines of a launched server's standard error to a message."""
    stderr: list[str] = list(getattr(line.carrier, "stderr", ()))[-3:]
    if stderr and stderr[-1].startswith(MESSAGE_PREFIX):
        return stderr[-1]
    if any('"jsonrpc"' in each and '"result"' in each for each in stderr):
        text = f"{text}; it answers on standard error, not on standard output"
    return f"{text} (stderr: {' | '.join(stderr)})" if stderr else text


def _describe(answer: Reply | str) -> str:
    if isinstance(answer, str):
        return answer
    if not answer.is_error:
        return f"it answers with {answer}"
    error = answer.message["error"]
    text = error.get("message") if isinstance(error, dict) else error
    code = "" if answer.code is None else f"error {answer.code}, "
    return f"it answers with {code}{text}"


def _named_revisions(answers: Iterable[Reply | str]) -> list[str]:
    """Return the revisions that refusals of initialize name as supported."""
    found: list[str] = []
    for answer in answers:
        error = answer.message.get("error") if isinstance(answer, Reply) else None
        data = error.get("data") if isinstance(error, dict) else None
        found += _strings(data.get("supported")) if isinstance(data, dict) else []
    return sorted(set(found))


def _strings(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _agreed_revisions(opened: Mapping[RevisionId, Opening]) -> list[RevisionId]:
    """Return the revisions that a server agreed to, even if another one was asked for."""
    agreed = {_spoken_in(answer) for answer in opened.values()}
    return [row.id for row in REVISIONS.values() if row.id in agreed]


def _may_speak(answer: Opening, revision: RevisionId) -> bool:
    """Return whether a server agreed to a revision, or named none in the handshake."""
    if not isinstance(answer, Reply) or answer.is_error:
        return False
    named = _spoken_in(answer)
    return named == revision or not isinstance(named, str)


async def _list_without_discovery(line: RawConnection) -> Reply | None:
    """Return a list that a server without discovery gives by the rules of its revision."""
    for method in ("tools/list", "resources/list", "prompts/list"):
        reply = await line.ask(method)
        if "resultType" in reply.result:
            return reply
    return None


def _spoken_in(answer: Opening) -> object:
    """Return the revision that a server agreed to, or in which it said what it supports."""
    if not isinstance(answer, Reply):
        return None
    result = answer.result
    if "protocolVersion" not in result and not result.keys().isdisjoint(_STATELESS_MEMBERS):
        return _WITHOUT_HANDSHAKE.id
    return result.get("protocolVersion")


def _reachable(subject: ServerTarget) -> list[RevisionId]:
    """Return the revisions that exist over the transport of a server."""
    is_streamable = subject.transport == "http"
    rows = HANDSHAKE if subject.transport == "sse" else REVISIONS
    return [row.id for row in rows.values() if row.streamable_http or not is_streamable]


# -- a whole check

log = logging.getLogger("accord_tools.check")

# A scenario may take this many times the patience; a server that never answers is judged too.
_WAITS: Final = 24
_NO_COPY: Final = "one more copy of the server did not start"
_ENDING: Final = "the server ends by itself ({}), so that its end is not held against it"
_QUESTIONS: Final = {capability: method for method, capability in CAPABILITY_OF.items()}


class CheckProgress(msgspec.Struct, frozen=True):
    """How far a check is, reported before each scenario and after the last one of a revision."""

    revision: RevisionId
    revisions: tuple[RevisionId, ...]
    scenario: str
    done: int
    total: int

    @property
    def share(self) -> float:
        """The share that is done, from 0 to 1; every revision counts the same."""
        before = self.revisions.index(self.revision)
        return (before + self.done / max(self.total, 1)) / len(self.revisions)


OnProgress: TypeAlias = Callable[[CheckProgress], None]


class ServerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which requirements to check, and what the check may do.

    Attributes:
        revisions: the revisions to check; empty checks all that the server speaks.
        only: ids of requirements, or their beginnings; empty checks all.
        scenarios: names of the only scenarios to run; None runs all that can decide something.
        rules: what may be done to the server.
    """

    revisions: Sequence[RevisionId] = ()
    only: Collection[str] = ()
    scenarios: Collection[str] | None = None
    rules: CheckRules = CheckRules()


async def check_server(
    subject: ServerTarget,
    plan: ServerPlan | None = None,
    *,
    step: OnProgress | None = None,
    setting: Setting | None = None,
    tell_plan: OnPlan | None = None,
) -> Report:
    """Check a server under each revision that it speaks, and report on all of them.

    Args:
        subject: the server.
        plan: what to check; everything by default.
        step: called with the progress of the check.
        setting: how the check is made; transport and duration are filled in.
        tell_plan: called with the tools that will be called, before the first call.

    Raises:
        ConnectFailed: the server cannot be reached, ends at once, or does not speak the chosen
            revisions.
    """
    began = monotonic()
    plan = plan or ServerPlan()
    limit = CallLimit(plan.rules.calls)
    subject = replace(await with_form(subject), limit=limit)
    hide = subject.hide_secrets
    async with RevisionProbe(subject) as revision_probe:
        on_plan = None if tell_plan is None else report_once(partial(_tell, tell_plan, hide))
        if subject.is_form_found and subject.spec.transport == "sse":
            revision_probe.notes.append(f"the URL speaks {FORM_NAMES['sse']}, and was checked so")
        try:
            found, not_called = await _check_all(plan, revision_probe, step, on_plan)
        except ConnectFailed as error:
            try:
                found, not_called = await _judge_opening(plan, subject, error), {}
            except ConnectFailed as error:
                # The server may have said anything.
                raise ConnectFailed(hide(str(error))) from None
    complete_setting = replace(
        setting or Setting(),
        transport=subject.transport,
        seconds=round(monotonic() - began, 3),
        calls=limit.calls,
        tools=tuple(replace(each, name=hide(each.name)) for each in limit.all_counts()),
        not_called={hide(name): hide(why) for name, why in not_called.items()},
        notes=tuple(map(hide, revision_probe.notes)),
    )
    return merge_revisions(
        found, target=subject.spec.name, party="server", setting=complete_setting
    )


def _tell(tell_plan: OnPlan, hide: Callable[[str], str], plan: CallPlan) -> None:
    """Tell which tools will be called; a server may put anything into their names."""
    names = {hide(name): hide(why) for name, why in plan.not_called.items()}
    tell_plan(replace(plan, called=tuple(map(hide, plan.called)), not_called=names))


async def _check_all(
    plan: ServerPlan,
    revision_probe: RevisionProbe,
    step: OnProgress | None,
    tell_plan: OnPlan | None,
) -> tuple[dict[RevisionId, list[Verdict]], dict[str, str]]:
    """Check each revision; return the verdicts, and why some tools were not called."""
    # The newest first: it describes the tools best.
    revisions = tuple(in_order({*await revision_probe.find_revisions(plan.revisions)}))[::-1]
    annotations = await later_annotations(revision_probe.target, revisions)
    slow: dict[str, str] = {}
    # A server answers the two eras by different code.
    settled: dict[bool, dict[str, list[Verdict]]] = {True: {}, False: {}}
    found: dict[RevisionId, list[Verdict]] = {}
    not_called: dict[str, str] = {}
    for revision in revisions:
        target = revision_probe.target
        facts = new_facts(target, plan.rules, revision, annotations)
        facts.slow, facts.settled = slow, settled[revision in HANDSHAKE]
        line, *others = await revision_probe.lines(revision)
        probe = Probe(target, facts, line)
        for each in others:
            probe.lend(each)
        scenarios = _choose_scenarios(plan, revision)
        try:
            await _discover_server(probe, tell_plan)
            await _run_all(probe, scenarios, step, revisions)
        finally:
            await probe.dismiss_all()
        found[revision] = _verdicts(probe, plan)
        note = _ENDING.format(target.habits.ending)
        if target.habits.ending and note not in revision_probe.notes:
            revision_probe.notes.append(note)
        annotations |= annotations_of(facts.tools)
        not_called |= {
            str(tool.get("name")): why for tool in facts.tools if (why := facts.refusal_for(tool))
        }
    return found, not_called


async def _judge_opening(
    plan: ServerPlan, target: ServerTarget, error: ConnectFailed
) -> dict[RevisionId, list[Verdict]]:
    """Judge how a server of the older form of HTTP fails to begin a conversation.

    Raises:
        ConnectFailed: it is not such a server, or nothing can be said against it.
    """
    from accord_tools.check.scenarios.server.http_connections import FIRST_STEPS

    if target.spec.url:
        error = await name_form(target, error)
    revision = next(iter(HANDSHAKE))
    if target.spec.transport != "sse" or (plan.revisions and revision not in plan.revisions):
        raise error
    line = target.connection()
    facts = new_facts(target, plan.rules, revision, {})
    probe = Probe(target, facts, line)
    first_steps = replace(plan, scenarios=[FIRST_STEPS])
    await _run_all(probe, _choose_scenarios(first_steps, revision), None, (revision,))
    if not any(each.verdict == "fail" for each in probe.found.values()):
        raise error
    facts.locked = f"no conversation could begin: {error}"
    await probe.dismiss_all()
    return {revision: _verdicts(probe, plan)}


# -- one revision


async def _discover_server(probe: Probe, tell_plan: OnPlan | None) -> None:
    """Find out what the server offers, and which of its tools are slow."""
    target, facts, line = probe.target, probe.facts, probe.connection
    try:
        if not line.opening:
            await line.__aenter__()
            await line.begin_conversation(facts.revision)
        await discover(facts, line)
        if tell_plan is not None:
            tell_plan(facts.call_plan())
        probe.adapt_pace()
        if target.spec.command:
            probe.lend(line)
        if facts.callable_tools():
            async with probe.borrow() as other:
                await try_tools(facts, other, probe.target.settling)
    except AuthorizationRequired as error:
        facts.locked = f"{error}; give --bearer or --oauth"
    except (MessageTimeout, ConnectionEnded) as error:
        if not line.opening:
            raise ConnectFailed(describe_failure(target, [add_stderr(str(error), line)])) from None
        await _blame(probe, error)
        if target.one_at_a_time:
            # While this copy runs, no other one would start.
            await probe.dismiss_all()


def _choose_scenarios(plan: ServerPlan, revision: RevisionId) -> list[Scenario]:
    """Return the scenarios that can decide one of the chosen requirements."""
    from accord_tools.check.scenarios.server import SCENARIOS

    held = [each for each in SCENARIOS if each.runs_in(revision)]
    if plan.scenarios is not None:
        held = [each for each in held if each.name in plan.scenarios]
    if not plan.only:
        return held
    wanted = chosen_requirements("server", revision, plan.only)
    return [each for each in held if any(can_show(each, row, revision) for row in wanted)]


async def _run_all(
    probe: Probe,
    scenarios: Sequence[Scenario],
    step: OnProgress | None,
    revisions: tuple[RevisionId, ...],
) -> None:
    slots = asyncio.Semaphore(probe.target.at_once)
    done = 0

    def report(name: str) -> None:
        if step is not None:
            step(CheckProgress(probe.revision, revisions, name, done, len(scenarios)))

    async def run(each: Scenario) -> None:
        nonlocal done
        async with slots:
            report(each.name)
            await _run(probe, each)
            done += 1

    async with asyncio.TaskGroup() as group:
        for each in scenarios:
            group.create_task(run(each))
    report("")


async def _run(probe: Probe, scenario: Scenario) -> None:
    withheld_calls.set("")
    if _is_left_out(probe, scenario):
        return
    try:
        async with asyncio.timeout(probe.target.patience * _WAITS):
            await scenario.body(probe)
    except (MessageTimeout, ConnectionEnded, ConnectFailed, TimeoutError) as error:
        await _blame(probe, error)
        has_started = getattr(error, "has_started", True)
        did = "the server went silent" if has_started else _NO_COPY
        probe.skip(scenario.ids, f"{did}: {error}")
    except AccordError as error:
        probe.skip(scenario.ids, str(error))
    except Exception as error:
        # An unexpected message must not cost the other scenarios.
        # Not `log.exception`: the traceback may quote the user's token.
        said = probe.target.hide_secrets(format_exc())
        log.error("the scenario %r failed: %s", scenario.name, said)  # noqa: TRY400
        probe.skip(scenario.ids, f"the check itself failed: {type(error).__name__}: {error}")
    else:
        probe.skip(scenario.ids, NO_OCCASION.format("server"))
    if scenario.is_once:
        found = [probe.found[id] for id in scenario.ids if id in probe.found]
        probe.facts.settled[scenario.name] = found


def _is_left_out(probe: Probe, scenario: Scenario) -> bool:
    """Return whether a scenario is not run, and record why."""
    facts = probe.facts
    if facts.transport not in scenario.on:
        reason = f"the server is not reached over {' or '.join(scenario.on)}"
    elif scenario.needs is not None and not facts.locked and not facts.declares(scenario.needs):
        reason = f"the server did not declare {scenario.needs}"
    elif facts.locked and not scenario.is_outside:
        probe.skip(scenario.ids, facts.locked)
        return True
    elif scenario.when is not None and (why := scenario.when(facts)) is not None:
        probe.skip(scenario.ids, why)
        return True
    else:
        probe.adopt(facts.settled.get(scenario.name, ()))
        return scenario.name in facts.settled
    probe.not_applicable(scenario.ids, reason)
    return True


async def _blame(probe: Probe, error: BaseException) -> None:
    """Record a failure of a server that went silent or ended."""
    if not getattr(error, "has_started", True):
        # A further copy that does not start proves nothing.
        return
    if getattr(error, "is_garbled", False):
        # The monitor reports what arrived in place of the answer.
        probe.lose_patience()
        return
    if isinstance(error, ConnectionEnded):
        await blame_for_ending(probe, str(error))
    elif isinstance(error, MessageTimeout) and error.method not in WORK_OF_AUTHORS:
        probe.fail("jsonrpc.request.answered", f"falls silent: {error}")
        probe.lose_patience()


# -- verdicts


def _verdicts(probe: Probe, plan: ServerPlan) -> list[Verdict]:
    # A server may repeat the user's tokens.
    hide = probe.target.hide_secrets
    rows = chosen_requirements("server", probe.revision, plan.only)
    exhausted = probe.facts.exhausted_text()
    return [edit_texts(_verdict(row, probe, exhausted), hide) for row in rows]


def _verdict(row: Requirement, probe: Probe, exhausted: str) -> Verdict:
    verdict = probe.verdict(row.id) or make_verdict(
        row, probe.revision, *_why_untried(row, probe, exhausted)
    )
    question = _QUESTIONS.get(row.area)
    # More calls of tools might have shown more.
    ran_out = not probe.facts.limit.calls or bool(exhausted)
    is_open = verdict.verdict == "not-exercised" and not ran_out
    if is_open and question not in (None, *probe.facts.asked):
        # A client feature binds only the servers that use it.
        return make_verdict(
            row, probe.revision, "not-applicable", f"the server never sent {question}"
        )
    return verdict


def _why_untried(row: Requirement, probe: Probe, exhausted: str) -> tuple[VerdictName, str]:
    monitor = probe.connection.log.monitor
    assert monitor is not None
    reason = out_of_scope(row, monitor.conversation, {probe.facts.transport})
    if reason is not None:
        return "not-applicable", reason
    why = explain_untried(row, _ids_with_scenarios(), "server")
    if why not in (NO_OCCASION.format("server"), NO_MESSAGE.format("server")):
        return "not-exercised", why
    if probe.facts.locked:
        return "not-exercised", probe.facts.locked
    if row.check == "auth-probe":
        return "not-applicable", "the server asks for no authorization"
    return "not-exercised", f"{why}; {exhausted}" if exhausted else why


@cache
def _ids_with_scenarios() -> frozenset[str]:
    """Return the ids of the requirements that a scenario tries."""
    from accord_tools.check.scenarios.server import SCENARIOS

    return frozenset(id for each in SCENARIOS for id in each.ids)
