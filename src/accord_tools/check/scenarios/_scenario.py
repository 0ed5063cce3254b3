"""A scenario of a server check: what it sends, and which requirements it decides."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, partial, wraps
from typing import Final, Literal, TypeAlias, TypedDict, Unpack

import msgspec

from accord.errors import AccordError
from accord.protocol.catalogue import Requirement, catalogue
from accord.protocol.jsonrpc import FAULT, NOTIFICATION, REQUEST, RESULT
from accord.protocol.revisions import REVISIONS
from accord.protocol.rules import complete
from accord.protocol.violation import SERVER
from accord.trace import Transport
from accord.types import JsonObject, RevisionId
from accord_tools.check.probing.http_exchange import RawResponse, exchange, post_message
from accord_tools.check.probing.messages import (
    Reply,
    answer_to,
    initialize_params,
    is_question,
    new_notification,
    new_request,
    next_id,
    params_of,
    stamp,
)
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection
from accord_tools.check.probing.server_facts import ServerFacts
from accord_tools.check.probing.tool_calls import ToolCall

Body: TypeAlias = Callable[[Probe], Awaitable[None]]
ConnectedBody: TypeAlias = Callable[[Probe, RawConnection], Awaitable[None]]
Opens: TypeAlias = Callable[[Probe], AbstractAsyncContextManager[RawConnection]]
When: TypeAlias = Callable[[ServerFacts], str | None]
Era: TypeAlias = Literal["handshake", "stateless"]
"""Whether a conversation is opened by a handshake, or each request stands on its own."""

# Methods that run a handler of the server's author, which may take long: from outside a long task
# looks like a lost answer.
WORK_OF_AUTHORS: Final = frozenset(
    {"tools/call", "resources/read", "prompts/get", "completion/complete"}
)
# Requests after which a server may send messages of its own accord.
_STIRRING: Final = WORK_OF_AUTHORS | {"resources/subscribe", "logging/setLevel"}
# The same for some messages. No scenario asks for progress except of tools.
_CAUSES: Final[Mapping[str, frozenset[str]]] = {
    "notifications/progress": frozenset({"tools/call"}),
    "notifications/tools/list_changed": frozenset({"tools/call"}),
    "notifications/prompts/list_changed": frozenset({"tools/call"}),
    "notifications/resources/list_changed": frozenset({"tools/call"}),
    "notifications/resources/updated": frozenset(
        {"tools/call", "resources/read", "resources/subscribe"}
    ),
    "notifications/message": WORK_OF_AUTHORS | {"logging/setLevel"},
}
ALL_TRANSPORTS: Final[tuple[Transport, ...]] = ("stdio", "http", "sse")

# Ways to open a connection; unjudged ones are for scenarios that break rules themselves.
UNJUDGED: Final[Opens] = partial(Probe.borrow, is_judged=False)
UNINITIALIZED: Final[Opens] = partial(Probe.open, begins=False)
OWN: Final[Opens] = Probe.open
OWN_UNJUDGED: Final[Opens] = partial(Probe.open, is_judged=False)
UNINITIALIZED_UNJUDGED: Final[Opens] = partial(Probe.open, is_judged=False, begins=False)
_UNJUDGED_WAYS: Final = (UNJUDGED, OWN_UNJUDGED, UNINITIALIZED_UNJUDGED)


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A test of a server.

    Attributes:
        name: what it tries, as a sentence without a subject.
        ids: the requirements that it decides.
        body: runs it.
        needs: a capability that the server must have declared, as a dotted path.
        on: the transports on which it can run.
        era: whether it needs a handshake, or revisions without one; None runs in both.
        when: returns why it cannot run against this server; None if it can.
        is_outside: whether it can run without authorization.
        is_once: whether its verdicts under one revision hold under all of them.
        sends: the requests that it makes of a judged connection, besides harmless ones.
        is_judged: whether a monitor judges the messages of a connection that it uses.
    """

    name: str
    ids: tuple[str, ...]
    body: Body
    needs: str | None = None
    on: tuple[Transport, ...] = ALL_TRANSPORTS
    era: Era | None = None
    when: When | None = None
    is_outside: bool = False
    is_once: bool = False
    sends: tuple[str, ...] = ()
    is_judged: bool = True

    def runs_in(self, revision: RevisionId) -> bool:
        """Return whether it can decide something in a revision."""
        era: Era = "handshake" if REVISIONS[revision].handshake else "stateless"
        rows = catalogue()
        return self.era in (None, era) and any(rows[id].holds_in(revision) for id in self.ids)


class Settings(TypedDict, total=False):
    """The fields of a scenario that have defaults."""

    needs: str
    on: tuple[Transport, ...]
    era: Era
    when: When
    is_outside: bool
    is_once: bool
    sends: tuple[str, ...]
    is_judged: bool


SERVER_SCENARIOS: Final[list[Scenario]] = []


def bare_scenario(*ids: str, **settings: Unpack[Settings]) -> Callable[[Body], Body]:
    """Register a scenario that opens its connections itself; it is named after its function."""
    settings.setdefault("is_judged", bool(settings.get("sends")))

    def register(body: Body) -> Body:
        name = getattr(body, "__name__", "scenario").replace("_", " ")
        SERVER_SCENARIOS.append(Scenario(name=name, ids=ids, body=body, **settings))
        return body

    return register


def scenario(
    *ids: str, opens: Opens = Probe.borrow, **settings: Unpack[Settings]
) -> Callable[[ConnectedBody], ConnectedBody]:
    """Register a scenario that gets one connection, borrowed unless `opens` opens another."""

    def register(body: ConnectedBody) -> ConnectedBody:
        @wraps(body)
        async def run(probe: Probe) -> None:
            async with opens(probe) as connection:
                await body(probe, connection)

        settings.setdefault("is_judged", opens not in _UNJUDGED_WAYS)
        bare_scenario(*ids, **settings)(run)
        return body

    return register


@cache
def revealing_methods(id: str, revision: RevisionId) -> frozenset[str] | None:
    """Return the requests that let a monitor judge a server; None if any message may do."""
    found: set[str] = set()
    for rule in complete(revision).rules:
        if rule.requirement != id or SERVER not in rule.about.by:
            continue
        if rule.about.on is None:
            return None
        if not {RESULT, FAULT}.isdisjoint(rule.about.kinds):
            found |= rule.about.on
        if not {REQUEST, NOTIFICATION}.isdisjoint(rule.about.kinds):
            found.update(*(_CAUSES.get(name, _STIRRING) for name in rule.about.on))
    return frozenset(found)


def can_show(scenario: Scenario, row: Requirement, revision: RevisionId) -> bool:
    """Return whether a scenario can show a breach of a requirement.

    Either it decides the requirement itself, or a monitor judges messages that it causes.
    """
    if row.id in scenario.ids:
        return True
    if row.check != "wire" or not scenario.is_judged:
        return False
    revealing = revealing_methods(row.id, revision)
    return revealing is None or not revealing.isdisjoint(scenario.sends)


# -- requests that several scenarios send

SURVIVES: Final = "practice.server.survives-errors"
ANSWERED: Final = "jsonrpc.request.answered"
_ECHO: Final = "jsonrpc.response.id-echo"
_LATER_ECHO: Final = "jsonrpc.error.id-echoed-or-unreadable"
MISSING_URI: Final = "accord-check://no/such/resource"
LISTS: Final = {"tools": "tools/list", "resources": "resources/list", "prompts": "prompts/list"}
INITIALIZED: Final = new_notification("notifications/initialized")
NO_AUTHORIZATION: Final = "the server asks for no authorization"
OTHER_USER: Final = "this needs a token of another user: give --other-bearer"
PERMISSION: Final = "a permission that the server did not use"
# Other people may use a server behind a URL: a check makes only a few calls.
_CALLS: Final = 8
_WORDS_OF_FAILURE: Final = re.compile(
    r"\b(?:error|exception|invalid|required?|missing|must|expected|unknown|undefined argument"
    r"|fail(?:ed|s|ure)?|not (?:found|allowed|provided|valid)|cannot|can't|unable)\b",
    re.IGNORECASE,
)


def harmless_method(facts: ServerFacts) -> str:
    """Return a method that the server must answer at any time and that changes nothing.

    A list method if there is one: a server that ignores only pings still answers.
    """
    other = "ping" if REVISIONS[facts.revision].handshake else "server/discover"
    return next((method for name, method in LISTS.items() if facts.declares(name)), other)


async def blame_for_ending(probe: Probe, why: str) -> None:
    """Record that the server ended while a request waited for its answer."""
    if await probe.ends_by_itself():
        probe.skip(SURVIVES, f"the server ends by itself: {probe.target.habits.ending}")
        return
    has_practice = catalogue()[SURVIVES].holds_in(probe.revision)
    probe.fail(SURVIVES if has_practice else ANSWERED, why)


async def is_alive(
    probe: Probe, connection: RawConnection, after: str, *, id: int | None = None
) -> bool:
    """Send a harmless request; record a verdict if the server no longer answers."""
    followed = connection.follows_rounds
    # A question is an answer too, and a second round would have another id.
    connection.follows_rounds = False
    try:
        await connection.ask(harmless_method(probe.facts), id=id)
    except (ConnectionEnded, MessageTimeout) as error:
        if isinstance(error, MessageTimeout):
            # A process that is about to end does not answer either.
            await connection.collect(probe.target.leaving)
        if connection.ended is not None:
            reason = error if isinstance(error, ConnectionEnded) else connection.ended
            await blame_for_ending(probe, f"ends after {after}: {reason}")
        elif getattr(error, "is_garbled", False):
            connection.end("the server answers under other ids, or not in JSON")
            probe.lose_patience()
        else:
            probe.fail(ANSWERED, f"answers no further request after {after}")
            connection.end("the server answers no further request")
        return False
    finally:
        connection.follows_rounds = followed
    probe.passes(SURVIVES)
    return True


def replies(messages: Iterable[JsonObject]) -> list[Reply]:
    """Return the messages that are answers."""
    return [Reply(each) for each in messages if "method" not in each]


async def unexpected_answers(
    probe: Probe, connection: RawConnection, since: int, after: str
) -> list[Reply] | None:
    """Return answers to messages that need none; None if the server has ended."""
    asked = next_id()
    if not await is_alive(probe, connection, after, id=asked):
        return None
    await connection.collect(probe.target.settling)
    found = [each for each in replies(connection.received[since:]) if each.id != asked]
    # Over HTTP a notification may be refused with a status and an error without id.
    is_http = connection.log.transport == "http"
    stray = [each for each in found if not is_http or each.id is not None]
    if stray:
        connection.point_at(*(each.message for each in stray))
    return stray


async def send_and_wait(
    probe: Probe, connection: RawConnection, message: object, what: str
) -> list[Reply] | None:
    """Send a message, valid or not, and return its answer; None if the server has ended.

    No answer is expected any more once a later harmless request is answered.
    """
    since = len(connection.received)
    await connection.send(message)
    asked = next_id()
    if not await is_alive(probe, connection, what, id=asked):
        return None
    found = [each for each in replies(connection.received[since:]) if each.id != asked]
    if not found:
        # On a busy machine the answer may come after that to the later request.
        await connection.collect(probe.target.settling)
        found = [each for each in replies(connection.received[since:]) if each.id != asked]
    connection.point_at(message, *(each.message for each in found))
    return found


async def arrives(connection: RawConnection, id: object, patience: float | None = None) -> bool:
    """Return whether a request is answered in time."""
    try:
        await connection.reply_to(id, patience=patience)
    except MessageTimeout:
        return False
    return True


async def wait_for_answer(
    probe: Probe, connection: RawConnection, id: object, what: str
) -> Reply | None:
    """Wait for the answer to a request; without one, record a verdict and return None.

    Calls into the author's own handlers get no verdict: they may still be running.
    """
    try:
        reply = await connection.reply_to(id, what=what)
    except MessageTimeout as error:
        if not error.has_started:
            raise
        if error.is_garbled:
            probe.lose_patience()
        echo = _ECHO if catalogue()[_ECHO].holds_in(probe.revision) else _LATER_ECHO
        strayed = connection.log.tally(echo)
        alike = [each for each in replies(connection.received) if str(each.id) == str(id)]
        if len(alike) > 1:
            probe.fail(echo, f"answers id {id!r} with an id of another type")
        elif strayed is not None and strayed.breaches:
            pass  # the monitor reports an answer under an unknown id
        elif error.is_garbled:
            probe.skip(ANSWERED, "the answer may be one that cannot be read")
        elif error.method in WORK_OF_AUTHORS:
            probe.skip(ANSWERED, f"the server may still work on it: {error}")
        else:
            probe.fail(ANSWERED, f"leaves {what} (id {id!r}) unanswered")
        return None
    probe.passes(ANSWERED)
    return reply


# -- calls of tools


async def call(
    probe: Probe, connection: RawConnection, tool: ToolCall, meta: JsonObject | None = None
) -> Reply | None:
    """Call a tool; without an answer, record a verdict and return None."""
    params = tool.params | ({"_meta": meta} if meta else {})
    id = await connection.begin("tools/call", params)
    return await wait_for_answer(probe, connection, id, f"a call of {tool.name}")


async def call_all(
    probe: Probe, connection: RawConnection, meta: JsonObject | None = None
) -> list[tuple[ToolCall, Reply]]:
    """Call every tool that may be called, one by one; return those that answered."""
    tools = probe.facts.callable_tools()
    called = [(tool, await call(probe, connection, tool, meta)) for tool in tools]
    return [(tool, reply) for tool, reply in called if reply is not None]


async def asking_tools(probe: Probe) -> list[ToolCall]:
    """Return the tools that ask the client; found out once, because it takes a call of each."""
    if not probe.facts.is_asking:
        return []
    async with probe.asking_lock:
        if probe.asking is None:
            probe.asking = await _find_asking(probe)
    return [tool for tool in probe.facts.callable_tools() if tool.name in probe.asking]


async def _find_asking(probe: Probe) -> frozenset[str]:
    found: set[str] = set()
    async with probe.borrow() as connection:
        for tool in probe.facts.callable_tools():
            since = len(connection.received)
            await call(probe, connection, tool)
            if any(map(is_question, connection.received[since:])):
                found.add(tool.name)
    return frozenset(found)


async def call_together(probe: Probe, connection: RawConnection) -> None:
    """Call every tool that may be called, all at once."""
    tools = probe.facts.callable_tools()
    calls = [(tool, await connection.start("tools/call", tool.params)) for tool in tools]
    for tool, id in calls:
        await wait_for_answer(probe, connection, id, f"a call of {tool.name}")


def text_of(reply: Reply) -> str:
    """Return the text of a tool result."""
    content = reply.result.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [each.get("text") for each in blocks if isinstance(each, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def has_failed(reply: Reply) -> bool:
    """Return whether a tool reports a failure, even in its text alone."""
    if reply.is_error or reply.is_failed_call:
        return True
    return _WORDS_OF_FAILURE.search(text_of(reply)) is not None


def is_listening(connection: RawConnection) -> bool:
    """Return whether the server can send messages apart from answers."""
    return getattr(connection.carrier, "listens", True) is not False


# -- over HTTP


def initialize(revision: str) -> JsonObject:
    """Return an initialize request of a client without capabilities."""
    return new_request("initialize", initialize_params(revision, {}))


@asynccontextmanager
async def open_unjudged(
    probe: Probe, *, revision: str | None = None
) -> AsyncIterator[RawConnection]:
    """Open a connection that is not judged and does not listen by GET yet.

    The client declares no capabilities, so that no tool sends it a request.

    Raises:
        AccordError: the server refuses to open one.
    """
    wanted = revision or probe.revision
    async with probe.open(is_judged=False, begins=False) as connection:
        if connection.be_stateless(wanted, {}):
            yield connection
            return
        reply = await connection.initialize(wanted, capabilities={}, is_confirmed=False)
        if reply.is_error:
            raise AccordError(f"no conversation could be opened: {reply}")
        await post_message(connection, INITIALIZED)
        yield connection


def calls(probe: Probe, *, are_prolonged: bool = False) -> list[JsonObject]:
    """Return calls of tools that may be called, each with a token for progress.

    The client declares no capabilities, so that no tool asks it anything.

    Args:
        probe: knows the tools.
        are_prolonged: only those that can be made to take long, and do.
    """
    tools = probe.facts.callable_tools()[:_CALLS]
    return [
        complete_request(probe, "tools/call", tool.with_progress(f"accord-check-{next_id()}"))
        for tool in (each.prolong() if are_prolonged else each for each in tools)
        if tool is not None
    ]


def complete_request(probe: Probe, method: str, params: object = None) -> JsonObject:
    """Return a request to be sent as it is, with `_meta` where the revision has no handshake."""
    if not REVISIONS[probe.revision].handshake:
        params = stamp(probe.revision, params, {})
    return new_request(method, params)


async def end_session(connection: RawConnection, heard: RawResponse) -> None:
    """End the session that a raw request opened, if there is one."""
    given = heard.headers.get("mcp-session-id")
    if given is not None:
        proof = connection.proof
        async with exchange(connection, method="DELETE", mcp_session_id=given):
            pass
        # The next verdict is about the request that opened it.
        connection.proof = proof


def lacks_lists(facts: ServerFacts) -> str | None:
    """Return why nothing can be listed; None if something can."""
    return None if any(map(facts.declares, LISTS)) else "the server has no lists"


def lacks_other_user(probe: Probe, ids: tuple[str, ...]) -> bool:
    """Return whether there are no two users; records why."""
    if not probe.target.bearer:
        probe.not_applicable(ids, NO_AUTHORIZATION)
    elif probe.target.other_token is None:
        probe.skip(ids, OTHER_USER)
    else:
        return False
    return True


@asynccontextmanager
async def open_as_other(probe: Probe) -> AsyncIterator[RawConnection]:
    """Open a connection with the token of another user, which is not judged."""
    given = probe.target.spec.headers.items()
    headers = {name: text for name, text in given if name.lower() != "authorization"}
    headers["authorization"] = f"Bearer {probe.target.other_token}"
    async with probe.target.reached_with(headers=headers).connection(is_judged=False) as connection:
        await connection.begin_conversation(probe.revision)
        yield connection


def messages_of(heard: RawResponse, call: JsonObject) -> list[JsonObject]:
    """Return the messages of a stream that belong to a call: its answer and its progress."""
    token = call["params"]["_meta"]["progressToken"]
    messages = [each for each in heard.messages if isinstance(each, dict)]
    progress = [each for each in messages if params_of(each).get("progressToken") == token]
    return heard.answers_to(call["id"]) + progress


async def answer_pings_only(connection: RawConnection, question: JsonObject) -> None:
    """Leave questions unanswered; the scenario answers them by itself, or never."""
    if question.get("method") == "ping":
        await connection.send(answer_to(question, connection.client_capabilities))
