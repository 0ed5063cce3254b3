"""Every host: a server is added and removed, and the file is what it was before."""

import os
import sys

import pytest

from accord.client.server_spec import ServerSpec
from accord_tools.hosts.checking.files import check_bytes
from accord_tools.hosts.definition import HostsError, Machine
from accord_tools.hosts.documents.document import open_document, read_text_file
from accord_tools.hosts.entries.shaping import entries_in, from_host
from accord_tools.hosts.operations.edits import remove_entry
from accord_tools.hosts.operations.plan import plan_addition, plan_removal
from accord_tools.hosts.table import default_file, load_hosts
from accord_tools.hosts.writing.change import write_changes
from accord_tools.hosts.writing.journal import Journal
from hosts.host_texts import broken_texts, texts_for

HOSTS = load_hosts()
STDIO = ServerSpec(
    name="desk", command=(sys.executable, "-P", "-m", "accord", "run", "/opt/desk/a b.py")
)
REMOTE = ServerSpec(name="desk", transport="http", url="https://example.com/mcp")
FILES = [
    pytest.param(host, scope, id=f"{host.id}-{scope}")
    for host in HOSTS.values()
    for scope in ("user", "project")
    if (host.user if scope == "user" else host.project)
    # Each server of a project has a file of its own there.
    if (host.id, scope) != ("continue", "project")
]


@pytest.fixture
def machine(tmp_path):
    home = tmp_path / "home"
    project = tmp_path / "project"
    home.mkdir()
    project.mkdir()
    environ = {
        "HOME": str(home),
        "APPDATA": str(home / "roaming"),
        "LOCALAPPDATA": str(home / "local"),
        "PATH": os.defpath,
    }
    return Machine(system="linux", environ=environ, home=home, project=project)


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "journal")


def file_of(host, machine, scope):
    """Return the file of a host on Linux, or on the system that it runs on."""
    from msgspec.structs import replace

    for system in ("linux", "macos", "windows"):
        file = default_file(host, replace(machine, system=system), scope)
        if file is not None:
            return file
    raise AssertionError(host.id)


def write(file, data):
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_bytes(data)


def servers_in(file):
    document = open_document(read_text_file(file.path.read_bytes()).text, file.format)
    return {name: value for name, (_, value) in entries_in(document.data, file).items()}


def is_refused(file, text, machine):
    """Return whether the host is known to refuse such a file; an addition says so then."""
    codes = {"file-comments", "file-mark"}
    found = check_bytes(file, text.encode(), machine).findings
    if not any(each.code in codes and each.severity == "error" for each in found):
        return False
    write(file, text.encode())
    entry = STDIO if file.host.stdio else REMOTE
    with pytest.raises(HostsError, match="first"):
        plan_addition(file, entry, machine)
    return True


def check_round_trip(host, scope, machine, journal, labels):
    """Add and remove a server in files of several styles, each written and read again."""
    file = file_of(host, machine, scope)
    entry = STDIO if host.stdio else REMOTE
    for label, text in texts_for(file).items():
        if label not in labels or is_refused(file, text, machine):
            continue
        before = text.encode() if text else None
        if before is None:
            file.path.unlink(missing_ok=True)
        else:
            write(file, before)
        known = {} if before is None else servers_in(file)
        write_changes(plan_addition(file, entry, machine).changes, journal)
        found = servers_in(file)
        assert {**known, "desk": found["desk"]} == found, label
        back = from_host("desk", found["desk"], host)
        assert (back.command, back.url) == (entry.command, entry.url), label
        assert not plan_addition(file, entry, machine).is_needed, label
        write_changes(plan_removal(file, "desk", journal).changes, journal)
        now = file.path.read_bytes() if file.path.exists() else None
        assert now == before, label


@pytest.mark.parametrize(("host", "scope"), FILES)
def test_adding_and_removing_leaves_the_file_as_it_was(host, scope, machine, journal):
    check_round_trip(host, scope, machine, journal, ("missing", "commented", "usual"))


@pytest.mark.thorough
@pytest.mark.parametrize(("host", "scope"), FILES)
def test_adding_and_removing_leaves_files_of_every_style_as_they_were(
    host, scope, machine, journal
):
    check_round_trip(host, scope, machine, journal, texts_for(file_of(host, machine, scope)))


@pytest.mark.parametrize(("host", "scope"), FILES)
def test_the_texts_after_adding_and_removing_are_those_of_before(host, scope, machine):
    file = file_of(host, machine, scope)
    entry = STDIO if host.stdio else REMOTE
    for label, text in texts_for(file).items():
        if is_refused(file, text, machine):
            continue
        write(file, text.encode())
        added = plan_addition(file, entry, machine).after
        assert added != text.encode(), label
        if "other" in text:  # else only the journal knows whether the object was there before
            assert remove_entry(file, "desk")(added) == text.encode(), label


@pytest.mark.parametrize(("host", "scope"), FILES)
def test_a_broken_file_is_refused_with_its_place_and_stays(host, scope, machine):
    file = file_of(host, machine, scope)
    entry = STDIO if host.stdio else REMOTE
    for label, text in broken_texts(file).items():
        write(file, text.encode())
        with pytest.raises(HostsError, match=r":\d+:\d+: ") as refused:
            plan_addition(file, entry, machine)
        assert str(file.path) in str(refused.value), label
        assert file.path.read_bytes() == text.encode(), label


@pytest.mark.parametrize(("host", "scope"), FILES)
def test_a_server_at_a_url_is_added_to_every_host(host, scope, machine, journal):
    file = file_of(host, machine, scope)
    write_changes(plan_addition(file, REMOTE, machine).changes, journal)
    found = from_host("desk", servers_in(file)["desk"], host)
    if host.http is not None:
        assert (found.transport, found.url) == ("http", REMOTE.url)
    else:
        assert found.command[-2:] == ("proxy", REMOTE.url)
