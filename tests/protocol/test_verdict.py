import pytest

from accord.protocol.catalogue import AREAS, catalogue
from accord.protocol.conversation import Conversation
from accord.protocol.verdict import (
    SUPERSEDED_BY,
    most_specific,
    out_of_scope,
    specificity,
)
from accord.protocol.violation import Violation
from support.tables import cases

ROWS = catalogue()
PAGED = ("tools", "resources", "prompts")


def first_of(area: str):
    return next(row for row in ROWS.values() if row.area == area and "capability" not in row.id)


def conversation(client=None, server=None) -> Conversation:
    made = Conversation()
    made.parties["client"].capabilities = None if client is None else frozenset(client)
    made.parties["server"].capabilities = None if server is None else frozenset(server)
    return made


@cases(
    ("area", "transports", "reason"),
    [
        ("stdio", {"stdio"}, None),
        ("stdio", {"http"}, "the conversation does not run over stdio"),
        ("http", {"stdio"}, "the conversation does not run over http"),
        ("http", {"http", "stdio"}, None),
        ("http", set(), None),
        ("sse", {"http"}, "the conversation does not run over sse"),
        ("auth", {"stdio"}, "the conversation does not run over http or sse"),
        ("auth", {"sse"}, None),
        ("session", {"stdio"}, "the conversation does not run over http"),
        ("jsonrpc", {"stdio"}, None),
    ],
)
def test_requirements_of_another_transport_do_not_apply(area, transports, reason):
    assert out_of_scope(first_of(area), conversation(), transports) == reason


@cases(
    ("area", "client", "server", "reason"),
    [
        ("tools", (), ("tools",), None),
        ("tools", (), (), "the server did not declare tools"),
        ("tools", None, None, None),
        ("resources", (), ("tools",), "the server did not declare resources"),
        ("prompts", (), ("tools",), "the server did not declare prompts"),
        ("logging", (), ("tools",), "the server did not declare logging"),
        ("roots", (), ("roots",), "the client did not declare roots"),
        ("elicitation", (), ("tools",), "the client did not declare elicitation"),
        ("sampling", (), ("tools",), "the client did not declare sampling"),
        ("sampling", ("sampling",), (), None),
        ("completion", (), (), "the server did not declare completions"),
        ("pagination", (), ("prompts",), None),
        (
            "pagination",
            (),
            (),
            " and ".join(f"the server did not declare {each}" for each in PAGED),
        ),
        (
            "tasks",
            (),
            (),
            "the server did not declare tasks and the client did not declare tasks",
        ),
        ("tasks", ("tasks",), (), None),
        ("tasks", None, (), None),
        ("lifecycle", (), (), None),
    ],
)
def test_requirements_of_what_was_not_declared_do_not_apply(area, client, server, reason):
    assert out_of_scope(first_of(area), conversation(client, server), {"stdio"}) == reason


@pytest.mark.parametrize(
    "id", ["tools.capability.declared", "roots.list-changed.capability-required"]
)
def test_whether_something_was_declared_always_matters(id):
    assert out_of_scope(ROWS[id], conversation((), ()), {"stdio"}) is None


def test_every_named_requirement_exists():
    named = set(SUPERSEDED_BY) | {id for ids in SUPERSEDED_BY.values() for id in ids}
    assert named <= set(ROWS)


def test_no_requirement_yields_to_one_that_yields_to_it():
    for id, closer in SUPERSEDED_BY.items():
        assert id not in closer
        assert not [other for other in closer if id in SUPERSEDED_BY.get(other, ())]


def test_areas_with_conditions_exist():
    for area in ("stdio", "http", "sse", "auth", "session", "tools", "tasks", "pagination"):
        assert area in AREAS


@cases(
    "ids",
    [
        # one method before all messages
        ("tools.list.array", "result.type.present", "jsonrpc.response.result-member"),
        ("ping.response.empty", "jsonrpc.response.result-member"),
        # a MUST before a SHOULD
        ("tools.item.name", "tools.name.charset"),
        # a new revision before an older one
        ("tools.input-schema.type-object", "tools.item.input-schema"),
        # what the specification says before what servers do
        ("schema.wire-schemas-valid", "lifecycle.capabilities.declared", "practice.schema.types"),
        ("practice.schema.types", "not.in-the-catalogue"),
    ],
)
def test_requirements_that_say_more_come_first(ids):
    order = [specificity(each, "2026-07-28") for each in ids]
    assert order == sorted(set(order))


def test_a_less_exact_requirement_is_named_beside_the_one_that_replaces_it():
    general, exact = "progress.stops-after-completion", "progress.notification.active-only"
    other = "jsonrpc.request.id-not-null"
    found = most_specific([Violation(each, "server", "x") for each in (general, exact, other)])
    assert [(each.requirement, each.also) for each in found] == [(exact, (general,)), (other, ())]
    [alone] = most_specific([Violation(general, "server", "x")])
    assert (alone.requirement, alone.also) == (general, ())
