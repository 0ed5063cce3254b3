import pytest
from msgspec.structs import replace

from accord.cli.terminal import escape_unprintable
from accord_tools.reports.badge import as_badge
from accord_tools.reports.clauses import page_of
from accord_tools.reports.html import as_html
from accord_tools.reports.machine_readable import as_json, as_junit
from accord_tools.reports.markdown import as_markdown
from accord_tools.reports.sarif import as_sarif
from accord_tools.reports.text import as_text
from accord_tools.reports.wording import summary
from reports.sample_reports import NASTY, hostile_report

RENDERERS = [as_text, as_json, as_junit, as_sarif, as_markdown, as_html, as_badge, summary]


@pytest.fixture
def report():
    return hostile_report()


def is_harmless(text):
    return all(each.isprintable() or each == "\n" for each in text)


@pytest.mark.parametrize("render", RENDERERS, ids=lambda each: each.__name__)
def test_text_from_a_recording_is_escaped(report, render):
    assert is_harmless(render(report))


@pytest.mark.parametrize("render", RENDERERS, ids=lambda each: each.__name__)
def test_names_of_tools_that_were_not_called_are_escaped(report, render):
    names = {NASTY: "it was not chosen", "book": "it books"} | {
        f"tool-{number}": "it was not chosen" for number in range(8)
    }
    shown = render(replace(report, setting=replace(report.setting, not_called=names)))
    assert is_harmless(shown)
    if render in (as_text, as_html):
        assert "tool-4 and 3 more (it was not chosen); book (it books)" in shown
    if render in (as_markdown, as_json):
        assert "it books" in shown


def test_characters_that_control_a_terminal_are_escaped():
    assert escape_unprintable("a\x1b[0m\u202eb\n\ud800") == "a\\x1b[0m\\u202eb\\n\\ud800"
    assert escape_unprintable("grüß dich, 世界") == "grüß dich, 世界"


def test_the_summary_is_one_line(report):
    assert summary(report).count("\n") == 0
    assert "1 requirement failed, 2 warned, 4 of 5 applicable exercised, score 50 of 100" in (
        summary(report)
    )


@pytest.mark.parametrize(
    ("anchor", "page"),
    [
        ("2025-06-18/basic/transports", "2025-06-18/basic/transports"),
        ("2026-07-28/basic/patterns/index", "2026-07-28/basic/patterns"),
        ("2025-03-26: 1.2.2", None),
        ("practice: Text Content", None),
        (None, None),
    ],
)
def test_an_anchor_that_is_a_path_has_a_page(anchor, page):
    shown = page and f"https://modelcontextprotocol.io/specification/{page}"
    assert page_of(anchor) == shown
