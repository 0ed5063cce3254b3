"""What holds for every page: of a check, of a fleet, and of a server of a fleet."""

import base64
import hashlib
import re

import msgspec
import pytest
from msgspec.structs import replace

from accord.protocol.verdict import Evidence
from accord_tools.fleet.rendering import render_fleet
from accord_tools.fleet.rendering.site import write_site
from accord_tools.fleet.results import FleetView, RunComparison, ServerDocuments
from accord_tools.reports.html import as_html
from accord_tools.reports.report import build_report
from fleet.views import EVIL, desk_view, hostile_view, run_of, server, unreachable
from reports.page_elements import PageElements
from reports.sample_reports import NEW, hostile_report, server_report, spotless_report, verdict
from support.tables import cases

LONG = "word" * 2000
RIGHT_TO_LEFT = "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627"
ATTACK = f"{EVIL} {LONG} {RIGHT_TO_LEFT}"


def attacking_report():
    """Return a report in which every text of a peer tries to break out of the page."""
    found = verdict("tools.item.title", "fail", ATTACK, [Evidence(ATTACK, "server", 3, ATTACK)])
    report = build_report([found], target=ATTACK, revision=NEW, judged_by=NEW, decidable=())
    setting = replace(report.setting, transport=ATTACK, notes=(ATTACK,), not_called={ATTACK: "x"})
    return replace(report, setting=setting, version=ATTACK, rules=ATTACK)


def site_pages(view, folder):
    write_site(view, folder)
    return {
        each.relative_to(folder).as_posix(): each.read_text() for each in folder.rglob("*.html")
    }


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    hostile = hostile_view()
    name = hostile.run.results[0].name
    report = msgspec.json.encode(server_report(3))
    hostile = replace(hostile, documents={name: ServerDocuments(report=report)})
    views = {
        "fleet": desk_view(),
        "hostile fleet": hostile,
        "empty fleet": FleetView(run=run_of([])),
        "fleet of one": FleetView(run=run_of([server("one")])),
        "fleet out of reach": FleetView(run=run_of([unreachable("x")], fleet="", file="")),
        "fleet as before": FleetView(
            run=run_of([server("x")]), comparison=RunComparison(against="run 1")
        ),
    }
    reports = {
        "check": server_report(3),
        "long check": server_report(60),
        "spotless check": spotless_report(),
        "hostile check": hostile_report(),
        "attacking check": attacking_report(),
        "empty check": build_report([], target="x", revision=None, judged_by=NEW, decidable=()),
    }
    made = {name: as_html(report) for name, report in reports.items()}
    made |= {name: render_fleet(view, "html") for name, view in views.items()}
    for name in ("fleet", "hostile fleet"):
        folder = tmp_path_factory.mktemp("site")
        made |= {f"{name} {path}": page for path, page in site_pages(views[name], folder).items()}
    return {name: (page, PageElements(page)) for name, page in made.items()}


def test_elements_are_closed_and_ids_are_used_once(pages):
    for _, page in pages.values():
        ids = page.attributes("id")
        assert len(ids) == len(set(ids))


def test_links_lead_to_a_part_of_the_page_or_to_a_known_address(pages):
    known = ("https://modelcontextprotocol.io/", "https://x/", "../index.html", "servers/")
    for name, (_, page) in pages.items():
        for address in page.attributes("href"):
            is_part = address.startswith("#") and address[1:] in page.attributes("id")
            # One broken value breaks a requirement that a short report does not list.
            assert is_part or address.startswith(known), (name, address)


def test_a_page_may_run_its_own_script_and_nothing_else(pages):
    for text, page in pages.values():
        [policy] = [
            attrs["content"]
            for _, attrs in page.all
            if attrs.get("http-equiv") == "Content-Security-Policy"
        ]
        assert policy.startswith("default-src 'none'; ")
        for tag in ("style", "script"):
            [own] = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
            assert f"{tag}-src 'sha256-{digest}'" in policy


def test_a_page_loads_nothing(pages):
    barred = {"link", "img", "iframe", "object", "embed", "audio", "video", "base", "image"}
    for text, page in pages.values():
        assert not barred & {tag for tag, _ in page.all}
        for _, attrs in page.all:
            assert not {"src", "srcset", "style"} & set(attrs)
            assert not [name for name in attrs if name.startswith("on")]
        assert "url(" not in text


@cases(
    ("hostile", "usual"),
    [
        ("hostile check", "long check"),
        ("attacking check", "long check"),
        ("hostile fleet", "fleet"),
        ("hostile fleet servers/", "fleet servers/"),
    ],
)
def test_hostile_texts_stay_texts(pages, hostile, usual):
    def found(name):
        return [page for title, (_, page) in pages.items() if title.startswith(name)]

    tags = {tag for page in found(usual) for tag, _ in page.all}
    names = {name for page in found(usual) for _, attrs in page.all for name in attrs}
    for page in found(hostile):
        assert {tag for tag, _ in page.all} <= tags
        assert {name for _, attrs in page.all for name in attrs} <= names
        assert [tag for tag, _ in page.all].count("script") == 1


def test_control_characters_and_directions_are_spelled_out(pages):
    for text, _ in pages.values():
        assert all(each.isprintable() or each == "\n" for each in text)
    text = pages["hostile fleet"][1].text
    assert text.count("</script></pre><img src=x onerror=\"alert('ran')\">") > 30
    assert "\\x1b[2J\\u202e\\u200b\\x00\\r\\n\\ud800" in text
    assert pages["attacking check"][1].text.count(f"{LONG} {RIGHT_TO_LEFT}") > 5
