from collections.abc import Iterator

import pytest

from support.api import Api, running_api


@pytest.fixture(scope="session")
def api() -> Iterator[Api]:
    with running_api() as api:
        yield api
