import pytest

from accord.check.rendering.text import as_markdown
from check.reports import NEW, OLD, hostile_report, server_report


@pytest.fixture
def report():
    return hostile_report()


def test_markdown_shows_the_outcome_and_escapes_a_recording(report):
    text = as_markdown(report)
    assert "- **result: failed (1 requirement failed, 2 warned)**" in text
    assert "- **fail** `tools.call.content-array` (MUST, server) 3 times: records 3, 4, 9" in text
    [why] = [each for each in text.splitlines() if each.startswith("  - why: server sends x")]
    assert "\\<b\\>\\|\\`@&#8203;all" in why
    [message] = [each for each in text.splitlines() if each.startswith("  - message: ")]
    assert message.startswith("  - message: `` x")
    assert "| tools | 0 | 1 | 1 | 1 | 0 |" in text
    assert text.endswith("</details>\n")


def test_markdown_of_a_server_names_revisions_transport_and_how_to_repeat_a_check():
    text = as_markdown(server_report(1))
    assert f"- revisions {OLD}, {NEW}, over stdio\n" in text
    assert "  - again: ` accord check server 'my server.py' --only " in text
