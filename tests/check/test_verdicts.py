"""The reason for an untried requirement names the party that is responsible."""

import inspect
import re

import pytest

from accord.protocol.catalogue import catalogue
from accord.protocol.verdict import Evidence, Verdict
from accord_tools.check.fake_server import client_run
from accord_tools.check.scenarios.client import CLIENT_SCENARIOS
from accord_tools.check.verdicts import (
    NO_PROBE,
    VerdictCollector,
    edit_marked,
    edit_texts,
    explain_untried,
)

ROWS = catalogue()


def test_every_requirement_that_observations_name_is_listed():
    named = set(re.findall(r'"([a-z0-9.-]+)"', inspect.getsource(client_run))) & set(ROWS)
    assert named == client_run.PASSIVELY_CHECKED


@pytest.mark.parametrize(
    ("id", "probed", "reason"),
    [
        ("tools.list.array", ("tools.list.array",), "the server gave no occasion for it"),
        ("tools.list.array", (), "no message of the server put this to the test"),
        ("tools.server.validates-inputs", ("tools.server.validates-inputs",), "the server gave"),
        ("schema.dialect.supports-2020-12", (), NO_PROBE),
        ("tasks.id.string", (), "no message of the server put this to the test"),
        ("tasks.create.returns-task", (), NO_PROBE),
        ("elicitation.complete.same-client", (), NO_PROBE),
    ],
)
def test_the_reason_for_an_untried_requirement_names_the_cause(id, probed, reason):
    assert explain_untried(ROWS[id], probed, "server").startswith(reason)


def test_a_requirement_that_no_play_tries_is_not_blamed_on_the_client():
    probed = client_run.PASSIVELY_CHECKED | {id for play in CLIENT_SCENARIOS for id in play.ids}
    assert explain_untried(ROWS["icons.client.png-jpeg"], probed, "client") == NO_PROBE
    assert explain_untried(ROWS["tasks.id.string"], probed, "client") == (
        "no message of the client put this to the test"
    )
    assert explain_untried(ROWS["tools.call.method"], probed, "client") == (
        "the client gave no occasion for it"
    )


# -- the value in question

SECRET = "hunter2"


def hide(text):
    return text.replace(SECRET, "(hidden)")


def test_a_marked_value_is_found_again_after_secrets_were_hidden():
    text = f'{{"token":"{SECRET}","name":"{SECRET} b"}}'
    start = text.index(f'"{SECRET} b"')
    shown, mark = edit_marked(text, (start, len(text) - 1), hide)
    assert shown == '{"token":"(hidden)","name":"(hidden) b"}'
    assert shown[slice(*mark)] == '"(hidden) b"'


def test_a_secret_across_the_mark_is_hidden_and_the_mark_given_up():
    assert edit_marked(f"a{SECRET}b", (3, 5), hide) == ("a(hidden)b", None)


@pytest.mark.parametrize("text", [None, "", SECRET])
def test_a_text_without_a_mark_is_edited_as_a_whole(text):
    assert edit_marked(text, None, hide) == (text and "(hidden)", None)


def test_a_scenario_marks_the_value_in_the_last_message_of_the_party():
    collector = VerdictCollector("server", "2025-11-25")
    messages = [
        Evidence("message", "server", 1, '{"error":{"code":1}}'),
        Evidence("message", "server", 2, '{"error":{"code":2}}'),
        Evidence("message", "client", 3, '{"error":{"code":3}}'),
    ]
    id = "errors.code.method-not-found"
    collector.holds(id, False, "errs", evidence=messages, at="/error/code")
    found = [(each.pointer, each.mark) for each in collector.found[id].evidence]
    assert found == [(None, None), (None, None), ("/error/code", (17, 18)), (None, None)]


@pytest.mark.parametrize("messages", [[], [Evidence("HTTP", "server", None, "status 500")]])
def test_a_value_that_is_not_there_is_not_marked(messages):
    collector = VerdictCollector("server", "2025-11-25")
    id = "errors.code.method-not-found"
    collector.holds(id, False, "errs", evidence=messages, at="/error/code")
    assert collector.found[id].evidence[1:] == messages


def test_secrets_are_hidden_in_pointers_too():
    shown = Evidence(SECRET, "server", 1, f'{{"{SECRET}":1}}', f"/{SECRET}", (11, 12))
    verdict = Verdict("x", "MUST", "server", (), "fail", SECRET, [shown])
    [edited] = edit_texts(verdict, hide).evidence
    assert (edited.why, edited.message) == ("(hidden)", '{"(hidden)":1}')
    assert (edited.pointer, edited.mark) == ("/(hidden)", (12, 13))
