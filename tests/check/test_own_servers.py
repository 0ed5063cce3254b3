"""Our own servers under our own check: nothing fails, nothing warns, nothing is left untried."""

import asyncio
import sys
from pathlib import Path

import pytest

from accord.check.probing.subject import Subject, served
from accord.check.server_check import check_server
from accord.protocol.catalogue import catalogue

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = {name: ROOT / "examples" / f"{name}.py" for name in ("everything", "ten_lines")}
COMPLETE = Path(__file__).parent / "mutants" / "everything.py"
MISSION = {"2024-11-05", "2025-03-26", "2025-06-18"}
AREAS = {
    "completion", "elicitation", "logging", "pagination", "practice", "prompts", "resources",
    "roots", "sampling", "tools",
}  # fmt: skip

# What a server without a fault gives no occasion for, or no stranger can see.
UNTRIED = {
    "pagination.operation.resources-templates-list": "the server has one template",
    "practice.capabilities.resources-rare": "the server has resources",
    "practice.errors.unhandled-exit": "nobody outside can make a server fail within",
    "practice.startup.fatal-exit-code": "nobody outside can make a server fail within",
    "practice.stdio.log-to-stderr": "not every server logs",
    "practice.tools.success-omits-is-error": "our servers always say whether it is an error",
    "tools.errors.invalid-arguments-protocol": "our servers use the form of later revisions",
    "tools.server.rate-limited": "a limit that a careful check does not reach",
}

# Warnings that an example lives with.
KNOWN = {
    "ten_lines": {
        "practice.tools.descriptive-schemas": "ten lines leave no room to describe parameters"
    }
}


def checked(place, form="stdio"):
    async def run():
        async with asyncio.timeout(170):
            if form == "stdio":
                run = ("-m", "accord.cli.main", "run", str(place))
                return await check_server(Subject(name=place.name, command=[sys.executable, *run]))
            async with served(str(place), form, {}) as url:
                subject = Subject(name=place.name, url=url, form=form, is_launched=True)
                return await check_server(subject)

    return asyncio.run(run())


def alarms(report):
    return {
        result.id: f"{result.verdict}: {result.message}"
        for result in report.results
        if result.verdict in ("fail", "warn")
    }


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("everything", "http"),
        ("ten_lines", "stdio"),
        pytest.param("everything", "stdio", marks=pytest.mark.thorough),
        pytest.param("everything", "sse", marks=pytest.mark.thorough),
        pytest.param("ten_lines", "http", marks=pytest.mark.thorough),
        pytest.param("ten_lines", "sse", marks=pytest.mark.thorough),
    ],
)
def test_an_example_raises_no_alarm(name, form):
    assert alarms(checked(EXAMPLES[name], form)).keys() == KNOWN.get(name, {}).keys()


@pytest.mark.parametrize("form", ["stdio", "http", pytest.param("sse", marks=pytest.mark.thorough)])
def test_every_feature_of_a_complete_server_is_put_to_the_test(form):
    report = checked(COMPLETE, form)
    assert alarms(report) == {}
    rows = catalogue()
    untried = {
        result.id: result.message
        for result in report.results
        if result.verdict == "not-exercised"
        and rows[result.id].area in AREAS
        and rows[result.id].check != "human"
        and MISSION.intersection(result.revisions)
    }
    assert untried.keys() <= UNTRIED.keys(), untried
