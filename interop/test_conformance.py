"""The official conformance suite, release 0.1.16: the scenarios of conformance.toml pass."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import conformance
import pytest

# How the server is run: as it comes, always with streams, and with older revisions as its newest.
# The suite names 2025-03-26 in its headers whatever was agreed on, so that one is always there.
FORMS: Final = {
    "as-it-comes": [],
    "streams": ["--answers", "stream"],
    "2025-06-18": ["--revision", "2025-06-18", "--revision", "2025-03-26"],
    "2025-03-26": ["--revision", "2025-03-26"],
}
REVISIONS: Final = ("newest", "2025-06-18", "2025-03-26")
AT_ONCE: Final = 2
# What one scenario waits for is bounded where it runs; those before it in the queue come on top.
PATIENCE: Final = 300.0
NOT_REACHED: Final = ["the suite did not come to it"]

SELDOM: Final = pytest.mark.thorough
# The scenarios of clients that the gate has: one per feature; each starts Node.js and Python.
IN_THE_GATE: Final = {
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "auth/metadata-default",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/basic-cimd",
    "auth/pre-registration",
    "auth/resource-mismatch",
    "auth/scope-step-up",
    "auth/token-endpoint-auth-basic",
    "auth/client-credentials-jwt",
}


Runs = Callable[[str], dict[str, list[str]]]


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Runs]:
    """What the suite found, by the form of the server; those asked for run two at a time."""
    specs = [getattr(item, "callspec", None) for item in request.session.items]
    asked = {spec.params.get("form") for spec in specs if spec} | {"as-it-comes"}
    folder = tmp_path_factory.mktemp("conformance")
    pool = ThreadPoolExecutor(AT_ONCE)
    begun: dict[str, Future[dict[str, list[str]]]] = {
        form: pool.submit(conformance.judge_server, arguments, folder / form)
        for form, arguments in FORMS.items()
        if form in asked
    }
    yield lambda form: begun[form].result(PATIENCE)
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize(
    ("form", "scenario"),
    [
        pytest.param(form, scenario, marks=SELDOM if form != "as-it-comes" else ())
        for form in FORMS
        for scenario in conformance.scenarios("server", form)
    ],
)
def test_the_suite_finds_no_fault_with_the_server(runs: Runs, form: str, scenario: str) -> None:
    assert runs(form).get(scenario, NOT_REACHED) == []


@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=SELDOM if form != "as-it-comes" else ()) for form in FORMS]
)
def test_the_server_has_nothing_to_complain_of(runs: Runs, form: str) -> None:
    assert runs(form)["log"] == []


@pytest.mark.parametrize("scenario", conformance.SCENARIOS["server"]["not_yet"])
def test_scenarios_of_missing_features_fail(runs: Runs, scenario: str) -> None:
    assert runs("as-it-comes").get(scenario), "it passes: move it to those that are run"


@pytest.mark.parametrize(
    ("revision", "scenario"),
    [
        pytest.param(
            each, scenario, marks=() if each == "newest" and scenario in IN_THE_GATE else SELDOM
        )
        for each in REVISIONS
        for scenario in conformance.scenarios("client", each)
    ],
)
def test_the_suite_finds_no_fault_with_the_client(
    tmp_path_factory: pytest.TempPathFactory, revision: str, scenario: str
) -> None:
    pinned = [] if revision == "newest" else [revision]
    folder = tmp_path_factory.mktemp("client")
    assert conformance.judge_client(scenario, pinned, folder) == []


@pytest.mark.parametrize("role", ["server", "client"])
def test_every_scenario_is_run_or_known_as_not_yet(role: str) -> None:
    known = conformance.SCENARIOS[role]
    assert sorted(conformance.listed()[role]) == sorted([*known["run"], *known["not_yet"]])
