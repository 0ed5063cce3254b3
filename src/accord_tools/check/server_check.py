"""Checks a server against every requirement that binds it: all scenarios, each revision."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from time import monotonic
from traceback import format_exc
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from accord.errors import AccordError, ConnectFailed
from accord.protocol.catalogue import Requirement
from accord.protocol.revisions import HANDSHAKE, in_order
from accord.protocol.verdict import Verdict, VerdictName, out_of_scope
from accord.types import RevisionId
from accord_tools.check.probing.messages import CAPABILITY_OF
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import (
    AuthorizationRequired,
    ConnectionEnded,
    MessageTimeout,
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
from accord_tools.check.probing.target import FORM_NAMES, ServerTarget, name_form, with_form
from accord_tools.check.probing.tool_calls import CallLimit
from accord_tools.check.revision_probe import RevisionProbe, add_stderr, describe_failure
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
    from accord_tools.check.scenarios.server.http_older_form import FIRST_STEPS

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
