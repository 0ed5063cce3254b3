"""Names that version 0.2 documented in other modules are still found there, with a warning."""

from importlib import import_module

import pytest

from support.tables import cases

FORMER = {
    "accord.stores": {
        "accord.server": ("EventStore", "MemoryEventStore"),
        "accord.server.tasks": ("MemoryTaskStore", "SqliteTaskStore", "TaskRecord", "TaskStore"),
        "accord.sharing": (
            *("Allowance", "Backend", "KeyRing", "LogPage", "MemoryBackend", "RedisBackend"),
            *("SealedBackend", "SqliteBackend", "StoredRecord", "open_backend"),
        ),
    },
    "accord.check.contract": {"accord_tools.contract": ("ContractBroken", "check_contract")},
}
NAMES = [
    (former, name, place)
    for former, places in FORMER.items()
    for place, names in places.items()
    for name in names
]


@cases(("former", "name", "place"), NAMES)
def test_a_name_is_found_in_its_former_place_with_a_warning(former, name, place):
    expected = f"{former} will go in 0.4; write: from {place} import {name}"
    with pytest.warns(DeprecationWarning, match="will go in 0.4") as warned:
        found = getattr(import_module(former), name)
    assert [str(each.message) for each in warned] == [expected]
    assert warned[0].filename == __file__
    assert name in import_module(place).__all__
    assert found is getattr(import_module(place), name)


@pytest.mark.parametrize(
    ("place", "former", "name"),
    [
        ("accord.testing", "SurfaceChanged", "CatalogChanged"),
        ("accord.testing", "check_surface", "check_catalog"),
        ("accord.testing", "surface_of", "catalog_of"),
        ("accord.client", "ServerEntry", "ServerSpec"),
    ],
)
def test_a_former_name_is_its_new_one_with_a_warning(place, former, name):
    expected = f"{place}.{former} will go in 0.4; write: from {place} import {name}"
    module = import_module(place)
    with pytest.warns(DeprecationWarning, match="will go in 0.4") as warned:
        found = getattr(module, former)
    assert [str(each.message) for each in warned] == [expected]
    assert warned[0].filename == __file__
    assert found is getattr(module, name)
    assert former not in module.__all__


@pytest.mark.parametrize("former", FORMER)
def test_an_unknown_name_of_a_former_place_is_an_attribute_error(former):
    with pytest.raises(AttributeError, match=f"module '{former}' has no attribute 'nothing'"):
        import_module(former).nothing  # noqa: B018
