"""Every requirement that a server can break is broken by a mutant, and a check finds just that."""

import asyncio

import pytest

from accord.protocol.catalogue import catalogue
from check.mutants.foundation import UNBREAKABLE, Between, all_mutants, found, in_memory

MUTANTS = all_mutants()
MISSION = ("2024-11-05", "2025-03-26", "2025-06-18")
BOUND = {"server", "both", "sender", "receiver", "authorization-server"}
KINDS = {"wire", "server-probe", "process", "http-probe", "auth-probe"}


def rows():
    return [
        row
        for row in catalogue().values()
        if row.party in BOUND
        and row.check in KINDS
        and any(row.holds_in(revision) for revision in MISSION)
    ]


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_mutant_is_found_by_just_the_requirement_it_breaks(name):
    mutant = MUTANTS[name]
    breaches = asyncio.run(found(mutant.making, mutant.revision, mutant.only))
    assert mutant.id in breaches
    assert set(breaches) <= {mutant.id, *mutant.also}, breaches
    assert set(mutant.also) <= set(breaches)


@pytest.mark.parametrize("revision", MISSION)
def test_the_server_without_a_fault_raises_no_alarm(revision):
    def hook(wire: Between) -> None:
        pass

    assert asyncio.run(found(in_memory(hook), revision)) == {}


@pytest.mark.parametrize("area", sorted({row.area for row in rows()}))
def test_every_requirement_of_an_area_has_a_mutant_or_a_reason(area):
    broken = {mutant.id for mutant in MUTANTS.values()}
    open_rows = [
        row.id
        for row in rows()
        if row.area == area and row.id not in broken and row.id not in UNBREAKABLE
    ]
    assert open_rows == []


def test_what_has_a_mutant_is_not_called_unbreakable():
    assert {mutant.id for mutant in MUTANTS.values()} & set(UNBREAKABLE) == set()


def test_mutants_and_reasons_name_requirements_of_the_catalogue():
    named = {id for mutant in MUTANTS.values() for id in (mutant.id, *mutant.also)}
    assert (named | set(UNBREAKABLE)) - set(catalogue()) == set()
