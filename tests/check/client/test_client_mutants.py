"""A client that violates one requirement is reported for just that one.

They run in this process, in virtual time: waiting costs nothing, and load changes nothing.
"""

import asyncio
import logging
from collections import Counter
from typing import ClassVar

import pytest

from accord.protocol.catalogue import catalogue
from accord.protocol.revisions import REVISIONS
from accord.testing import run_in_virtual_time
from accord_tools.check.client_check import (
    NOT_OF_CLIENTS,
    UNSEEN,
    ClientPlan,
    check_client,
    why_not_of_clients,
)
from check.client import (  # noqa: F401  # modules register their mutants
    authorization_mutants,
    mutants_conduct,
    mutants_eras,
    mutants_handshake,
    mutants_messages,
    mutants_more,
    mutants_newer,
    mutants_results,
    mutants_rounds,
    mutants_stateless,
    mutants_tasks,
)
from check.client.mutants import UNBREAKABLE, RawSse
from check.client.mutants_conduct import KEEPS, ODD
from check.client.mutants_stateless import ROUNDS
from check.client.raw import Gone, Message, Raw
from check.client.raw_newer import RawNewer
from check.client.raw_stateless import RawDual, RawStateless
from check.client.registering import FEW, MUTANTS

IN_REAL_TIME = (
    "http.client.accept-both-AcceptsJsonAlone",
    "jsonrpc.encoding.utf8-WritesLatin1-stdio",
    "sse.client.posts-to-endpoint-PostsElsewhere-sse",
    "mrtr.client.echo-state-loses_the_state",
)


def found(kind, over="http", scenarios=(), run=run_in_virtual_time, revisions=None):
    """Check a client in this process, and return what it breaks."""

    async def client(place):
        return await kind(place).run()

    plan = ClientPlan(
        command=["{server}" if over == "stdio" else "{url}", *kind.options],
        transport="sse" if over == "sse" else "http",
        revisions=[kind.revision] if revisions is None else revisions,
        client=client,
        timeout=10,
        patience=10.0 if run is asyncio.run else 0.4,
        at_once=4,
        scenarios=scenarios,
    )
    logging.getLogger("accord_tools.check").setLevel(logging.CRITICAL)
    report = run(check_client(plan))
    return {each.id: each.message for each in report.results if each.verdict in ("fail", "warn")}


def found_of(mutant, run=run_in_virtual_time):
    scenarios = mutant.scenarios or ("none",)
    return found(mutant.kind, mutant.over, scenarios, run, mutant.revisions)


def marked(name):
    marks = [pytest.mark.thorough] if MUTANTS[name].is_thorough else []
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [marked(each) for each in sorted(MUTANTS)])
def test_a_mutant_is_caught_by_just_the_requirement_it_breaks(name):
    mutant = MUTANTS[name]
    breaches = found_of(mutant)
    assert mutant.id in breaches, breaches
    assert set(breaches) == {mutant.id, *mutant.also}, breaches


@pytest.mark.parametrize("name", IN_REAL_TIME)
def test_a_mutant_is_caught_in_real_time(name):
    mutant = MUTANTS[name]
    breaches = found_of(mutant, asyncio.run)
    assert set(breaches) == {mutant.id, *mutant.also}, breaches


@pytest.mark.parametrize("over", ["http", "stdio"])
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
def test_a_correct_client_raises_no_alarm(over, revision):
    kind = type("ByTheBook", (Raw,), {"revision": revision})
    assert found(kind, over) == {}


@pytest.mark.parametrize("over", ["http", "stdio"])
@pytest.mark.parametrize("kind", [RawNewer, RawStateless])
def test_a_correct_client_of_a_later_revision_raises_no_alarm(over, kind):
    assert found(kind, over) == {}


@pytest.mark.thorough
@pytest.mark.parametrize("over", ["http", "stdio"])
def test_a_correct_client_of_both_eras_raises_no_alarm(over):
    # It authorizes as clients of older revisions do; test_authorization.py has newer ones.
    alarms = found(RawDual, over, revisions=())
    assert {id: why for id, why in alarms.items() if not id.startswith("auth.")} == {}


def test_a_correct_client_over_sse_raises_no_alarm():
    assert found(RawSse, "sse", ("SendsEveryRequest", "ReturnsListsInPages")) == {}


class EndsBadlyWhateverItLists(RawStateless):
    """Lists the tools once more at its end, and ends with an error if there was one before."""

    has_failed = False

    async def ask(self, method, params=None):
        reply = await super().ask(method, params)
        self.has_failed = self.has_failed or "error" in (reply or {})
        return reply

    async def work(self):
        await super().work()
        await self.ask("tools/list", {})
        if self.has_failed:
            raise Gone


def test_a_client_that_ends_badly_after_it_went_on_did_not_stumble_over_the_first_list():
    assert "tools.output-schema.any-type" not in found(EndsBadlyWhateverItLists, "http", (ODD,))


class DeclaresNothing(RawStateless):
    """Can be asked nothing, so that a resource is read at once, and keeps it."""

    capabilities: ClassVar[Message] = {}


@pytest.mark.parametrize("over", ["http", "stdio"])
def test_a_client_that_can_be_asked_nothing_may_keep_a_resource(over):
    assert found(DeclaresNothing, over, (KEEPS, ROUNDS)) == {}


def is_breakable(row, revision):
    return row.holds_in(revision) and why_not_of_clients(row, revision) is None


def breakable_rows():
    """Return the active requirements that bind a client under any revision, without those of
    authorization, which have a test of their own.
    """
    return {
        row.id
        for row in catalogue().values()
        if row.party in ("client", "both", "sender", "receiver")
        and row.check != "human"
        and not row.id.startswith("auth.")
        and any(is_breakable(row, each) for each in REVISIONS)
    }


def ways_to_break():
    """Count the mutants of each requirement: a fault may break several of them."""
    return Counter(id for each in MUTANTS.values() for id in (each.id, *each.also))


def test_every_requirement_on_clients_has_three_mutants_or_a_reason():
    ways = ways_to_break()
    excused = {*UNBREAKABLE, *UNSEEN, *FEW}
    assert {id: ways[id] for id in breakable_rows() - excused if ways[id] < 3} == {}


def test_requirements_with_three_mutants_are_not_excused():
    ways = ways_to_break()
    few = [id for id in FEW if not id.startswith("auth.")]
    assert {id: ways[id] for id in few if ways[id] >= 3 or not ways[id]} == {}


def test_requirements_with_a_mutant_are_not_called_unbreakable():
    assert ways_to_break().keys() & {*UNBREAKABLE, *UNSEEN} == set()


def test_mutants_and_reasons_name_requirements_of_the_catalogue():
    named = ways_to_break().keys() | UNBREAKABLE.keys() | FEW.keys()
    assert named - catalogue().keys() == set()


def test_every_requirement_on_clients_has_a_mutant_or_a_reason():
    rows = breakable_rows()
    broken = {id for each in MUTANTS.values() for id in (each.id, *each.also)}
    reasons = {id for id in UNBREAKABLE if not id.startswith("auth.")} | set(UNSEEN)
    assert rows - broken == reasons - broken - set(NOT_OF_CLIENTS)
    assert not set(UNBREAKABLE) & set(UNSEEN)
