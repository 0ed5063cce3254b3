"""Why a program ended, by what it wrote to standard error."""

import pytest

from accord.stdio.error_lines import FirstAndLastLines, find_cause, find_missing_variable

NODE_ERROR = """\
file:///srv/index.js:55
    throw new Error('Stripe API key not provided: required');
          ^

Error: Stripe API key not provided, set STRIPE_SECRET_KEY
    at parseArgs (file:///srv/index.js:55:11)
    at async main (file:///srv/index.js:60:3)

Node.js v20.20.2"""
NODE_HEADING = """\
Error starting the server:

   API key not provided, set the DESK_KEY variable

Node.js v20.20.2"""
NODE_MODULE = """\
node:internal/modules/cjs/loader:1143
  throw err;
  ^

Error: Cannot find module '/srv/missing.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1140:15)
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.20.2"""
USAGE_AFTER = "Error: No token was given, see DESK_TOKEN, which is required\n" + "usage\n" * 60
PYTHON = """\
Traceback (most recent call last):
  File "/srv/server.py", line 3, in <module>
    raise RuntimeError("required: the key WRONG_KEY is missing")
  File "/srv/other.py", line 9, in get
    check(required="missing")
RuntimeError: the key WEATHER_KEY is not set"""
KEY_ERROR = """\
Traceback (most recent call last):
  File "/srv/server.py", line 3, in <module>
    key = os.environ["TOKEN"]
          ~~~~~~~~~~^^^^^^^^^
KeyError: 'TOKEN'"""
WARNING_FIRST = "(node:12) Warning: a required thing\nnpm warn deprecated error\nfatal: boom"


@pytest.mark.parametrize(
    ("written", "cause", "variable"),
    [
        (
            NODE_ERROR,
            "Error: Stripe API key not provided, set STRIPE_SECRET_KEY",
            "STRIPE_SECRET_KEY",
        ),
        (
            NODE_HEADING,
            "Error starting the server: API key not provided, set the DESK_KEY variable",
            "DESK_KEY",
        ),
        (NODE_MODULE, "Error: Cannot find module '/srv/missing.js'", ""),
        (
            USAGE_AFTER,
            "Error: No token was given, see DESK_TOKEN, which is required",
            "DESK_TOKEN",
        ),
        (PYTHON, "RuntimeError: the key WEATHER_KEY is not set", "WEATHER_KEY"),
        (KEY_ERROR, "KeyError: 'TOKEN'", "TOKEN"),
        (WARNING_FIRST, "fatal: boom", ""),
        ("starting\ncannot open database: no such file", "cannot open database: no such file", ""),
        (
            "could not reach the host of POSTGRES_URL",
            "could not reach the host of POSTGRES_URL",
            "",
        ),
        ("Node.js v20.20.2\n", "Node.js v20.20.2", ""),
        ("\n", "", ""),
    ],
    ids=lambda text: text[:20],
)
def test_the_cause_is_found_wherever_it_stands(written, cause, variable):
    lines = written.splitlines()
    assert find_cause(lines) == cause
    assert find_missing_variable(lines) == variable


def test_the_first_and_the_last_lines_are_kept():
    kept = FirstAndLastLines(4)
    for number in range(4):
        kept.add(str(number))
    assert list(kept) == ["0", "1", "2", "3"]
    for number in range(4, 9):
        kept.add(str(number))
    assert list(kept) == ["0", "1", "(5 more lines)", "7", "8"]
