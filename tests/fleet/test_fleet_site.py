import json
import os
import re
import stat
from xml.etree import ElementTree as ET

import msgspec
import pytest
from msgspec.structs import replace

from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.rendering.site import MARKER, file_names, write_site
from accord_tools.fleet.results import FleetView, ServerDocuments
from accord_tools.reports.html import as_html
from fleet.views import EVIL, failing_server, hostile_view, run_of, server, unreachable
from reports.page_elements import PageElements
from reports.sample_reports import server_report
from support.tables import cases


def view_of(*results, **members):
    return FleetView(run=run_of(results), **members)


def files_in(folder):
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MARKER
    }


def test_a_site_has_an_index_pages_badges_and_json(tmp_path):
    folder = tmp_path / "site"
    report = msgspec.json.encode(server_report(3))
    view = view_of(
        server("good"), unreachable("gone"), documents={"good": ServerDocuments(report=report)}
    )
    write_site(view, folder)
    assert files_in(folder) == {
        *("index.html", "fleet.json", "badges/fleet.svg", "badges/fleet.json"),
        *("servers/good.html", "badges/good.svg", "badges/good.json"),
        *("servers/gone.html", "badges/gone.svg", "badges/gone.json"),
    }
    index = (folder / "index.html").read_text()
    assert '<a href="servers/good.html">all requirements</a>' in index
    page = (folder / "servers/good.html").read_text()
    assert "MCP conformance report" in page
    assert '<a href="../index.html">All servers</a>' in page
    assert json.loads((folder / "fleet.json").read_text())["run"]["fleet"] == "desk servers"
    ET.fromstring((folder / "badges/gone.svg").read_text())
    assert json.loads((folder / "badges/good.json").read_text())["label"] == "MCP"


def test_the_page_of_a_server_has_its_name_and_leads_to_the_rest(tmp_path):
    report = msgspec.json.encode(server_report(3))
    tickets = failing_server("tickets")
    view = view_of(server("a"), tickets, documents={"tickets": ServerDocuments(report=report)})
    write_site(view, tmp_path)
    page = (tmp_path / "servers/tickets.html").read_text()
    assert "<title>tickets: MCP conformance</title>" in page
    assert "<h1>tickets</h1>" in page
    facts = PageElements(re.search('<dl class="facts">.*?</dl>', page, re.DOTALL)[0]).text
    said = f"In the fleet ✕ Failed Owner {tickets.owner} Tests 38 of 39 Findings 2 Changes 2 Target"
    assert facts.startswith(said)
    index = (tmp_path / "index.html").read_text()
    for part in ("tests", "findings"):
        assert f'<a href="../index.html#server-1-{part}">' in page
        assert f'id="server-1-{part}"' in index
    # A report that stands alone is named after its target.
    assert f"<h1>{server_report(3).target}</h1>" in as_html(server_report(3))


def test_the_page_of_a_server_without_a_report_says_why(tmp_path):
    view = view_of(unreachable("gone"), documents={"gone": ServerDocuments(report=b"{}")})
    write_site(view, tmp_path)
    text = PageElements((tmp_path / "servers/gone.html").read_text()).text
    assert "desk servers : no report of a check gone" in text
    assert "the server ended with exit code 1 before its first answer" in text
    assert "Cannot find module 'zod'" in text


@cases(
    ("name", "file"),
    [
        ("tickets", "tickets"),
        ("my_server-2.1", "my_server-2.1"),
        ("../../etc/passwd", None),
        ("/etc/passwd", None),
        ("..", None),
        ("", None),
        ("CON", None),
        ("nul.txt", None),
        ("fleet", None),
        (".hidden", None),
        ("a.", None),
        ("x" * 300, None),
        ("日本", None),
        (EVIL, None),
    ],
)
def test_names_of_files_are_safe_on_every_system(name, file):
    found = file_names([name])[name]
    assert found == (file or found)
    assert (found == name) == (file is not None)
    assert found.isascii()
    assert not set(found) & set('/\\:*?"<>| \n')
    assert not found.startswith((".", "-"))
    assert len(found) < 100


def test_names_of_files_are_used_once_whatever_the_case():
    names = ["add", "Add", "a b", "a-b", "a  b", "a\nb", "con", "Con", "", ".", "fleet", "FLEET"]
    found = file_names(names)
    assert len({file.lower() for file in found.values()}) == len(names)
    # The name of a file does not depend on the order of the servers.
    assert file_names(names[::-1]) == found


def test_a_site_of_hostile_names_stays_in_its_folder(tmp_path):
    folder = tmp_path / "deep" / "site"
    write_site(hostile_view(), folder)
    assert {path.name for path in tmp_path.iterdir()} == {"deep"}
    assert len(files_in(folder)) == 4 + 3 * 3
    for address in PageElements((folder / "index.html").read_text()).attributes("href"):
        if address.startswith("servers/"):
            assert (folder / address).is_file()


def test_files_of_servers_that_are_gone_are_removed(tmp_path):
    write_site(view_of(server("a"), server("b")), tmp_path)
    (tmp_path / "servers" / "own.html").write_text("mine")
    write_site(view_of(server("b")), tmp_path)
    found = files_in(tmp_path)
    assert "servers/b.html" in found
    assert "servers/own.html" in found
    assert not [name for name in found if "/a." in name]


def test_nothing_is_removed_in_a_folder_without_the_marker(tmp_path):
    write_site(view_of(server("a")), tmp_path)
    for name in ("index.html", "fleet.json", "badges/fleet.svg", "badges/fleet.json", MARKER):
        (tmp_path / name).unlink()
    write_site(view_of(server("b")), tmp_path)
    assert {"servers/a.html", "servers/b.html"} <= files_in(tmp_path)


def test_a_marker_cannot_name_files_outside_of_the_folder(tmp_path):
    folder, other = tmp_path / "site", tmp_path / "precious.html"
    write_site(view_of(server("a")), folder)
    other.write_text("precious")
    (folder / "README.md").write_text("mine")
    names = ["../precious.html", str(other), "servers/../../precious.html", "README.md", 7]
    (folder / MARKER).write_text(json.dumps({"files": names}))
    write_site(view_of(server("b")), folder)
    assert other.exists()
    assert (folder / "README.md").exists()


@pytest.mark.parametrize("text", ["", "not JSON", "[]", '{"files": 3}', "{}"])
def test_a_broken_marker_is_replaced_and_removes_nothing(tmp_path, text):
    write_site(view_of(server("a")), tmp_path)
    (tmp_path / MARKER).write_text(text)
    write_site(view_of(server("b")), tmp_path)
    assert "servers/a.html" in files_in(tmp_path)
    assert "index.html" in json.loads((tmp_path / MARKER).read_text())["files"]


def test_files_of_others_are_not_overwritten(tmp_path):
    (tmp_path / "index.html").write_text("my own page")
    with pytest.raises(FleetError, match=r"index\.html exists, and accord fleet did not write it"):
        write_site(view_of(server("a")), tmp_path)
    assert (tmp_path / "index.html").read_text() == "my own page"
    assert files_in(tmp_path) == {"index.html"}


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FleetError, match=r"file.*: .*; the pages of the fleet"):
        write_site(view_of(server("a")), tmp_path / "file")


def test_pages_are_replaced_whole_and_readable_by_others(tmp_path):
    write_site(view_of(server("a")), tmp_path)
    index = tmp_path / "index.html"
    with index.open() as old:
        write_site(replace(view_of(server("a")), trends={}), tmp_path)
        assert old.read().endswith("</html>\n")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(index.stat().st_mode) == 0o666 & ~mask
    assert not list(tmp_path.rglob("*.new"))
