import json
from pathlib import Path
from typing import Any

import pytest

from accord import Server
from accord.testing import CatalogChanged, catalog_of, check_catalog, connected
from support import testing_servers as servers
from support.waiting import run


def catalog(server: Any) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        async with connected(server, revision="2025-06-18") as client:
            return await catalog_of(client)

    found: dict[str, Any] = run(main())
    return found


def test_a_catalog_has_every_entry_sorted_by_name() -> None:
    found = catalog(servers.make)
    assert found["server"] == "good"
    assert found["instructions"] == "Be good."
    assert [each["name"] for each in found["tools"]] == ["add", "where"]
    assert found["tools"][0]["inputSchema"]["required"] == ["a", "b"]
    assert [each["name"] for each in found["prompts"]] == ["hello"]
    assert "resources" not in found


def test_an_empty_server_has_an_empty_catalog() -> None:
    assert catalog(Server("bare")) == {"server": "bare"}


def test_a_missing_file_is_written_and_then_compared(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "catalog.json"
    check_catalog(catalog(servers.make), file)
    assert json.loads(file.read_text())["server"] == "good"
    check_catalog(catalog(servers.make), file)


def test_a_change_is_shown_as_a_difference(tmp_path: Path) -> None:
    file = tmp_path / "catalog.json"
    check_catalog(catalog(servers.make), file)
    server = servers.make()
    server.tool_entries.remove("add")
    with pytest.raises(CatalogChanged) as caught:
        check_catalog(catalog(server), file)
    assert '-      "description": "Add two numbers.",' in str(caught.value)
    check_catalog(catalog(server), file, update=True)
    check_catalog(catalog(server), file)
