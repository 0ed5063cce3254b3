import json
from pathlib import Path
from typing import Any

import pytest

from accord import Server
from accord.testing import SurfaceChanged, check_surface, connected, surface_of
from support import testing_servers as servers
from support.waiting import run


def surface(server: Any) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        async with connected(server, revision="2025-06-18") as client:
            return await surface_of(client)

    found: dict[str, Any] = run(main())
    return found


def test_a_surface_has_every_entry_sorted_by_name() -> None:
    found = surface(servers.make)
    assert found["server"] == "good"
    assert found["instructions"] == "Be good."
    assert [each["name"] for each in found["tools"]] == ["add", "where"]
    assert found["tools"][0]["inputSchema"]["required"] == ["a", "b"]
    assert [each["name"] for each in found["prompts"]] == ["hello"]
    assert "resources" not in found


def test_an_empty_server_has_an_empty_surface() -> None:
    assert surface(Server("bare")) == {"server": "bare"}


def test_a_missing_file_is_written_and_then_compared(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "surface.json"
    check_surface(surface(servers.make), file)
    assert json.loads(file.read_text())["server"] == "good"
    check_surface(surface(servers.make), file)


def test_a_change_is_shown_as_a_difference(tmp_path: Path) -> None:
    file = tmp_path / "surface.json"
    check_surface(surface(servers.make), file)
    server = servers.make()
    server.tool_entries.remove("add")
    with pytest.raises(SurfaceChanged) as caught:
        check_surface(surface(server), file)
    assert '-      "description": "Add two numbers.",' in str(caught.value)
    check_surface(surface(server), file, update=True)
    check_surface(surface(server), file)
