"""Trust in a fleet file: lost when what it launches changes, kept when expectations change."""

import stat

import pytest

from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.file.reader import read_fleet
from accord_tools.fleet.file.trust import TrustStore, launch_digest

FILE = """\
[mcpServers.a]
command = "x"
args = ["1"]
env = { MODE = "fast" }
[mcpServers.b]
url = "https://b.example/mcp"
[server.a]
version = { command = ["x", "--version"] }
time = 5
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "accord-fleet.toml"
    path.write_text(FILE)
    return path


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCORD_FLEET_TRUST", str(tmp_path / "config" / "trust.json"))
    return TrustStore()


def test_trust_is_kept_for_one_user(store, path):
    fleet = read_fleet(path)
    assert not store.is_trusted(fleet)
    assert not store.is_known(fleet)
    store.add(fleet)
    assert TrustStore().is_trusted(read_fleet(path))
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    assert list(store.path.parent.iterdir()) == [store.path]
    assert store.remove(path)
    assert not store.remove(path)
    assert not store.is_trusted(fleet)


@pytest.mark.parametrize(
    ("before", "after", "is_trusted"),
    [
        ("time = 5", "time = 6\ntags = ['x']", True),
        ("[mcpServers.a]", "# a comment\n[mcpServers.a]", True),
        ('"1"', '"2"', False),
        ('command = "x"', 'command = "y"', False),
        ('"fast"', '"slow"', False),
        ("MODE", "LD_PRELOAD", False),
        ("b.example", "c.example", False),
        ('"--version"', '"--remove"', False),
        ("[mcpServers.b]", "[mcpServers.c]", False),
        ('args = ["1"]', 'args = ["1"]\ncwd = "/"', False),
    ],
)
def test_a_change_of_what_is_launched_ends_the_trust(before, after, is_trusted, store, path):
    store.add(read_fleet(path))
    path.write_text(FILE.replace(before, after))
    fleet = read_fleet(path)
    assert store.is_trusted(fleet) == is_trusted
    assert store.is_known(fleet)


def test_a_copy_in_another_folder_is_not_trusted(store, path, tmp_path):
    store.add(read_fleet(path))
    (tmp_path / "other").mkdir()
    copy = tmp_path / "other" / path.name
    copy.write_text(FILE)
    assert not store.is_trusted(read_fleet(copy))


def test_the_order_of_servers_does_not_matter(path):
    digest = launch_digest(read_fleet(path))
    rows = FILE.partition("[mcpServers.b]")
    url, _, rest = rows[2].partition("[server.a]")
    path.write_text(f"[mcpServers.b]{url}{rows[0]}[server.a]{rest}")
    assert launch_digest(read_fleet(path)) == digest


def test_a_damaged_store_is_an_error_and_stays(store, path):
    store.path.parent.mkdir()
    store.path.write_text("nonsense")
    with pytest.raises(FleetError, match=r"trust\.json is not what accord wrote; remove it"):
        store.is_trusted(read_fleet(path))
    with pytest.raises(FleetError):
        store.add(read_fleet(path))
    assert store.path.read_text() == "nonsense"


def test_a_store_that_cannot_be_written_is_an_error(path, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FleetError, match="cannot be"):
        TrustStore(tmp_path / "file" / "trust.json").add(read_fleet(path))
