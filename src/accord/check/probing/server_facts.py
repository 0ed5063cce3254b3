"""What a server offers, and which of its tools a check will call, found out before any call."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from accord.check.probing.probe import CheckRules, ServerFacts, list_all
from accord.check.probing.raw_connection import (
    AuthorizationRequired,
    ConnectionEnded,
    MessageTimeout,
    RawConnection,
)
from accord.check.probing.subject import Subject
from accord.check.probing.tool_calls import CallLimit, CallPlan
from accord.errors import AccordError, ConnectFailed
from accord.protocol.revisions import REVISIONS
from accord.types import RevisionId, ToolAnnotations
from accord.types._base import lifetime_of

OnPlan: TypeAlias = Callable[[CallPlan], None]


def new_facts(
    subject: Subject, rules: CheckRules, revision: RevisionId, annotations: dict[str, Any]
) -> ServerFacts:
    """Return the facts about a server under a revision, as far as they are known before a call.

    Args:
        subject: the server; has a limit for its calls.
        rules: what may be done to it.
        revision: the revision under check.
        annotations: of its tools, as other revisions have them.
    """
    return ServerFacts(
        revision=revision,
        transport=subject.transport,
        annotations=annotations,
        rules=rules,
        limit=subject.limit or CallLimit(rules.calls),
        is_remote=subject.is_remote,
    )


async def discover(facts: ServerFacts, line: RawConnection) -> None:
    """List what a server has on a line that is open, and decide which tools may be called."""
    facts.opening = line.opening
    if facts.declares("tools"):
        facts.tools = await list_all(line, "tools/list", "tools")
    facts.decide_calls()
    if facts.declares("resources"):
        facts.resources = await list_all(line, "resources/list", "resources")
        facts.templates = await list_all(line, "resources/templates/list", "resourceTemplates")
    if facts.declares("prompts"):
        facts.prompts = await list_all(line, "prompts/list", "prompts")
    facts.is_logging = bool(getattr(line.carrier, "stderr", ()))


def annotations_of(tools: Sequence[Any]) -> dict[str, Any]:
    """Return the annotations of tools by their names."""
    return {str(tool.get("name")): tool["annotations"] for tool in tools if tool.get("annotations")}


async def later_annotations(subject: Subject, revisions: Sequence[RevisionId]) -> dict[str, Any]:
    """Return what tools say of themselves under a later revision than those to check.

    The first revision has no annotations, and the tools are the same: what a server says under
    its newest revision decides which of them may be called.
    """
    if any(revision in lifetime_of(ToolAnnotations) for revision in revisions):
        return {}
    if subject.one_at_a_time:
        return {}  # the only copy is in use
    newest = [row.id for row in REVISIONS.values() if row.handshake][-1]
    try:
        async with subject.line(is_judged=False) as line:
            await line.initialize(newest)
            return annotations_of(await list_all(line, "tools/list", "tools"))
    except AccordError:
        # What keeps the server from answering is told of the revisions under check.
        return {}


async def plan_calls(
    subject: Subject, rules: CheckRules, revisions: Sequence[RevisionId]
) -> CallPlan:
    """Return which tools a check would call and which not; none is called.

    Args:
        subject: the server.
        rules: what the check may do.
        revisions: those that would be checked.

    Raises:
        ConnectFailed: the server cannot be reached, or asks for a token.
    """
    called: dict[str, None] = {}
    not_called: dict[str, str] = {}
    annotations = await later_annotations(subject, revisions)
    for revision in sorted(revisions, reverse=True):
        facts = new_facts(subject, rules, revision, annotations)
        try:
            async with subject.line(is_judged=False) as line:
                await line.initialize(revision)
                await discover(facts, line)
        except (MessageTimeout, ConnectionEnded) as error:
            hint = "; give --bearer or --oauth" if isinstance(error, AuthorizationRequired) else ""
            raise ConnectFailed(f"{subject.name}: {error}{hint}") from None
        annotations |= annotations_of(facts.tools)
        plan = facts.call_plan()
        called |= dict.fromkeys(plan.called)
        not_called |= plan.not_called
    refused = {name: why for name, why in not_called.items() if name not in called}
    return CallPlan(calls=rules.calls, called=tuple(called), not_called=refused)


def report_once(tell: OnPlan) -> OnPlan:
    """Return what tells a plan, and another one only if it names tools that were not told of."""
    told: set[tuple[str, bool]] = set()

    def tell_news(plan: CallPlan) -> None:
        named = {(name, name not in plan.not_called) for name in (*plan.called, *plan.not_called)}
        if not named <= told:
            told.update(named)
            tell(plan)

    return tell_news
