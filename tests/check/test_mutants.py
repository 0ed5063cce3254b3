"""Every requirement that a server can break is broken by a mutant, and a check finds just that.

Mutants run in memory or over sockets of this process, in virtual time: waiting costs nothing, and
a busy machine changes nothing. Those that are processes run in real time, and so do a few others.
"""

from collections import Counter

import pytest

from accord.protocol.catalogue import catalogue
from accord.protocol.revisions import HANDSHAKE, REVISIONS
from accord.testing import run_in_virtual_time
from check.mutants.foundation import (
    FEW,
    UNBREAKABLE,
    Between,
    all_mutants,
    found,
    gate_mutants,
    in_memory,
)
from support.tables import cases

MUTANTS = all_mutants()
IN_REAL_TIME = (
    "auth.token.validated-takes-any-token",
    "http.post.accepted-202-says-null-to-notifications",
    "jsonrpc.notification.not-answered-answers-notifications",
    "sse.server.message-event-names-events-after-methods",
)
BOUND = {"server", "both", "sender", "receiver", "authorization-server"}
KINDS = {"wire", "server-probe", "process", "http-probe", "auth-probe"}


def rows():
    return [
        row
        for row in catalogue().values()
        if row.party in BOUND
        and row.check in KINDS
        and any(row.holds_in(revision) for revision in REVISIONS)
    ]


def assert_found(mutant, breaches):
    assert mutant.id in breaches
    assert set(breaches) <= {mutant.id, *mutant.also}, breaches
    assert set(mutant.also) <= set(breaches)


GATE = gate_mutants()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in GATE else [pytest.mark.thorough])
        for name in sorted(MUTANTS)
    ],
)
def test_a_mutant_is_found_by_just_the_requirement_it_breaks(name):
    assert_found(MUTANTS[name], MUTANTS[name].check())


@pytest.mark.parametrize("name", IN_REAL_TIME)
def test_a_mutant_is_found_in_real_time(name):
    assert_found(MUTANTS[name], MUTANTS[name].check(is_real=True))


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(name for name in MUTANTS if not MUTANTS[name].only))
def test_all_scenarios_together_blame_a_mutant_for_nothing_else(name):
    assert_found(MUTANTS[name], MUTANTS[name].check(is_full=True))


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_the_server_without_a_fault_raises_no_alarm(revision):
    def hook(wire: Between) -> None:
        pass

    assert run_in_virtual_time(found(in_memory(hook), revision)) == {}


@cases("area", sorted({row.area for row in rows()}))
def test_every_requirement_of_an_area_has_three_mutants_or_a_reason(area):
    counts = Counter(mutant.id for mutant in MUTANTS.values())
    excused = UNBREAKABLE | FEW
    open_rows = {
        row.id: counts[row.id]
        for row in rows()
        if row.area == area and counts[row.id] < 3 and row.id not in excused
    }
    assert open_rows == {}


def test_requirements_with_three_mutants_are_not_excused():
    counts = Counter(mutant.id for mutant in MUTANTS.values())
    assert {id: counts[id] for id in FEW if counts[id] >= 3 or not counts[id]} == {}


def test_requirements_with_a_mutant_are_not_called_unbreakable():
    assert {mutant.id for mutant in MUTANTS.values()} & set(UNBREAKABLE) == set()


def test_mutants_and_reasons_name_requirements_of_the_catalogue():
    named = {id for mutant in MUTANTS.values() for id in (mutant.id, *mutant.also)}
    assert (named | set(UNBREAKABLE) | set(FEW)) - set(catalogue()) == set()
