"""Servers that mix up users, or forget to look at the token of a request."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any

from check.faults import faults, hook_maker, named
from check.mutants.between_http import Asked, Headers, Hook, Web
from check.mutants.foundation import params_of
from check.mutants.protected import JSON, OTHER, OWN, admitting, guard_mutant, token_of
from check.mutants.stateless_server import server as stateless
from check.mutants.task_server import make_server

NEW, NEWEST = "2025-11-25", "2026-07-28"
EACH = "auth.stateless.each-request-authorized"
CACHED = "caching.server.access-control-independent"


# -- each request


@hook_maker
def trusting(web: Web, is_meant: Callable[[Asked], bool]) -> None:
    """Let requests in without a token on a connection on which one came with a token."""
    known: set[Any] = set()

    def is_admitted(asked: Asked) -> bool:
        if token_of(asked) == OWN:
            known.add(asked.client)
        is_known = asked.client in known and "authorization" not in asked.headers
        return is_known and is_meant(asked)

    admitting(is_admitted)(web)


faults(
    guard_mutant(EACH, revision=NEWEST),
    trusts_a_connection=trusting(lambda asked: True),
    trusts_a_connection_with_lists=trusting(lambda asked: asked.method.endswith("/list")),
)


@guard_mutant(EACH, revision=NEWEST)
def guards_no_resources(web: Web) -> None:
    bare = "authorization"
    admitting(lambda asked: asked.method == "resources/read" and bare not in asked.headers)(web)


def publishing(web: Web, *methods: str) -> None:
    """Mark the results of some methods as public."""

    def body(asked: Asked, body: bytes) -> bytes:
        if asked.method in methods and body.startswith(b"{"):
            message = json.loads(body)
            if isinstance(message.get("result"), dict):
                message["result"]["cacheScope"] = "public"
            return json.dumps(message).encode()
        return body

    web.body = body


@hook_maker
def caching(web: Web, *methods: str) -> None:
    publishing(web, *methods)
    admitting(lambda asked: asked.method in methods and "authorization" not in asked.headers)(web)


faults(
    guard_mutant(CACHED, revision=NEWEST),
    caches_public_lists_before_its_guard=caching("resources/list", "prompts/list"),
    caches_one_public_list_before_its_guard=caching("prompts/list"),
    caches_public_resources_before_its_guard=caching("resources/read"),
)


# -- questions in rounds

PRINCIPAL = "mrtr.state.bind-principal"
BINDS, IDENTIFIED = "elicitation.binds-user", "elicitation.state.user-from-credentials"
ROUNDS = dict.fromkeys((PRINCIPAL, BINDS, IDENTIFIED), "the state of another user is taken")
QUESTION = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Which one?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}


def asking(web: Web, is_right: Callable[[Asked, str], bool]) -> None:
    """Let a tool ask before it answers, with a state that names the user it asked."""
    usual, numbers = web.before, count()

    def before(asked: Asked) -> tuple[int, Headers, bytes] | None:
        if asked.tool != "get_region" or token_of(asked) not in (OWN, OTHER):
            return usual(asked)
        state = params_of(asked.message).get("requestState")
        result: dict[str, Any] = {
            "resultType": "input_required",
            "inputRequests": {"which": QUESTION},
            "requestState": f"asked {token_of(asked)} {next(numbers)}",
        }
        if state is not None and is_right(asked, str(state)):
            result = {"resultType": "complete", "content": [{"type": "text", "text": "eu-1"}]}
        answer = {"jsonrpc": "2.0", "id": asked.message["id"], "result": result}
        return 200, JSON, json.dumps(answer).encode()

    web.before = before


def asks_each_user(web: Web) -> None:
    """Do nothing wrong: go on for the user that was asked."""
    asking(web, lambda asked, state: state.startswith(f"asked {token_of(asked)} "))


def takes_any_state(web: Web) -> None:
    asking(web, lambda asked, state: state.startswith("asked "))


def takes_the_first_word_for_a_user(web: Web) -> None:
    asking(web, lambda asked, state: state.split("-of-")[0] == f"asked {token_of(asked)[:5]}")


def takes_each_state_once_from_anybody(web: Web) -> None:
    seen: set[str] = set()

    def is_right(asked: Asked, state: str) -> bool:
        is_new = state not in seen
        seen.add(state)
        return is_new and state.startswith("asked ")

    asking(web, is_right)


WAYS = (takes_any_state, takes_the_first_word_for_a_user, takes_each_state_once_from_anybody)
for way in WAYS:
    for id in (PRINCIPAL, BINDS, IDENTIFIED):
        is_first = way is takes_any_state and id == PRINCIPAL
        guard_mutant(id, revision=NEWEST, also=ROUNDS, server=stateless, is_thorough=not is_first)(
            way
        )


# -- questions in sessions


def answering(as_first: Callable[[Asked], bool], *, keeps_session: bool) -> Hook:
    """Return what takes some answers of the other user for answers of the first one."""

    def hook(web: Web) -> None:
        usual = web.before
        asked_in: list[str] = []

        def before(asked: Asked) -> tuple[int, Headers, bytes] | None:
            session = asked.headers.get("mcp-session-id", "")
            if asked.tool and token_of(asked) == OWN:
                asked_in.append(session)
            is_answer = isinstance(asked.message, dict) and "result" in asked.message
            is_meant = is_answer and token_of(asked) == OTHER and as_first(asked)
            if is_meant and keeps_session == (session in asked_in):
                asked.headers["authorization"] = f"Bearer {OWN}"
                asked.headers["mcp-session-id"] = asked_in[-1]
            return usual(asked)

        web.before = before

    return hook


for id, keeps_session, ways in (
    (BINDS, False, ("takes_answers_from_any_session", "takes_consent_from_any_session")),
    (IDENTIFIED, True, ("takes_the_session_for_the_user", "takes_consent_for_the_user")),
):
    for name, as_first in zip(
        ways,
        (
            lambda asked: True,
            lambda asked: asked.message["result"].get("action") == "accept",
        ),
        strict=True,
    ):
        hook = answering(as_first, keeps_session=keeps_session)
        guard_mutant(id, revision=NEW, is_thorough="consent" in name)(named(name, hook))


# -- tasks

TASKS = "tasks-ext.security.authorize-each"


def sharing(*methods: str) -> Hook:
    def hook(web: Web) -> None:
        admitting(lambda asked: token_of(asked) == OTHER and asked.method in methods)(web)

    return hook


for name, methods in (
    ("shows_tasks_to_everybody", ("tasks/get",)),
    ("lets_everybody_cancel", ("tasks/cancel",)),
    ("shares_its_tasks", ("tasks/get", "tasks/cancel", "tasks/update")),
):
    guard_mutant(TASKS, revision=NEWEST, server=make_server())(named(name, sharing(*methods)))
