"""Lifetimes: how they are written, joined and asked."""

from accord.types._base import (
    ALWAYS,
    REVISION_IDS,
    Lifetime,
    RevisionId,
    Struct,
    lifetime_of,
    must_send,
    since,
    until,
    was,
)
from support.tables import cases

MIDDLE = Lifetime("2025-03-26", "2025-06-18")


@cases(
    ("revision", "alive"),
    [
        ("2024-11-05", False),
        ("2025-03-26", True),
        ("2025-06-18", True),
        ("2025-11-25", False),
        (None, False),
    ],
    ids=str,
)
def test_both_ends_of_a_lifetime_belong_to_it(revision: object, alive: bool) -> None:
    assert (revision in MIDDLE) is alive


def test_revision_ids_stand_in_order_of_age() -> None:
    assert list(REVISION_IDS) == sorted(REVISION_IDS)


def test_lifetimes_are_joined_to_what_both_allow() -> None:
    assert since("2025-03-26") & until("2025-06-18") == MIDDLE
    assert MIDDLE & ALWAYS == MIDDLE


def test_a_struct_keeps_the_narrowest_of_its_marks() -> None:
    @since("2025-03-26")
    @until("2025-06-18")
    class Marked(Struct):
        pass

    assert lifetime_of(Marked) == MIDDLE


def test_a_lifetime_is_not_inherited() -> None:
    @since("2025-06-18")
    class Parent(Struct):
        pass

    class Child(Parent):
        pass

    assert lifetime_of(Child) == ALWAYS


@cases("unmarked", [int, Struct, "text", list[int]], ids=str)
def test_a_type_without_a_mark_lives_always(unmarked: object) -> None:
    assert lifetime_of(unmarked) == ALWAYS


@cases("revision", REVISION_IDS)
def test_a_demand_without_ends_holds_always(revision: RevisionId) -> None:
    assert revision in must_send(stamp=1).lifetime


def test_a_former_type_holds_up_to_its_last_revision() -> None:
    former = was(int, until="2025-06-18")
    assert "2025-06-18" in former.lifetime
    assert "2025-11-25" not in former.lifetime
