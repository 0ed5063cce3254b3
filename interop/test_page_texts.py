"""Texts of servers in the page of the inspector: hidden characters show, others stay."""

import json
import subprocess
from pathlib import Path

import pytest
from browser import NODE

MODULE = Path(__file__).parents[1] / "src/accord_tools/inspector/static/text.js"
SHOW = """
const { shown, webAddress } = await import(process.argv[1]);
const cases = JSON.parse(process.argv[2]);
console.log(JSON.stringify(cases.map(([kind, text]) =>
  kind === "address" ? webAddress(text) : shown(text, { lines: kind === "lines" }))));
"""
CASES: list[tuple[str, str, str | None]] = [
    ("text", "plain, caf\u00e9, \u0645\u0631", "plain, caf\u00e9, \u0645\u0631"),
    ("text", "\x1b[31mred", "\\x1b[31mred"),
    ("text", "\u202egnp.exe", "\\u202egnp.exe"),
    ("text", "zero\u200bwidth\u00adsoft", "zero\\u200bwidth\\xadsoft"),
    ("text", "\U000e0041tag", "\\U000e0041tag"),
    ("text", "no\u00a0break\u3000wide", "no\\xa0break\\u3000wide"),
    ("text", "line\r\nnext\ttab", "line\\r\\nnext\\ttab"),
    ("lines", "line\r\nnext\ttab\rback", "line\nnext\ttab\\rback"),
    ("text", "\u2764\ufe0f 1\ufe0f\u20e3", "\u2764\ufe0f 1\ufe0f\u20e3"),
    ("text", "\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
    ("text", "a\u200db 1\ufe0fz", "a\\u200db 1\\ufe0fz"),
    ("address", "https://example.com/a", "https://example.com/a"),
    ("address", "javascript:alert(1)", None),
    ("address", "data:text/html,x", None),
    ("address", "file:///etc/passwd", None),
    ("address", "//example.com", None),
]


@pytest.fixture(scope="module")
def shown() -> list[str | None]:
    asked = json.dumps([(kind, text) for kind, text, _ in CASES])
    command = [NODE, "--input-type=module", "-e", SHOW, str(MODULE), asked]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return list(json.loads(ran.stdout))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_text_is_shown_without_hidden_characters(number: int, shown: list[str | None]) -> None:
    assert shown[number] == CASES[number][2]
