"""What every command prints, writes and returns, compared with what was recorded of it.

A difference that is wanted is recorded by `tools/record_commands.py`.
"""

import difflib

import pytest

from commands.recording import GROUPS, RECORDED, record, serving, split


@pytest.fixture(scope="session")
def recorder():
    with serving() as port:
        yield lambda group: record(group, port)


@pytest.mark.parametrize("group", GROUPS)
def test_commands_do_what_was_recorded(group, recorder, subtests):
    recorded = split((RECORDED / f"{group}.txt").read_text())
    observed = split(recorder(group))
    assert list(observed) == list(recorded), "record the group anew: tools/record_commands.py"
    for line, text in observed.items():
        if text != recorded[line]:
            with subtests.test(line):
                pytest.fail(_difference(recorded[line], text), pytrace=False)


def _difference(recorded, observed):
    lines = difflib.unified_diff(
        recorded.splitlines(), observed.splitlines(), "recorded", "observed", n=3, lineterm=""
    )
    return "\n".join([observed.partition("\n")[0], *lines])


def test_every_recording_has_a_group():
    assert {path.stem for path in RECORDED.iterdir()} == set(GROUPS)
