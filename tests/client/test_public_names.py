"""Completion on a client shows what its page shows."""

import re
from pathlib import Path

from accord import Client
from accord.client import blocking

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text(encoding="utf-8")


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def documented() -> list[str]:
    """Return the names in the first column of the table of operations."""
    table = PAGE.partition("| operation | |")[2].partition("\n\n")[0]
    cells = [row.split(" | ")[0] for row in table.splitlines() if row.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`(\w+)[`(]", cell)]


def test_a_client_has_the_names_that_its_page_shows() -> None:
    names = documented()
    assert len(names) > 20
    assert sorted({name for name in names if names.count(name) > 1}) == []
    assert public(Client) == {*names}


def test_a_blocking_client_has_the_names_of_the_client() -> None:
    assert public(blocking.Client) == public(Client)


def test_a_client_is_one_class() -> None:
    assert Client.__mro__ == (Client, object)
