"""Workers that all scenarios share; each scenario finds them whole."""

from collections.abc import Iterator

import pytest

from support.scale.fleet import Fleet, running_fleet
from support.scale.stores import KINDS


@pytest.fixture(scope="session", params=KINDS)
def shared_fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """Four workers with a store, started once for each kind of store."""
    folder = tmp_path_factory.mktemp(f"fleet-{request.param}")
    with running_fleet(request.param, folder, users=True, store_patience=2.0) as fleet:
        yield fleet


@pytest.fixture
def fleet(shared_fleet: Fleet) -> Fleet:
    """The shared workers, all of them running and ready."""
    shared_fleet.repair()
    return shared_fleet
