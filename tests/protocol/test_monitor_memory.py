import tracemalloc

import pytest

from accord.protocol.party import Bounded, Memory, UsedIds


def test_a_bounded_dictionary_forgets_its_oldest_entry():
    kept: Bounded[int, str] = Bounded(2)
    kept[1], kept[2], kept[1] = "a", "b", "c"
    assert dict(kept) == {1: "c", 2: "b"}
    kept[3] = "d"
    assert dict(kept) == {2: "b", 3: "d"}


def test_setdefault_keeps_the_bound_as_well():
    kept: Bounded[int, str] = Bounded(2)
    for key in range(5):
        kept.setdefault(key, "x")
    assert list(kept) == [3, 4]


@pytest.mark.parametrize(
    ("added", "asked", "known"),
    [
        ([], 1, False),
        ([1], 1, True),
        ([1], "1", False),
        (["1"], 1, False),
        (["a"], "a", True),
        ([5, 6, 7], 6, True),
        ([5, 6, 7], 8, False),
        ([5, 4, 3], 3, True),
        ([5, 4, 3], 2, False),
        ([0, 1000, 1001], 1000, True),
        ([0, 1000, 1001], 500, False),
        ([1, 3, 2], 3, True),
        ([1, 3, 3], 3, True),
        ([2, 2], 2, True),
    ],
    ids=str,
)
def test_used_ids_are_remembered_by_type_and_value(added, asked, known):
    used = UsedIds()
    for id in added:
        used.add(id)
    assert (asked in used) is known


def test_ids_that_count_take_no_space():
    used = UsedIds()
    used.add(0)
    tracemalloc.start()
    try:
        for id in range(1, 200_000):
            used.add(id)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 10_000
    assert 199_999 in used


def test_cursors_are_remembered_by_list():
    memory = Memory()
    memory.cursors_of("tools/list")["a"] = None
    assert "a" in memory.cursors_of("tools/list")
    assert "a" not in memory.cursors_of("prompts/list")
