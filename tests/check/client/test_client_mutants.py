"""A client that violates one requirement is reported for just that one.

They run in this process, in virtual time: waiting costs nothing, and load changes nothing.
"""

import asyncio
import logging

import pytest

from accord.check.client_check import ClientPlan, check_client
from accord.protocol.catalogue import catalogue
from accord.testing import run_in_virtual_time
from check.client import authorization_mutants  # noqa: F401  # it registers mutants
from check.client.mutants import MUTANTS, UNBREAKABLE, RawSse
from check.client.raw import Raw

IN_REAL_TIME = (
    "http.client.accept-both-AcceptsJsonAlone",
    "jsonrpc.encoding.utf8-WritesLatin1",
    "sse.client.posts-to-endpoint-PostsElsewhere",
)


def found(kind, over="http", scenarios=(), run=run_in_virtual_time):
    """Check a client in this process, and return what it breaks."""

    async def client(place):
        return await kind(place).run()

    plan = ClientPlan(
        command=["{server}" if over == "stdio" else "{url}", *kind.options],
        transport="sse" if over == "sse" else "http",
        revisions=[kind.revision],
        client=client,
        timeout=10,
        patience=10.0 if run is asyncio.run else 0.4,
        at_once=4,
        scenarios=scenarios,
    )
    logging.getLogger("accord.check").setLevel(logging.CRITICAL)
    report = run(check_client(plan))
    return {each.id: each.message for each in report.results if each.verdict in ("fail", "warn")}


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_mutant_is_caught_by_just_the_requirement_it_breaks(name):
    mutant = MUTANTS[name]
    breaches = found(mutant.kind, mutant.over, mutant.scenarios or ("none",))
    assert mutant.id in breaches, breaches
    assert set(breaches) == {mutant.id, *mutant.also}, breaches


@pytest.mark.parametrize("name", IN_REAL_TIME)
def test_a_mutant_is_caught_in_real_time(name):
    mutant = MUTANTS[name]
    breaches = found(mutant.kind, mutant.over, mutant.scenarios or ("none",), asyncio.run)
    assert set(breaches) == {mutant.id, *mutant.also}, breaches


@pytest.mark.parametrize("over", ["http", "stdio"])
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
def test_a_correct_client_raises_no_alarm(over, revision):
    kind = type("ByTheBook", (Raw,), {"revision": revision})
    assert found(kind, over) == {}


def test_a_correct_client_over_sse_raises_no_alarm():
    assert found(RawSse, "sse", ("SendsEveryRequest", "ReturnsListsInPages")) == {}


def test_every_requirement_on_clients_has_a_mutant_or_a_reason():
    rows = {
        row.id
        for row in catalogue().values()
        if row.party in ("client", "both", "sender", "receiver")
        and row.check != "human"
        and any(row.holds_in(each) for each in ("2024-11-05", "2025-03-26", "2025-06-18"))
    }
    broken = {id for each in MUTANTS.values() for id in (each.id, *each.also)}
    # A later revision may have further reasons.
    assert rows - broken == {id for id in UNBREAKABLE if id in rows}
