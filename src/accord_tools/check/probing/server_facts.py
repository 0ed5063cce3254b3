"""What a server says of itself under one revision: found out before the scenarios run.

`discover` lists what the server offers, `ServerFacts` decides which tools may be called, and
`try_tools` calls each of them once: slow ones are not called again, because from outside a long
task looks like a lost answer.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextvars import ContextVar
from typing import Final, TypeAlias

import msgspec

from accord.errors import AccordError, ConnectFailed
from accord.protocol.mirroring import MirroredArgument, mirrored_arguments
from accord.protocol.revisions import BEFORE_HANDSHAKE, in_order
from accord.protocol.shape import exists_in
from accord.protocol.verdict import Verdict
from accord.trace import Transport
from accord.types import JsonObject, RevisionId, ToolAnnotations
from accord_tools.arguments.samples import plain_arguments
from accord_tools.check.probing.messages import is_question
from accord_tools.check.probing.raw_connection import (
    AuthorizationRequired,
    ConnectionEnded,
    MessageTimeout,
    RawConnection,
)
from accord_tools.check.probing.target import ServerTarget
from accord_tools.check.probing.tool_calls import DEFAULT_CALLS, CallLimit, ToolCall, tool_refusal
from accord_tools.reports.tool_calls import ANY_TOOL, CallPlan

_PAGES: Final = 50
# A server with hundreds of tools is known by these.
_TOOLS: Final = 20
# Scenarios call each tool several times, so a tool that takes longer would cost too much.
_LONG: Final = 1.5
_SETTLINGS: Final = 5

# The calls that the current scenario could not make, because the limit is reached.
withheld_calls: ContextVar[str] = ContextVar("withheld_calls", default="")


class CheckRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a check may do to a server.

    Attributes:
        allow_writes: whether tools that change something may be called.
        tools: the only tools that may be called; empty lets their annotations decide.
        calls: the limit of calls for each tool in the whole check; 0 calls none.
    """

    allow_writes: bool = False
    tools: Collection[str] = ()
    calls: int = DEFAULT_CALLS


class ServerFacts(msgspec.Struct, kw_only=True):
    """What a server says of itself under one revision.

    Attributes:
        opening: its result of initialize, or of server/discover.
        annotations: of tools, by name, under any revision.
        refused: tools that are not called, with the reasons; `decide_calls` fills it.
        slow: tools that are no longer called, with the reason.
        refusing: tools that answer plain valid arguments with an error.
        settled: verdicts of scenarios that need not be repeated, by the name of the scenario.
        locked: why the server accepts no conversation; empty if it does.
        is_logging: whether it wrote to standard error while it was discovered.
        is_asking: whether a tool sent a request to the client.
        asked: the methods of all requests of the server to the client.
        is_remote: whether the server is behind a URL, not launched by the check.
        limit: counts the calls of tools.
        mirrored: the arguments that headers repeat, by tool; shared with the target.
    """

    revision: RevisionId
    transport: Transport
    opening: JsonObject = {}
    tools: list[JsonObject] = []
    resources: list[JsonObject] = []
    templates: list[JsonObject] = []
    prompts: list[JsonObject] = []
    annotations: JsonObject = {}
    refused: dict[str, str] = {}
    slow: dict[str, str] = {}
    refusing: set[str] = set()
    settled: dict[str, list[Verdict]] = {}
    locked: str = ""
    is_logging: bool = False
    is_asking: bool = False
    asked: set[str] = set()
    is_remote: bool = False
    rules: CheckRules = CheckRules()
    limit: CallLimit = msgspec.field(default_factory=CallLimit)
    mirrored: dict[str, tuple[MirroredArgument, ...]] = {}

    def declares(self, path: str) -> bool:
        """Return whether the server declared a capability, such as `resources.subscribe`."""
        found: object = self.opening.get("capabilities")
        for name in path.split("."):
            if not isinstance(found, dict) or name not in found:
                return False
            found = found[name]
        return found is not None and found is not False

    def decide_calls(self) -> None:
        """Decide which tools may be called, and record why the others may not."""
        named = self._named_tools()
        # A name that is listed twice is refused if either entry is.
        self.refused = {
            tool["name"]: why for tool in named if (why := self._refusal(tool)) is not None
        }
        names = list(dict.fromkeys(tool["name"] for tool in named))
        allowed = [name for name in names if name not in self.refused]
        if not self.rules.tools:
            why = f"a check calls at most {_TOOLS} tools; run with {ANY_TOOL} to call it"
            self.refused |= dict.fromkeys(allowed[_TOOLS:], why)
        self.limit.decide(names, self.refused)

    def note_mirrored(self) -> None:
        """Record which arguments of the tools headers repeat."""
        for tool in self._named_tools():
            # An invalid annotation is a breach of the server's; a client must not use the tool.
            with contextlib.suppress(ValueError):
                self.mirrored[tool["name"]] = mirrored_arguments(tool.get("inputSchema"))

    def _named_tools(self) -> list[JsonObject]:
        return [tool for tool in self.tools if isinstance(tool.get("name"), str)]

    def _refusal(self, tool: JsonObject) -> str | None:
        # Annotations of another revision count, because the tool is the same.
        notes = tool.get("annotations") or self.annotations.get(str(tool.get("name")))
        why = tool_refusal(
            {**tool, "annotations": notes},
            allow_writes=self.rules.allow_writes,
            chosen=self.rules.tools,
            is_remote=self.is_remote,
        )
        if why is None and not self.limit.calls:
            return "--calls 0 allows no calls"
        if why is None and plain_arguments(tool.get("inputSchema")) is None:
            return "no arguments can be made from its inputSchema"
        return why

    def call_plan(self) -> CallPlan:
        """Return the plan of calls that `decide_calls` made."""
        names = dict.fromkeys(tool["name"] for tool in self._named_tools())
        called = tuple(name for name in names if name not in self.refused)
        missing = sorted(name for name in self.rules.tools if name not in names)
        not_called = self.refused | dict.fromkeys(missing, "the server lists no such tool")
        return CallPlan(calls=self.limit.calls, called=called, not_called=not_called)

    def callable_tools(self) -> list[ToolCall]:
        """Return the tools that may be called now, each with plain valid arguments."""
        allowed = [tool for tool in self._named_tools() if self.refusal_for(tool) is None]
        exhausted = [tool["name"] for tool in allowed if not self.limit.calls_left(tool["name"])]
        if exhausted:
            withheld_calls.set(self.limit.exhausted_text(exhausted))
        return [
            ToolCall(tool, plain_arguments(tool.get("inputSchema")) or {})
            for tool in allowed
            if tool["name"] not in exhausted
        ]

    def refusal_for(self, tool: JsonObject) -> str | None:
        """Return why a tool may not be called now; None if it may."""
        name = str(tool.get("name"))
        return self.refused.get(name) or self.slow.get(name)

    def exhausted_text(self) -> str:
        """Return which tools have no calls left, as text; empty if all have some."""
        names = [name for name in self.call_plan().called if not self.limit.calls_left(name)]
        return self.limit.exhausted_text(names) if names else ""


OnPlan: TypeAlias = Callable[[CallPlan], None]


def new_facts(
    target: ServerTarget, rules: CheckRules, revision: RevisionId, annotations: JsonObject
) -> ServerFacts:
    """Return the facts that are known before the server is asked.

    Args:
        target: the server, with the limit of calls.
        rules: what the check may do.
        revision: the revision under check.
        annotations: of its tools, under other revisions.
    """
    return ServerFacts(
        revision=revision,
        transport=target.transport,
        annotations=annotations,
        rules=rules,
        limit=target.limit or CallLimit(rules.calls),
        is_remote=target.is_remote,
        mirrored=target.mirrored,
    )


async def discover(facts: ServerFacts, connection: RawConnection) -> None:
    """List what a server offers over an open connection, and decide which tools may be called."""
    facts.opening = connection.opening
    if facts.declares("tools"):
        facts.tools = await list_all(connection, "tools/list", "tools")
    facts.note_mirrored()
    facts.decide_calls()
    if facts.declares("resources"):
        facts.resources = await list_all(connection, "resources/list", "resources")
        facts.templates = await list_all(
            connection, "resources/templates/list", "resourceTemplates"
        )
    if facts.declares("prompts"):
        facts.prompts = await list_all(connection, "prompts/list", "prompts")
    facts.is_logging = bool(getattr(connection.carrier, "stderr", ()))


def annotations_of(tools: Sequence[JsonObject]) -> JsonObject:
    """Return the annotations of tools by their names."""
    return {str(tool.get("name")): tool["annotations"] for tool in tools if tool.get("annotations")}


async def later_annotations(target: ServerTarget, revisions: Sequence[RevisionId]) -> JsonObject:
    """Return the annotations of tools under the newest revision, if those to check have none.

    The first revision has no annotations, and the tools are the same.
    """
    is_known = any(exists_in(ToolAnnotations, revision) for revision in revisions)
    # The only copy of a server that runs once at a time is in use.
    if is_known or target.one_at_a_time:
        return {}
    try:
        async with target.connection(is_judged=False) as connection:
            await connection.initialize(BEFORE_HANDSHAKE.id)
            return annotations_of(await list_all(connection, "tools/list", "tools"))
    except AccordError:
        # The check itself reports why the server does not answer.
        return {}


async def plan_calls(
    target: ServerTarget, rules: CheckRules, revisions: Sequence[RevisionId]
) -> CallPlan:
    """Return which tools a check would call, without calling any.

    Args:
        target: the server.
        rules: what the check may do.
        revisions: the revisions that would be checked.

    Raises:
        ConnectFailed: the server cannot be reached, or asks for a token.
    """
    called: dict[str, None] = {}
    not_called: dict[str, str] = {}
    annotations = await later_annotations(target, revisions)
    for revision in reversed(in_order({*revisions})):
        facts = new_facts(target, rules, revision, annotations)
        try:
            async with target.connection(is_judged=False) as connection:
                await connection.begin_conversation(revision)
                await discover(facts, connection)
        except (MessageTimeout, ConnectionEnded) as error:
            hint = "; give --bearer or --oauth" if isinstance(error, AuthorizationRequired) else ""
            why = target.hide_secrets(f"{target.spec.name}: {error}{hint}")
            raise ConnectFailed(why) from None
        annotations |= annotations_of(facts.tools)
        plan = facts.call_plan()
        called |= dict.fromkeys(plan.called)
        not_called |= plan.not_called
    hide = target.hide_secrets
    refused = {hide(name): hide(why) for name, why in not_called.items() if name not in called}
    return CallPlan(calls=rules.calls, called=tuple(map(hide, called)), not_called=refused)


def report_once(on_plan: OnPlan) -> OnPlan:
    """Wrap a callback so that it receives a further plan only if it names new tools."""
    reported: set[tuple[str, bool]] = set()

    def report_new(plan: CallPlan) -> None:
        named = {(name, name not in plan.not_called) for name in (*plan.called, *plan.not_called)}
        if not named <= reported:
            reported.update(named)
            on_plan(plan)

    return report_new


async def try_tools(facts: ServerFacts, connection: RawConnection, settling: float) -> None:
    """Call each tool that may be called, all at once; record those that do not answer soon.

    Args:
        facts: updated with what was found out.
        connection: not in use by a scenario, because a tool may block its server.
        settling: seconds within which this server reacts; a slow one gets more time.
    """
    long = max(_LONG, settling * _SETTLINGS)
    calls = [
        (each.name, await connection.start("tools/call", each.params))
        for each in facts.callable_tools()
    ]
    known = len(facts.slow)
    deadline = asyncio.get_running_loop().time() + min(long, connection.patience)
    for name, id in calls:
        left = max(deadline - asyncio.get_running_loop().time(), 0)
        try:
            reply = await connection.reply_to(id, patience=left)
            if reply.is_error:
                facts.refusing.add(name)
        except MessageTimeout:
            facts.slow[name] = f"its first call took longer than {long:.2g} s"
            with contextlib.suppress(ConnectionEnded):
                await connection.notify("notifications/cancelled", {"requestId": id})
        except ConnectionEnded:
            break
    facts.is_asking = any(map(is_question, connection.received))
    if len(facts.slow) > known:
        # A call may still be running: no scenario should wait behind it.
        connection.end("a tool took too long on it")


async def list_all(connection: RawConnection, method: str, member: str) -> list[JsonObject]:
    """Return all entries of a list, from a limited number of pages."""
    return [each async for page in _pages(connection, method, member) for each in page or ()]


async def list_intact(
    connection: RawConnection, method: str, member: str
) -> list[JsonObject] | None:
    """Return all entries of a list; None if a page has no list, so that it proves nothing."""
    found: list[JsonObject] = []
    async for page in _pages(connection, method, member):
        if page is None:
            return None
        found += page
    return found


async def _pages(
    connection: RawConnection, method: str, member: str
) -> AsyncIterator[list[JsonObject] | None]:
    cursor: object = None
    for _ in range(_PAGES):
        reply = await connection.ask(method, {} if cursor is None else {"cursor": cursor})
        entries: object = reply.result.get(member)
        if isinstance(entries, list):
            yield [each for each in entries if isinstance(each, dict)]
        else:
            yield None
        cursor = reply.result.get("nextCursor")
        if cursor is None:
            break
