"""`--only` runs the scenarios that can show a breach of what it names, and no others."""

import pytest

from accord.protocol.catalogue import catalogue
from accord.testing import run_in_virtual_time
from accord_tools.check.scenarios._scenario import can_show, revealing_methods
from accord_tools.check.scenarios.server import SCENARIOS
from accord_tools.check.server_check import ServerPlan, check_server
from check.mutants.foundation import in_memory

REVISION = "2025-06-18"
LISTING_TOOLS = {
    "watches the lists while tools are called",
    "calls declared methods",
    "walks all pages",
    "calls every tool",
}


def ran(*only, scenarios=None):
    """Check a correct server and return the names of the scenarios that ran, with its report."""
    names = []

    async def check():
        async with in_memory(lambda wire: None)() as target:
            plan = ServerPlan(revisions=[REVISION], only=only, scenarios=scenarios)
            return await check_server(target, plan, step=lambda step: names.append(step.scenario))

    report = run_in_virtual_time(check())
    return {name for name in names if name}, report


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        # wire: results of one method
        ("tools.item.name", LISTING_TOOLS),
        ("resources.template.name", {"walks all pages"}),
        ("ping.response.empty", {"pings"}),
        # server-probe: what decides it, and nothing else
        ("logging.message.min-level", {"sets every log level"}),
        ("errors.code.parse-error", {"sends text that is not json"}),
        ("pagination.cursor.stable", {"walks all pages"}),
        # process, which has scenarios on stdio alone
        ("practice.shutdown.signals", {"sends sigterm", "sends sigint"}),
    ],
)
def test_a_requirement_is_checked_by_the_scenarios_that_can_show_it(id, expected):
    names, report = ran(id)
    assert names == expected
    assert [each.id for each in report.results] == [id]


def test_notifications_are_shown_by_scenarios_that_cause_them():
    names, _ = ran("progress.notification.total")
    calling = {each.name for each in SCENARIOS if "tools/call" in each.sends}
    assert {"asks for progress", "asks for no progress"} < names <= calling
    assert names.isdisjoint({"reads every resource", "asks for every prompt", "pings"})


def test_a_rule_on_all_messages_is_shown_by_every_judged_scenario():
    names, _ = ran("jsonrpc.message.version-2-0")
    unjudged = {each.name for each in SCENARIOS if not each.is_judged}
    assert names
    assert names.isdisjoint(unjudged)
    assert {each.name for each in SCENARIOS if each.is_judged and each.runs_in(REVISION)} == names


def test_an_area_is_checked_by_the_scenarios_of_its_requirements():
    names, report = ran("completion")
    assert "completes arguments" in names
    assert names.isdisjoint({"pings", "walks all pages", "calls every tool"})
    assert {each.id.partition(".")[0] for each in report.results} == {"completion"}


def test_requirements_of_clients_choose_no_scenario():
    row = catalogue()["completion.ref.types"]
    assert row.party == "client"
    assert ran(row.id)[0] == set()


def test_no_scenario_runs_if_none_is_named():
    assert ran(scenarios=[])[0] == set()


def test_every_requirement_that_is_judged_on_the_wire_has_a_scenario_that_can_show_it():
    unshown = {
        row.id
        for row in catalogue().values()
        if row.check == "wire"
        and row.party != "client"
        and row.holds_in(REVISION)
        and revealing_methods(row.id, REVISION) != frozenset()
        and not any(can_show(each, row, REVISION) for each in SCENARIOS)
    }
    assert unshown == set()
