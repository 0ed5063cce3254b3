"""Holding a server to every requirement that binds it: all scenarios under each revision."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from functools import cache
from time import monotonic
from typing import Final, TypeAlias

import msgspec

from accord.check.acquaintance import Acquaintance, spoken, unspoken, with_stderr
from accord.check.outcomes import Outcome, is_chosen, judged, without_secrets
from accord.check.probing.calls import CallLimit
from accord.check.probing.line import LineEnded, Locked, Silence
from accord.check.probing.planning import (
    TellPlan,
    annotations_of,
    facts_about,
    get_to_know,
    later_annotations,
    telling_once,
)
from accord.check.probing.probe import Facts, Probe, Rules
from accord.check.probing.subject import Subject
from accord.check.probing.trials import try_tools
from accord.check.report import Report, Setting, merged
from accord.check.scenarios._scenario import WORK_OF_AUTHORS, Scenario
from accord.check.untried import NO_OCCASION, untried_reason
from accord.errors import AccordError, ConnectFailed
from accord.protocol.catalogue import Requirement, catalogue
from accord.protocol.monitor import Verdict
from accord.types import RevisionId

__all__ = ["Plan", "Stage", "check_server", "spoken"]

log = logging.getLogger("accord.check")

# A scenario waits so many times the patience at most; a server that answers nothing is judged all
# the same.
_WAITS: Final = 24
_QUESTIONS: Final = {
    "roots": "roots/list",
    "sampling": "sampling/createMessage",
    "elicitation": "elicitation/create",
}
_BOUND: Final = frozenset({"server", "both", "sender", "receiver", "authorization-server"})


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """How far a check is: told before each scenario, and after the last one of a revision."""

    revision: RevisionId
    revisions: tuple[RevisionId, ...]
    scenario: str
    done: int
    total: int

    @property
    def share(self) -> float:
        """The part that is done, from 0 to 1; each revision takes an equal part."""
        before = self.revisions.index(self.revision)
        return (before + self.done / max(self.total, 1)) / len(self.revisions)


Step: TypeAlias = Callable[[Stage], None]
_Tell: TypeAlias = Callable[[str, int, int], None]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to check, and how far to go.

    Attributes:
        revisions: those to check; empty checks all that the server speaks.
        only: ids of requirements, or their beginnings; empty checks all.
        scenarios: names of scenarios to run; empty runs all that can decide something.
        rules: what may be done to the server.
    """

    revisions: Sequence[RevisionId] = ()
    only: Collection[str] = ()
    scenarios: Collection[str] = ()
    rules: Rules = Rules()

    def wants(self, id: str) -> bool:
        """Tell whether a requirement is to be checked."""
        return is_chosen(id, self.only)


async def check_server(
    subject: Subject,
    plan: Plan | None = None,
    *,
    step: Step | None = None,
    setting: Setting | None = None,
    tell_plan: TellPlan | None = None,
) -> Report:
    """Check a server under each revision that it speaks, and report on all of them.

    Args:
        subject: the server.
        plan: what to check; everything by default.
        step: told how far the check is.
        setting: what the report says of the check; transport and duration are filled in.
        tell_plan: told which tools will be called, before the first call.

    Raises:
        ConnectFailed: the server cannot be reached at all, ends at once, or does not speak a
            revision that was chosen, or any.
    """
    began = monotonic()
    plan = plan or Plan()
    limit = CallLimit(plan.rules.calls)
    subject = msgspec.structs.replace(subject, limit=limit)
    async with Acquaintance(subject) as acquaintance:
        told = None if tell_plan is None else telling_once(tell_plan)
        found, left_alone = await _check_all(plan, acquaintance, step, told)
    settled = msgspec.structs.replace(
        setting or Setting(),
        transport=subject.transport,
        seconds=round(monotonic() - began, 3),
        calls=limit.calls,
        called=dict(limit.made),
        not_called=left_alone,
        notes=tuple(acquaintance.notes),
    )
    return merged(found, target=subject.name, party="server", setting=settled)


async def _check_all(
    plan: Plan, acquaintance: Acquaintance, step: Step | None, tell_plan: TellPlan | None
) -> tuple[dict[RevisionId, list[Verdict]], dict[str, str]]:
    """Check each revision; returns the verdicts, and why some tools were not called."""
    # The newest first: it says most about the tools.
    asked = acquaintance.agree(plan.revisions) if plan.revisions else acquaintance.spoken()
    revisions = tuple(sorted(await asked, reverse=True))
    annotations = await later_annotations(acquaintance.subject, revisions)
    slow: dict[str, str] = {}
    known: dict[str, dict[str, Outcome]] = {}
    found: dict[RevisionId, list[Verdict]] = {}
    left_alone: dict[str, str] = {}
    for revision in revisions:
        subject = acquaintance.subject
        tell = None if step is None else _telling(step, revision, revisions)
        facts = facts_about(subject, plan.rules, revision, annotations)
        facts.slow, facts.settled = slow, known
        line, *others = await acquaintance.lines(revision)
        probe = Probe(subject, facts, line)
        for each in others:
            probe.lend(each)
        found[revision] = await _check_revision(probe, plan, tell, tell_plan)
        annotations |= annotations_of(facts.tools)
        left_alone |= {
            str(tool.get("name")): why for tool in facts.tools if (why := facts.why_not(tool))
        }
    return found, left_alone


def _telling(step: Step, revision: RevisionId, revisions: tuple[RevisionId, ...]) -> _Tell:
    def tell(scenario: str, done: int, total: int) -> None:
        step(
            Stage(revision=revision, revisions=revisions, scenario=scenario, done=done, total=total)
        )

    return tell


# -- one revision


async def _check_revision(
    probe: Probe, plan: Plan, tell: _Tell | None, tell_plan: TellPlan | None
) -> list[Verdict]:
    facts = probe.facts
    try:
        await _introduce(probe, tell_plan)
        await _run_all(probe, _chosen(plan, facts.revision), tell)
    finally:
        await probe.dismiss_all()
    return [
        without_secrets(_verdict(row, probe), probe.subject.secrets)
        for row in catalogue().values()
        if row.holds_in(facts.revision) and row.party in _BOUND and plan.wants(row.id)
    ]


async def _introduce(probe: Probe, tell_plan: TellPlan | None) -> None:
    """Find out what the server has, and which of its tools take long."""
    subject, facts, line = probe.subject, probe.facts, probe.line
    try:
        if not line.opening:
            await line.__aenter__()
            await line.initialize(facts.revision)
        await get_to_know(facts, line)
        if tell_plan is not None:
            tell_plan(facts.call_plan())
        probe.adapt_pace()
        if subject.command:
            probe.lend(line)
        if facts.callable_tools():
            async with probe.borrow() as other:
                await try_tools(facts, other, settling=probe.subject.settling)
    except Locked as error:
        facts.locked = f"{error}; give --bearer or --oauth"
    except (Silence, LineEnded) as error:
        if not line.opening:
            raise ConnectFailed(unspoken(subject, [with_stderr(str(error), line)])) from None
        _blame(probe, error)
        if subject.one_at_a_time:
            # Nobody borrows this line, and beside it no other copy would start.
            await probe.dismiss_all()


def _chosen(plan: Plan, revision: RevisionId) -> list[Scenario]:
    from accord.check.scenarios.server import SCENARIOS

    rows = catalogue()
    wanted = {id for id, row in rows.items() if row.holds_in(revision) and plan.wants(id)}
    # What the monitor judges may show in the traffic of any scenario.
    is_everywhere = any(rows[id].check == "wire" for id in wanted)
    return [
        each
        for each in SCENARIOS
        if (not plan.scenarios or each.name in plan.scenarios)
        and any(id in wanted or (is_everywhere and rows[id].holds_in(revision)) for id in each.ids)
    ]


async def _run_all(probe: Probe, scenarios: Sequence[Scenario], tell: _Tell | None) -> None:
    room = asyncio.Semaphore(probe.subject.at_once)
    done = 0

    async def run(each: Scenario) -> None:
        nonlocal done
        async with room:
            if tell is not None:
                tell(each.name, done, len(scenarios))
            await _run(probe, each)
            done += 1

    async with asyncio.TaskGroup() as group:
        for each in scenarios:
            group.create_task(run(each))
    if tell is not None:
        tell("", len(scenarios), len(scenarios))


async def _run(probe: Probe, scenario: Scenario) -> None:
    probe.begin_scenario()
    if _is_left_out(probe, scenario):
        return
    try:
        async with asyncio.timeout(probe.subject.patience * _WAITS):
            await scenario.body(probe)
    except (Silence, LineEnded, ConnectFailed, TimeoutError) as error:
        _blame(probe, error)
        _leave_open(probe, scenario, _silence(error))
    except AccordError as error:
        _leave_open(probe, scenario, str(error))
    except Exception as error:
        # What came was so odd that the scenario fell over it: no reason to lose the others.
        log.exception("the scenario %r failed", scenario.name)
        _leave_open(probe, scenario, f"the check itself failed: {type(error).__name__}: {error}")
    else:
        _leave_open(probe, scenario, NO_OCCASION.format("server"))
    if scenario.is_once:
        found = probe.outcomes.found
        probe.facts.settled[scenario.name] = {id: found[id] for id in scenario.ids if id in found}


def _is_left_out(probe: Probe, scenario: Scenario) -> bool:
    """Note why a scenario is not run, where it is not."""
    reason = _unfit(probe.facts, scenario)
    if reason is not None:
        for id in scenario.ids:
            probe.not_applicable(id, reason)
        return True
    if probe.facts.locked and not scenario.is_outside:
        for id in scenario.ids:
            probe.skip(id, probe.facts.locked)
        return True
    if scenario.when is not None and (why := scenario.when(probe.facts)) is not None:
        for id in scenario.ids:
            probe.skip(id, why)
        return True
    if scenario.name in probe.facts.settled:
        probe.outcomes.adopt(probe.facts.settled[scenario.name])
        return True
    return False


def _unfit(facts: Facts, scenario: Scenario) -> str | None:
    if facts.transport not in scenario.on:
        return f"the server is not reached over {' or '.join(scenario.on)}"
    if scenario.needs is not None and not facts.locked and not facts.declares(scenario.needs):
        return f"the server did not declare {scenario.needs}"
    return None


def _leave_open(probe: Probe, scenario: Scenario, why: str) -> None:
    for id in scenario.ids:
        probe.skip(id, why)


def _silence(error: BaseException) -> str:
    if not getattr(error, "has_started", True):
        return f"one more copy of the server did not start: {error}"
    return f"the server went silent: {error}"


def _blame(probe: Probe, error: BaseException) -> None:
    """Make a verdict of a server that fell silent or ended."""
    if not getattr(error, "has_started", True):
        # One more copy that does not start, or takes long, answers nothing for or against it.
        return
    if isinstance(error, LineEnded):
        probe.broken("practice.server.survives-errors", str(error))
    elif isinstance(error, Silence) and error.method not in WORK_OF_AUTHORS:
        probe.broken("jsonrpc.request.answered", f"falls silent: {error}")
        probe.lose_patience()


# -- verdicts


def _verdict(row: Requirement, probe: Probe) -> Verdict:
    outcome = probe.outcomes.outcome(row.id) or _untried(row, probe)
    question = _QUESTIONS.get(row.area)
    is_open = outcome.verdict == "not-exercised" and not _is_cut_short(probe.facts)
    if is_open and question not in (None, *probe.facts.asked):
        # What a client offers binds no server that makes no use of it.
        outcome = Outcome("not-applicable", f"the server never sent {question}")
    return judged(row, probe.revision, outcome)


def _is_cut_short(facts: Facts) -> bool:
    """Tell whether tools might have shown more, had they been called more often."""
    return not facts.limit.calls or bool(facts.used_up())


def _untried(row: Requirement, probe: Probe) -> Outcome:
    from accord.protocol.scope import out_of_scope

    monitor = probe.line.tape.monitor
    assert monitor is not None
    reason = out_of_scope(row, monitor.conversation, {probe.facts.transport})
    if reason is not None:
        return Outcome("not-applicable", reason)
    why = untried_reason(row, _probed(), "server")
    if why != NO_OCCASION.format("server"):
        return Outcome("not-exercised", why)
    if probe.facts.locked:
        return Outcome("not-exercised", probe.facts.locked)
    if row.check == "auth-probe":
        return Outcome("not-applicable", "the server asks for no authorization")
    used_up = probe.facts.used_up()
    return Outcome("not-exercised", f"{why}; {used_up}" if used_up else why)


@cache
def _probed() -> frozenset[str]:
    """Return the ids of the requirements that a scenario tries."""
    from accord.check.scenarios.server import SCENARIOS

    return frozenset(id for each in SCENARIOS for id in each.ids)
