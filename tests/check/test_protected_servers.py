"""Protected servers that do nothing wrong raise no alarm, with and without a token."""

import pytest
from msgspec.structs import replace

from accord import Principal
from accord.auth import Protected, StaticTokens
from accord.testing import run_in_virtual_time
from accord_tools.check.server_check import ServerPlan, check_server
from check.mutants.everything import server as everything
from check.mutants.protected import GRANTED, OTHER, OWN, PROBED, protected
from check.mutants.protected_users import asks_each_user, publishing
from check.mutants.protected_ways import KNOWN, redirects, returns, wanting
from check.mutants.stateless_server import server as stateless
from check.mutants.task_server import make_server

NEWEST = "2026-07-28"
REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", NEWEST]


def harmless(_web):
    """Change nothing."""


def checked(hook=harmless, revision=NEWEST, **settings):
    async def run():
        async with protected(hook, **settings)() as subject:
            return await check_server(subject, ServerPlan(revisions=[revision], only=PROBED))

    return run_in_virtual_time(run())


def breaches(report):
    return {each.id: each.message for each in report.results if each.verdict in ("fail", "warn")}


def verdicts(report):
    return {each.id: each.verdict for each in report.results}


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("has_token", [True, False])
def test_a_protected_server_raises_no_alarm(revision, has_token):
    report = checked(revision=revision, has_token=has_token)
    assert breaches(report) == {}
    found = verdicts(report)
    assert found["auth.server.401-when-required"] == "pass"
    assert found["auth.token.validated"] == "pass"


def test_a_server_that_binds_its_questions_to_users_passes():
    found = checked(asks_each_user, server=stateless)
    assert breaches(found) == {}
    for id in ("mrtr.state.bind-principal", "elicitation.binds-user"):
        assert verdicts(found)[id] == "pass"


def test_a_server_whose_public_results_need_a_token_passes():
    found = checked(lambda web: publishing(web, "prompts/list", "resources/read"))
    assert breaches(found) == {}
    assert verdicts(found)["caching.server.access-control-independent"] == "pass"
    assert verdicts(found)["auth.stateless.each-request-authorized"] == "pass"


def test_a_server_that_keeps_tasks_apart_passes():
    found = checked(server=make_server())
    assert breaches(found) == {}
    assert verdicts(found)["tasks-ext.security.authorize-each"] == "pass"


def test_a_server_that_names_the_scope_that_is_missing_passes():
    found = checked(wanting("refuses"))
    assert breaches(found) == {}
    assert verdicts(found)["auth.scope.insufficient-403"] == "pass"
    assert verdicts(found)["auth.scope.insufficient-names-needed"] == "pass"


def test_an_authorization_server_that_announces_iss_passes():
    def hook(web):
        published = web.shared["published"]
        published["authorization_response_iss_parameter_supported"] = True
        redirects("", returns(published["issuer"]))(web)

    found = checked(hook, granted=KNOWN)
    assert breaches(found) == {}
    for id in ("auth.iss.as-sends", "auth.iss.as-advertises"):
        assert verdicts(found)[id] == "pass"


def test_without_a_redirect_uri_no_authorization_response_is_judged():
    found = {each.id: each for each in checked(granted=GRANTED).results}
    assert found["auth.iss.as-sends"].verdict == "not-exercised"
    assert "redirect URI" in found["auth.iss.as-sends"].message


def test_without_a_second_user_nothing_is_said_about_users():
    async def run():
        async with protected(harmless)() as subject:
            alone = replace(subject, other_token=None)
            return await check_server(alone, ServerPlan(revisions=[NEWEST], only=PROBED))

    found = {each.id: each for each in run_in_virtual_time(run()).results}
    row = found["mrtr.state.bind-principal"]
    assert row.verdict == "not-exercised"
    assert "--other-bearer" in row.message


def test_a_server_that_names_its_scopes_in_its_challenge_passes():
    def hook(web):
        issuer = web.shared["published"]["issuer"]
        known = {
            OWN: Principal("ada", scopes=frozenset({"tools"})),
            OTHER: Principal("grace", scopes=frozenset({"tools"})),
        }
        guard = Protected(StaticTokens(known), issuer=issuer, scopes=["tools"])
        web.app = guard.guard(everything.asgi())

    found = checked(hook)
    assert breaches(found) == {}
    assert verdicts(found)["auth.scope.challenge-has-scope"] == "pass"
