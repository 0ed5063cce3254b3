"""Our own servers under check: nothing fails or warns, and untried requirements are listed."""

import asyncio
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from accord.protocol.catalogue import catalogue
from accord_tools.check.probing.server_facts import CheckRules
from accord_tools.check.probing.target import serve_target
from accord_tools.check.server_check import ServerPlan, check_server
from check.mutants.between_http import serving
from check.mutants.everything import server as everything
from check.mutants.protected import protected
from support.check_targets import check_target

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = {name: ROOT / "examples" / f"{name}.py" for name in ("everything", "ten_lines")}
COMPLETE = Path(__file__).parent / "mutants" / "everything.py"
MISSION = ("2024-11-05", "2025-03-26", "2025-06-18")
THOROUGH = pytest.mark.thorough

# Requirements that a complete server without a fault gives no occasion for.
UNTRIED = {
    "errors.invalid-params.data-details": "our servers say what is wrong in the message",
    "meta.field.reserved": "our servers use no name that the protocol reserves for itself",
    "ping.periodic": "our servers send no pings",
    "ping.request.either-party": "our servers send no pings",
    "ping.timeout-is-failure": "our servers send no pings",
    "ping.timeout.may-terminate": "our servers send no pings",
    "practice.capabilities.resources-rare": "the server has resources",
    "practice.errors.unhandled-exit": "a check cannot make a server fail inside",
    "practice.startup.fatal-exit-code": "a check cannot make a server fail inside",
    "practice.tools.success-omits-is-error": "our servers always say whether it is an error",
    "progress.token.in-meta": "our servers do not ask for progress",
    "progress.token.unique": "our servers do not ask for progress",
    "timeouts.maximum-despite-progress": "our servers do not ask for progress",
    "tools.errors.invalid-arguments-protocol": "our servers use the form of later revisions",
    "tools.server.rate-limited": "a limit that a careful check does not reach",
}

# Examples are short, so they leave more untried.
UNTRIED_EXAMPLE = UNTRIED | {
    "errors.code.internal-error": "nothing of it fails inside",
    "pagination.operation.prompts-list": "two prompts are one page",
    "pagination.operation.resources-templates-list": "two templates are one page",
    "practice.schema.types": "its schemas are not the plainest ones",
    "practice.tools.health-check": "ping is its health check",
    "practice.tools.structured-errors": "its failures are plain text",
    "prompts.list-changed.capability-required": "its prompts do not change",
    "prompts.list-changed.sent": "its prompts do not change",
    "resources.item.title": "names say enough",
    "resources.list-changed.capability-required": "its resources do not change",
    "resources.list-changed.sent": "its resources do not change",
    "timeouts.cancel-by-notification": "it waits for people, who take longer than a check",
    "timeouts.established": "it waits for people, who take longer than a check",
}
NO_FAILED_CALL = "practice.tools.execution-error-as-result"
ONE_PROCESS = {
    "tools.list-changed.capability-required": "the lounge stays open once it was opened",
    "tools.list-changed.sent": "the lounge stays open once it was opened",
}
SILENT_PROCESS = {
    "practice.stdio.log-to-stderr": "it has nothing to log",
    "stdio.server.stderr-logging": "it has nothing to log",
    "tools.list-changed.sent": "the lounge stays open once it was opened",
}

# Further requirements that cannot be tried with tokens alone, without launching the server.
GIVEN_TOKENS = {
    "auth.redirect.exact-match": "it takes a token that the check obtained itself",
    "auth.resource.case-tolerant": "it takes clients that a check does not have",
    "auth.token.short-lived": "it takes a token that the check obtained itself",
    "auth.tokens.refresh-rotated": "it takes a token that the check obtained itself",
}


def checked(place, form="stdio", **rules):
    async def run():
        async with asyncio.timeout(170):
            plan = ServerPlan(rules=CheckRules(**rules))
            if form == "stdio":
                command = [sys.executable, "-m", "accord.cli.main", "run", str(place)]
                return await check_server(check_target(name=place.name, command=command), plan)
            async with serve_target(str(place), form, {}) as url:
                subject = check_target(name=place.name, url=url, form=form, is_launched=True)
                return await check_server(subject, plan)

    return asyncio.run(run())


def alarms(report):
    return {
        result.id: f"{result.verdict}: {result.message}"
        for result in report.results
        if result.verdict in ("fail", "warn")
    }


def untried(report):
    """Return the untried requirements under each revision, with the reasons."""
    rows = catalogue()
    return {
        revision: {
            result.id: result.message
            for result in report.results
            if result.by_revision.get(revision) == "not-exercised"
            and rows[result.id].check != "human"
        }
        for revision in MISSION
        if revision in report.setting.revisions
    }


def expected(report, reasons):
    rows = catalogue()
    return {
        revision: sorted(id for id in reasons if rows[id].holds_in(revision))
        for revision in MISSION
        if revision in report.setting.revisions
    }


def names(found):
    return {revision: sorted(reasons) for revision, reasons in found.items()}


@pytest.mark.parametrize(
    "form", ["stdio", pytest.param("http", marks=THOROUGH), pytest.param("sse", marks=THOROUGH)]
)
def test_a_small_example_raises_no_alarm(form):
    report = checked(EXAMPLES["ten_lines"], form)
    assert alarms(report) == {}
    asked = [
        each
        for each in report.results
        if each.id.split(".")[0] in ("roots", "sampling", "elicitation")
    ]
    assert {each.verdict for each in asked} == {"not-applicable"}
    assert {each.message for each in asked} >= {
        "the server never sent roots/list",
        "the server never sent sampling/createMessage",
        "the server never sent elicitation/create",
    }


@pytest.mark.parametrize(
    ("form", "more"),
    [
        pytest.param("http", ONE_PROCESS, id="http", marks=THOROUGH),
        pytest.param("stdio", SILENT_PROCESS, id="stdio", marks=THOROUGH),
        pytest.param("sse", ONE_PROCESS, id="sse", marks=THOROUGH),
    ],
)
def test_requirements_that_an_example_leaves_untried_are_listed(form, more):
    report = checked(EXAMPLES["everything"], form, allow_writes=True)
    assert alarms(report) == {}
    found = untried(report)
    wanted = expected(report, UNTRIED_EXAMPLE | more)
    # Where the client can be asked for a seat, no call fails any more.
    wanted["2025-06-18"] = sorted([*wanted["2025-06-18"], NO_FAILED_CALL])
    assert names(found) == wanted, found


@pytest.mark.parametrize(
    "form", ["http", pytest.param("stdio", marks=THOROUGH), pytest.param("sse", marks=THOROUGH)]
)
def test_requirements_that_a_complete_server_leaves_untried_are_listed(form):
    report = checked(COMPLETE, form)
    assert alarms(report) == {}
    found = untried(report)
    assert names(found) == expected(report, UNTRIED), found


@THOROUGH
def test_requirements_that_a_protected_server_leaves_untried_are_listed():
    async def run():
        async with protected(lambda web: None)() as subject, asyncio.timeout(170):
            return await check_server(replace(subject, patience=10, settling=0.3, at_once=4))

    report = asyncio.run(run())
    assert alarms(report) == {}
    found = untried(report)
    assert names(found) == expected(report, UNTRIED | GIVEN_TOKENS), found


@THOROUGH
def test_requirements_that_an_always_streaming_server_leaves_untried_are_listed():
    async def run():
        async with serving(everything.asgi(answers="stream")) as port, asyncio.timeout(170):
            url = f"http://127.0.0.1:{port}/mcp"
            return await check_server(check_target(name="streams", url=url, is_launched=True))

    report = asyncio.run(run())
    assert alarms(report) == {}
    found = untried(report)
    assert names(found) == expected(report, UNTRIED), found
