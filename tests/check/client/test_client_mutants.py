"""Clients that break one requirement are caught by just that one."""

import asyncio
import logging

import pytest

from accord.check.client_check import ClientPlan, check_client
from accord.protocol.catalogue import catalogue
from check.client.mutants import MUTANTS, UNBREAKABLE, RawSse
from check.client.raw import Raw


def found(kind, over="http", plays=(), patience=2.0):
    """Check a client in this process, and return what it breaks."""

    async def client(place):
        return await kind(place).run()

    plan = ClientPlan(
        command=["{server}" if over == "stdio" else "{url}"],
        transport="sse" if over == "sse" else "http",
        revisions=[kind.revision],
        client=client,
        timeout=10,
        patience=patience,
        at_once=4,
        plays=plays,
    )
    logging.getLogger("accord.check").setLevel(logging.CRITICAL)
    report = asyncio.run(check_client(plan))
    return {each.id: each.message for each in report.results if each.verdict in ("fail", "warn")}


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_mutant_is_caught_by_just_the_requirement_it_breaks(name):
    mutant = MUTANTS[name]
    breaches = found(mutant.kind, mutant.over, mutant.plays or ("none",), mutant.patience)
    assert mutant.id in breaches, breaches
    assert set(breaches) == {mutant.id, *mutant.also}, breaches


@pytest.mark.parametrize("over", ["http", "stdio"])
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
def test_a_client_by_the_book_raises_no_alarm(over, revision):
    kind = type("ByTheBook", (Raw,), {"revision": revision})
    assert found(kind, over) == {}


def test_a_client_of_the_older_form_raises_no_alarm():
    assert found(RawSse, "sse", ("AsksEverything", "PagesLists")) == {}


def test_every_requirement_on_clients_has_a_mutant_or_a_reason():
    rows = {
        row.id
        for row in catalogue().values()
        if row.party in ("client", "both", "sender", "receiver")
        and row.check != "human"
        and any(row.holds_in(each) for each in ("2024-11-05", "2025-03-26", "2025-06-18"))
    }
    broken = {id for each in MUTANTS.values() for id in (each.id, *each.also)}
    assert rows - broken == set(UNBREAKABLE)
