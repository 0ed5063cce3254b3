"""The reason for an untried requirement names the party that is responsible."""

import inspect
import re

import pytest

from accord.check.fake_server import client_run
from accord.check.scenarios.client import CLIENT_SCENARIOS
from accord.check.verdicts import NO_PROBE, explain_untried
from accord.protocol.catalogue import catalogue

ROWS = catalogue()


def test_every_requirement_that_observations_name_is_listed():
    named = set(re.findall(r'"([a-z0-9.-]+)"', inspect.getsource(client_run))) & set(ROWS)
    assert named == client_run.PASSIVELY_CHECKED


@pytest.mark.parametrize(
    ("id", "probed", "reason"),
    [
        ("tools.list.array", (), "the server gave no occasion for it"),
        ("tools.server.validates-inputs", ("tools.server.validates-inputs",), "the server gave"),
        ("schema.dialect.supports-2020-12", (), NO_PROBE),
        ("tasks.id.string", (), "the server gave no occasion for it"),
        ("tasks.create.returns-task", (), NO_PROBE),
        ("elicitation.complete.same-client", (), NO_PROBE),
    ],
)
def test_the_reason_for_an_untried_requirement_names_the_cause(id, probed, reason):
    assert explain_untried(ROWS[id], probed, "server").startswith(reason)


def test_a_requirement_that_no_play_tries_is_not_blamed_on_the_client():
    probed = client_run.PASSIVELY_CHECKED | {id for play in CLIENT_SCENARIOS for id in play.ids}
    assert explain_untried(ROWS["icons.client.png-jpeg"], probed, "client") == NO_PROBE
    assert explain_untried(ROWS["tasks.id.string"], probed, "client") == NO_PROBE
    assert explain_untried(ROWS["tools.call.method"], probed, "client") == (
        "the client gave no occasion for it"
    )
