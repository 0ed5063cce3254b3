"""The official conformance suite, in two releases: it finds no fault with accord, in either role.

What is left out stands by name in conformance.toml.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import conformance
import pytest
from conformance import ALL, FILTERS, IN_NO_SET, NEXT, OLD, SETS, Found, Run
from desk import listening, serving

from accord.auth import AuthorizationServer, KnownClient

# The older suite names 2025-03-26 in its headers whatever was agreed on: that one is always there.
WITH_OLDEST: Final = ("--revision", "2025-03-26")
STREAMS: Final = ("--answers", "stream")
IN_THE_GATE: Final = [
    Run(NEXT, "server", "2026-07-28"),
    Run(NEXT, "client", "2026-07-28"),
    Run(NEXT, "client", "2025-11-25"),
    Run(OLD, "server", ALL),
]
# Revisions in between, servers that always stream, and peers that speak one revision alone.
SELDOM: Final = [
    Run(NEXT, "server", "2025-11-25"),
    Run(NEXT, "client", "2025-03-26"),
    Run(OLD, "client", ALL),
    Run(OLD, "client", ALL, ("2025-06-18",), "2025-06-18"),
    Run(OLD, "client", ALL, ("2025-03-26",), "2025-03-26"),
    Run(OLD, "server", ALL, STREAMS),
    Run(OLD, "server", ALL, ("--revision", "2025-06-18", *WITH_OLDEST), "2025-06-18"),
    Run(OLD, "server", ALL, WITH_OLDEST, "2025-03-26"),
    *(Run(NEXT, "server", each, STREAMS) for each in SETS),
    *(Run(NEXT, "server", each, ("--revision", each), each) for each in (*SETS, *FILTERS)),
    *(Run(NEXT, "client", each, (each,), each) for each in (*SETS, *FILTERS)),
]
RUNS: Final = [*IN_THE_GATE, *SELDOM]
AT_ONCE: Final = 2
NOT_REACHED: Final = ["the suite did not come to it"]

Runs = Callable[[Run], Found]


def _parameters(which: Callable[[Run], list[str]]) -> list[object]:
    return [
        pytest.param(run, each, id=f"{run}-{each}", marks=_marks(run))
        for run in RUNS
        for each in which(run)
    ]


def _marks(run: Run) -> list[pytest.MarkDecorator]:
    return [pytest.mark.thorough] if run in SELDOM else []


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Runs]:
    """What the suite found, by run; those asked for run two at a time."""
    specs = [getattr(item, "callspec", None) for item in request.session.items]
    asked = {spec.params.get("run") for spec in specs if spec}
    folder = tmp_path_factory.mktemp("conformance")
    pool = ThreadPoolExecutor(AT_ONCE)
    begun: dict[Run, Future[Found]] = {
        run: pool.submit(conformance.judge, run, folder / str(run)) for run in RUNS if run in asked
    }
    # What a run waits for is bounded where it runs; those before it in the queue come on top.
    yield lambda run: begun[run].result(len(begun) * 2 * conformance.PATIENCE)
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize(("run", "scenario"), _parameters(lambda run: run.passing))
def test_the_suite_finds_no_fault(runs: Runs, run: Run, scenario: str) -> None:
    assert runs(run).get(scenario, NOT_REACHED) == []


@pytest.mark.parametrize("run", [pytest.param(run, id=str(run), marks=_marks(run)) for run in RUNS])
def test_accord_has_nothing_to_complain_of(runs: Runs, run: Run) -> None:
    assert runs(run).get("log", []) == []


@pytest.mark.parametrize(("run", "scenario"), _parameters(lambda run: run.failing))
def test_scenarios_that_cannot_pass_fail(runs: Runs, run: Run, scenario: str) -> None:
    assert runs(run).get(scenario), "it passes: take it out of the exceptions"


@pytest.mark.parametrize(("run", "scenario"), _parameters(lambda run: run.unchecked))
def test_scenarios_without_checks_check_nothing(runs: Runs, run: Run, scenario: str) -> None:
    assert runs(run)[scenario] == ["nothing was checked"]


def test_the_suite_finds_no_fault_with_the_authorization_server(tmp_path: Path) -> None:
    free, port = listening()
    free.close()
    client = KnownClient(client_id="suite", redirect_uris=(f"http://127.0.0.1:{port}/callback",))
    auth = AuthorizationServer(auto_approve="ada", store=None, clients=[client])
    with serving(auth) as url:
        issuer = url.removesuffix("/mcp")
        found = conformance.judge_authorization(issuer, "suite", port, tmp_path)
    assert found == {each: [] for each in conformance.KNOWN[NEXT]["authorization"][ALL]}


@pytest.mark.parametrize("role", ["server", "client"])
def test_the_older_suite_has_no_other_scenarios(role: str) -> None:
    assert conformance.KNOWN[OLD][role] == {ALL: conformance.listed(OLD)[role][ALL]}


@pytest.mark.thorough
def test_the_newer_suite_looks_at_nothing_else_in_authorization_servers() -> None:
    known = conformance.KNOWN[NEXT]["authorization"]
    assert known == {ALL: conformance.listed(NEXT)["authorization"][ALL]}


@pytest.mark.thorough
@pytest.mark.parametrize("role", ["server", "client"])
def test_the_newer_suite_has_no_other_scenarios(role: str) -> None:
    known = conformance.KNOWN[NEXT][role]
    listed = conformance.listed(NEXT)[role]
    sets = {each: listed[each] for each in FILTERS} | conformance.required()[role]
    assert {name: each for name, each in known.items() if name != IN_NO_SET} == sets
    assert sorted({each for part in known.values() for each in part}) == sorted(listed[ALL])
