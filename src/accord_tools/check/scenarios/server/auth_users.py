"""Users: each request has its own token, and nothing of one user is given to another one."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from accord.http.rules.responses import bearer_challenge
from accord.types import JsonObject
from accord_tools.check.probing.http_exchange import RawResponse, post_message
from accord_tools.check.probing.messages import (
    EVERYTHING_STATELESS,
    INPUT_REQUIRED,
    Reply,
    answer_round,
    answer_to,
    input_requests_of,
    is_same_id,
    params_of,
)
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import MessageTimeout, RawConnection
from accord_tools.check.probing.tool_calls import ToolCall
from accord_tools.check.scenarios._scenario import (
    LISTS,
    OWN_UNJUDGED,
    calls,
    complete_request,
    open_unjudged,
    scenario,
)
from accord_tools.check.scenarios.server.auth import post_with_token

_EACH: Final = "auth.stateless.each-request-authorized"
_CACHED: Final = "caching.server.access-control-independent"
_PRINCIPAL: Final = "mrtr.state.bind-principal"
_BINDS: Final = "elicitation.binds-user"
_IDENTIFIED: Final = "elicitation.state.user-from-credentials"
_TASKS: Final = "tasks-ext.security.authorize-each"
_OPEN: Final = "the server asks for no authorization"
_OTHER_USER: Final = "this needs a token of another user: give --other-bearer"
_NO_QUESTION: Final = "no tool that may be called asks the user something"
_ELICIT: Final = "elicitation/create"
_EXTENSION: Final = "io.modelcontextprotocol/tasks"


def _why_not(probe: Probe, ids: tuple[str, ...]) -> bool:
    """Return whether there are no two users; records why."""
    if not probe.target.bearer:
        probe.not_applicable(ids, _OPEN)
    elif probe.target.other_token is None:
        probe.skip(ids, _OTHER_USER)
    else:
        return False
    return True


@asynccontextmanager
async def _open_as_other(probe: Probe) -> AsyncIterator[RawConnection]:
    """Open a connection with the token of another user, which is not judged."""
    given = probe.target.spec.headers.items()
    headers = {name: text for name, text in given if name.lower() != "authorization"}
    headers["authorization"] = f"Bearer {probe.target.other_token}"
    async with probe.target.reached_with(headers=headers).connection(is_judged=False) as connection:
        await connection.begin_conversation(probe.revision)
        yield connection


# -- each request


def _is_refused(heard: RawResponse) -> bool:
    return heard.status in (401, 403)


def _results_in(heard: RawResponse) -> list[JsonObject]:
    found = [each.get("result") for each in heard.answers()] if heard.is_ok else []
    return [each for each in found if isinstance(each, dict)]


@scenario(_EACH, _CACHED, opens=open_unjudged, on=("http",), era="stateless")
async def leaves_out_the_token_after_requests_with_it(
    probe: Probe, connection: RawConnection
) -> None:
    if not probe.target.spec.headers:
        probe.not_applicable((_EACH, _CACHED), _OPEN)
        return
    bare = await post_with_token(connection, _again(probe, "server/discover", {}))
    if not _is_refused(bare):
        probe.not_applicable((_EACH, _CACHED), _OPEN)
        return
    # For each request that the token allows: whether its result is public, and needs the token.
    tried: list[tuple[str, bool, bool, Callable[[], Any] | None]] = []
    for method, params in _harmless_requests(probe):
        results = _results_in(await post_message(connection, _again(probe, method, params)))
        if results:
            is_public = any(each.get("cacheScope") == "public" for each in results)
            heard = await post_with_token(connection, _again(probe, method, params))
            tried.append((method, is_public, not _results_in(heard), connection.proof))
    if not tried:
        probe.skip((_EACH, _CACHED), "the server answers no request with the token either")
        return
    open_ones = [each for each in tried if not each[2]]
    # If only public results need no token, the scope of the cache decides about access.
    is_scope = all(is_public for _, is_public, _, _ in open_ones)
    for method, _, _, proof in [each for each in open_ones if is_scope or not each[1]][:1]:
        connection.proof = proof
        why = f"refuses requests without a token, but answers {method} without one"
        why += " because its result is public" if is_scope else ""
        probe.fail(_CACHED if is_scope else _EACH, why)
    probe.passes(_EACH)
    if any(is_public for _, is_public, _, _ in tried):
        probe.passes(_CACHED)
    probe.skip(_CACHED, "no result has the cacheScope public")


def _harmless_requests(probe: Probe) -> list[tuple[str, JsonObject]]:
    """Return requests that change nothing; another scenario lists tools without a token."""
    found: list[tuple[str, JsonObject]] = [("server/discover", {})]
    declared = [method for name, method in LISTS.items() if probe.facts.declares(name)]
    found += [(method, {}) for method in declared if method != LISTS["tools"]]
    uris = [each.get("uri") for each in probe.facts.resources[:2]]
    return found + [("resources/read", {"uri": uri}) for uri in uris if isinstance(uri, str)]


def _again(probe: Probe, method: str, params: Mapping[str, object]) -> JsonObject:
    return complete_request(probe, method, dict(params))


# -- too few scopes

_REFUSED: Final = "auth.scope.insufficient-403"
_NAMED: Final = "auth.scope.insufficient-names-needed"
_INSUFFICIENT: Final = "insufficient_scope"


@scenario(_REFUSED, _NAMED, opens=open_unjudged, on=("http",))
async def uses_what_another_user_may_not_use(probe: Probe, connection: RawConnection) -> None:
    ids = (_REFUSED, _NAMED)
    if _why_not(probe, ids):
        return
    async with _open_as_other(probe) as other:
        requests = [_again(probe, *each) for each in _harmless_requests(probe)[1:]]
        for message in [*requests, *calls(probe)]:
            heard = await post_message(other, message)
            bearer = bearer_challenge([heard.headers.get("www-authenticate", "")])
            # Other refusals have other reasons, such as what the user may do.
            if bearer is None or bearer.error != _INSUFFICIENT:
                continue
            connection.proof = other.proof
            name = message["method"]
            why = f"answers {name} with {heard} for want of a scope, expected 403"
            if probe.holds(_REFUSED, heard.status == 403, why):
                why = f"refuses {name} for want of a scope without naming its resource_metadata"
                probe.holds(_REFUSED, bearer.resource_metadata, why)
            why = f"refuses {name} for want of a scope, and does not name the scope"
            probe.holds(_NAMED, bearer.scopes, why)
    probe.skip(ids, "the other user has every scope that was needed")


# -- questions to one user, answered by another


@scenario(_PRINCIPAL, _BINDS, _IDENTIFIED, opens=OWN_UNJUDGED, on=("http",), era="stateless")
async def continues_the_request_of_another_user(probe: Probe, connection: RawConnection) -> None:
    ids = (_PRINCIPAL, _BINDS, _IDENTIFIED)
    if _why_not(probe, ids):
        return
    connection.follows_rounds = False
    for tool in probe.facts.callable_tools():
        request = connection.request("tools/call", tool.params)
        reply = await connection.ask("tools/call", tool.params)
        again = answer_round(request, reply, EVERYTHING_STATELESS)
        if again is None or "requestState" not in params_of(again):
            continue
        asked = {each.get("method") for each in input_requests_of(reply.message).values()}
        async with _open_as_other(probe) as other:
            other.follows_rounds = False
            await _judge_state(probe, connection, other, again, has_elicited=_ELICIT in asked)
    probe.skip(ids, f"{_NO_QUESTION}, and hands out a requestState")


async def _judge_state(
    probe: Probe,
    connection: RawConnection,
    other: RawConnection,
    again: JsonObject,
    *,
    has_elicited: bool,
) -> None:
    """Judge whether another user can go on with the state of a request."""
    params = {name: value for name, value in params_of(again).items() if name != "_meta"}
    ids = (_PRINCIPAL, *((_BINDS, _IDENTIFIED) if has_elicited else ()))
    bare = {name: value for name, value in params.items() if name != "requestState"}
    if _is_done(await other.ask("tools/call", bare)):
        probe.skip(ids, "the server needs no requestState to go on")
        return
    reply = await other.ask("tools/call", params)
    is_taken = _is_done(reply)
    connection.proof = other.proof
    if not is_taken and not _is_done(await connection.ask("tools/call", params)):
        probe.skip(ids, "the server does not go on for the user that it asked either")
        return
    why = f"goes on for another user with the requestState of a call of {params.get('name')}"
    for id in ids:
        probe.holds(id, not is_taken, why)


def _is_done(reply: Reply) -> bool:
    """Return whether an answer is the result of a request, not a failure or a question."""
    is_asking = reply.result.get("resultType") == INPUT_REQUIRED
    return not (reply.is_error or reply.is_failed_call or is_asking)


@scenario(_BINDS, _IDENTIFIED, opens=OWN_UNJUDGED, on=("http",), era="handshake")
async def answers_the_question_to_another_user(probe: Probe, connection: RawConnection) -> None:
    ids = (_BINDS, _IDENTIFIED)
    if _why_not(probe, ids):
        return
    connection.respond = _leave_elicitations
    for tool in probe.facts.callable_tools() if probe.facts.is_asking else ():
        question, id = await _next_question(connection, tool)
        if question is None:
            continue
        async with _open_as_other(probe) as other:
            await _judge_answers(probe, connection, other, question, id)
        if not _is_answered(connection, id):
            await connection.send(answer_to(question, connection.client_capabilities))
        break
    probe.skip(ids, _NO_QUESTION)


async def _leave_elicitations(connection: RawConnection, question: JsonObject) -> None:
    if question.get("method") != _ELICIT:
        await connection.send(answer_to(question, connection.client_capabilities))


async def _next_question(
    connection: RawConnection, tool: ToolCall
) -> tuple[JsonObject | None, object]:
    """Call a tool; return the question that it puts to the user, and the id of the call."""
    since = len(connection.received)
    id = await connection.start("tools/call", tool.params)

    def is_next(message: JsonObject) -> bool:
        is_answer = "method" not in message and is_same_id(message.get("id"), id)
        return is_answer or (message.get("method") == _ELICIT and "id" in message)

    try:
        found = await connection.until(is_next, f"an answer of {tool.name}", since=since)
    except MessageTimeout:
        return None, id
    return (found if "method" in found else None), id


def _is_answered(connection: RawConnection, id: object) -> bool:
    return any(
        "method" not in each and is_same_id(each.get("id"), id) for each in connection.received
    )


async def _judge_answers(
    probe: Probe, connection: RawConnection, other: RawConnection, question: JsonObject, id: object
) -> None:
    """Answer a question in the session of another user, then with the token of another user."""
    answer = answer_to(question, connection.client_capabilities)
    await post_message(other, answer)
    await connection.collect(probe.target.settling)
    proof = other.proof
    is_taken = _is_answered(connection, id)
    connection.proof = proof
    why = "goes on with a call of one user when another user answers its question"
    if not probe.holds(_BINDS, not is_taken, why):
        return
    if connection.carrier.session is None:
        probe.not_applicable(_IDENTIFIED, "the server gives no session ids")
        return
    token = f"Bearer {probe.target.other_token}"
    await post_message(connection, answer, authorization=token)
    proof = connection.proof
    await connection.collect(probe.target.settling)
    connection.proof = proof
    why = "takes the answer of another user, because it names the session of the first one"
    probe.holds(_IDENTIFIED, not _is_answered(connection, id), why)


# -- tasks


@scenario(_TASKS, opens=OWN_UNJUDGED, on=("http",), era="stateless")
async def asks_for_a_task_that_another_user_began(probe: Probe, connection: RawConnection) -> None:
    if _why_not(probe, (_TASKS,)):
        return
    declared = {**EVERYTHING_STATELESS, "extensions": {_EXTENSION: {}}}
    for tool in probe.facts.callable_tools():
        reply = await connection.ask("tools/call", tool.params, capabilities=declared)
        task = reply.result.get("taskId")
        if reply.result.get("resultType") != "task" or not isinstance(task, str):
            continue
        async with _open_as_other(probe) as other:
            for method in ("tasks/get", "tasks/cancel"):
                heard = await other.ask(method, {"taskId": task}, capabilities=declared)
                connection.proof = other.proof
                why = f"answers {method} of a task of another user with {heard}"
                probe.holds(_TASKS, heard.is_error, why)
        return
    probe.skip(_TASKS, "no tool that may be called becomes a task")
