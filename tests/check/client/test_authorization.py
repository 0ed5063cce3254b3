"""Clients that authorize as they should, or not at all, are accused of nothing."""

import asyncio
import sys
from collections import Counter

import pytest

from accord.protocol.catalogue import catalogue
from accord.testing import run_in_virtual_time
from accord_tools.check.client_check import ClientPlan, check_client
from accord_tools.check.fake_server.protected import PREREGISTERED
from accord_tools.check.scenarios.client import CLIENT_SCENARIOS
from check.client import everything
from check.client.authorization_mutants import Older
from check.client.authorizing import Authorizing, Known, Stateless
from check.client.mutants import UNBREAKABLE
from check.client.raw import Gone, Raw
from check.client.registering import FEW, MUTANTS

SCENARIOS = [each.__name__ for each in CLIENT_SCENARIOS if "authorization" in each.__module__]
OURS = [
    name
    for name, each in MUTANTS.items()
    if {*each.scenarios} & {*SCENARIOS} and each.kind.__module__.endswith("authorization_mutants")
]


def plan_of(client, revision, scenarios=SCENARIOS, options=(), **settings):
    return ClientPlan(
        command=["{url}", *options],
        revisions=[revision] if revision else [],
        client=client,
        timeout=10,
        patience=0.4,
        scenarios=scenarios,
        **settings,
    )


def checked(kind, scenarios=SCENARIOS, *, revision=None):
    async def client(place):
        return await kind(place).run()

    plan = plan_of(client, revision or kind.revision, scenarios, kind.options)
    return run_in_virtual_time(check_client(plan))


def breaches(report):
    return {each.id: each.message for each in report.results if each.verdict in ("fail", "warn")}


def verdicts(report):
    return {each.id: each.verdict for each in report.results}


def derived(base, **members):
    return type("Derived", (base,), members)


@pytest.mark.parametrize(
    "kind",
    [
        Older,
        derived(Authorizing, revision="2025-06-18"),
        Authorizing,
        Stateless,
        Known,
        derived(Authorizing, given_id=PREREGISTERED, options=("{client_id}",)),
        derived(Stateless, document="https://127.0.0.1:9/metadata.json"),
        derived(Stateless, redirect=lambda _self: "https://client.example/callback"),
        derived(Stateless, redirect=lambda _self: "com.example.client:/callback"),
    ],
)
def test_a_client_that_authorizes_by_the_book_raises_no_alarm(kind):
    assert breaches(checked(kind)) == {}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_accords_own_client_raises_no_alarm(revision, capsys):
    async def client(place):
        return await everything.run(place.url, revision)

    report = run_in_virtual_time(check_client(plan_of(client, revision)))
    assert breaches(report) == {}
    found = verdicts(report)
    for id in (
        "auth.scope.client-steps-up",
        "auth.pkce.verify-support",
        "auth.asm.order-with-path",
    ):
        assert found[id] == "pass"


def test_requirements_do_not_apply_to_a_client_that_does_not_authorize():
    async def gives_up(self, challenge):
        raise Gone

    report = checked(derived(Raw, revision="2025-11-25", authorize=gives_up))
    assert breaches(report) == {}
    found = verdicts(report)
    for id in ("auth.asm.order-with-path", "auth.pkce.verify-support", "auth.scope.retry-limit"):
        assert found[id] == "not-applicable"


@pytest.mark.parametrize("step", ["find_server", "client_for", "consent", "choose", "keep"])
def test_a_client_that_fails_at_some_step_is_not_accused_of_later_ones(step):
    def fails(self, *_given):
        raise Gone

    found = breaches(checked(derived(Stateless, **{step: fails})))
    # It found the metadata named, and never looked for that of the authorization server.
    named = {"auth.prm.client-uses"} if step == "find_server" else set()
    assert set(found) == named, found


def test_a_client_that_keeps_the_scopes_of_its_user_is_not_accused():
    def choose(self, challenge, resource, about):
        return {"notes:read", "files:list", "chosen:by-the-user"}

    found = breaches(checked(derived(Stateless, choose=choose), ["RequiresToken"]))
    assert found == {}


def test_a_client_may_ask_for_offline_access_and_a_profile_beside_the_scopes():
    def choose(self, challenge, resource, about):
        usual = Stateless.choose(self, challenge, resource, about)
        return usual | {"openid", "offline_access"}

    scenarios = ["RequiresToken", "HasIssuerWithPath", "NamesNothingInItsChallenge"]
    assert breaches(checked(derived(Stateless, choose=choose), scenarios)) == {}


def test_metadata_documents_are_judged_only_if_the_client_has_one():
    found = {each.id: each for each in checked(Stateless, ["OffersEveryRegistration"]).results}
    for id in ("auth.cimd.required-members", "auth.register.priority"):
        assert found[id].verdict == "not-exercised"
        assert "it may have no metadata document" in found[id].message
    assert "{client_id}" in found["auth.preregistration.option"].message


def test_a_client_with_a_given_id_shows_that_it_uses_it():
    found = verdicts(checked(Known, ["OffersEveryRegistration", "ChangesItsAuthorizationServer"]))
    ids = ("auth.preregistration.option", "auth.register.priority")
    for id in (*ids, "auth.binding.preregistered-mismatch-error", "auth.as.no-cross-use"):
        assert found[id] == "pass"


SIGNS_IN = """
import asyncio, sys
from accord import connect
from accord.auth import MemoryStore, OAuth

async def main():
    auth = OAuth(store=MemoryStore(), timeout=20)
    async with connect(sys.argv[1], auth=auth) as client:
        [each async for each in client.tools()]

asyncio.run(main())
"""


def test_a_client_that_opens_a_browser_gets_its_token_without_a_person(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    plan = ClientPlan(
        command=[sys.executable, "-c", SIGNS_IN, "{url}"],
        revisions=["2026-07-28"],
        scenarios=["RequiresToken"],
    )
    found = verdicts(asyncio.run(check_client(plan)))
    assert found["auth.scope.selection-order"] == "pass"
    assert found["auth.token.bearer-header"] == "pass"


PRINTS = """
import json, sys, urllib.error, urllib.parse, urllib.request

def fetch(url, body=None, follow=True):
    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *given):
            return None
    heads = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    try:
        opener = urllib.request.build_opener(Stay, urllib.request.ProxyHandler({}))
        return opener.open(urllib.request.Request(url, body, heads))
    except urllib.error.HTTPError as error:
        return error

server, client = sys.argv[1:]
meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}
asked = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}
refused = fetch(server, json.dumps(asked).encode())
origin = server.rpartition("/")[0]
if refused.status == 401:
    found = refused.headers["www-authenticate"].split('resource_metadata="')[1].split('"')[0]
    issuer = json.load(fetch(found))["authorization_servers"][0]
    place = "/.well-known/oauth-authorization-server" + issuer.removeprefix(origin)
    about = json.load(fetch(origin + place))
    wanted = {"response_type": "code", "client_id": client, "state": "s", "scope": "notes:read",
              "code_challenge": "c", "code_challenge_method": "S256", "resource": server,
              "redirect_uri": "http://localhost:3000/callback"}
    back = fetch(about["authorization_endpoint"] + "?" + urllib.parse.urlencode(wanted))
    said = urllib.parse.parse_qs(urllib.parse.urlsplit(back.headers["location"]).query)
    print("refused:", said["error_description"], file=sys.stderr)
    sys.exit(3)
"""


def test_a_client_that_prints_an_error_of_another_issuer_is_found():
    plan = ClientPlan(
        command=[sys.executable, "-S", "-c", PRINTS, "{url}", "{client_id}"],
        revisions=["2026-07-28"],
        scenarios=["RefusesAsSomebodyElse"],
    )
    found = {each.id: each for each in asyncio.run(check_client(plan)).results}
    row = found["auth.iss.errors-too"]
    assert row.verdict == "fail"
    assert "shows the error_description" in row.message
    assert row.evidence[1].why == "standard error"


def test_every_requirement_is_broken_in_three_ways_or_has_a_reason():
    rows = {
        row.id
        for row in catalogue().values()
        if row.check == "auth-probe"
        and row.area == "auth"
        and row.party in ("client", "both")
        and row.id not in UNBREAKABLE
    }
    # A fault may break several requirements: it is a way to break each of them.
    ways = Counter(id for each in MUTANTS.values() for id in (each.id, *each.also))
    assert {id for id in rows if ways[id] < 3} == {id for id in FEW if id.startswith("auth.")}


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(OURS))
def test_all_scenarios_together_find_what_a_mutant_breaks(name):
    mutant = MUTANTS[name]
    found = breaches(checked(mutant.kind))
    assert mutant.id in found
    # The same fault may break further requirements elsewhere, but only of authorization.
    assert all(id.startswith("auth.") for id in found), found
