"""The command line on a terminal: interruptions, and characters that are not shown."""

import subprocess
import sys
import unicodedata
from math import inf

import pytest

from accord.cli.terminal import escape_controls, escape_in_json, progress

LOSING = """\
import gc, time
from accord.cli.terminal import interruptible

def loses(phase, info):
    gc.callbacks.remove(loses)
    raise KeyboardInterrupt

try:
    with interruptible():
        gc.callbacks.append(loses)
        gc.collect()
        for _ in range(600):
            time.sleep(0.05)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interruption_that_garbage_collection_drops_is_repeated():
    done = subprocess.run(
        [sys.executable, "-c", LOSING],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


SEEN = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
JOINERS = "\u200c\u200d"


def test_characters_of_format_are_escaped_but_for_joiners_and_signs():
    formats = [each for each in map(chr, range(sys.maxunicode + 1)) if _is_format(each)]
    kept = [each for each in formats if escape_controls(each) == each]
    assert set(kept) == set(SEEN + JOINERS)
    assert all(escape_in_json(each).isascii() for each in formats)


def _is_format(sign):
    return unicodedata.category(sign) == "Cf"


FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
ENGLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"


@pytest.mark.parametrize(
    "text", [FAMILY, ENGLAND, "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"]
)
def test_emoji_and_scripts_that_need_joiners_stay(text):
    assert escape_controls(text) == text


def test_a_letter_that_is_hidden_behind_a_flag_is_escaped():
    assert escape_controls(f"{ENGLAND}\U000e0041") == f"{ENGLAND}\\U000e0041"


def test_without_a_terminal_progress_is_a_line_now_and_then(capsys):
    with progress("checking", 200, pause=0) as advance:
        advance(50, "asks \x1b[2J")
    assert capsys.readouterr().err == "checking 25 % asks \\x1b[2J\n"
    with progress("checking", 200, pause=inf) as advance:
        advance(50)
    with progress("checking", 200, pause=0, quiet=True) as advance:
        advance(50)
    assert capsys.readouterr().err == ""
