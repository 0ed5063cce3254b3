"""The sessions that tests look at, and what foreign peers broke in them."""

import asyncio
import tomllib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from browser import Chromium, browser
from sessions import HERE, Pairing, Session
from stage import Stage

FINDINGS = HERE / "findings.toml"
# The pairings of the gate: each peer in each role, each revision and each form of transport in
# both roles, the newest revision by agreement and by demand. `make thorough` has every peer in
# every form under every revision.
IN_THE_GATE = {
    "mcp-to-accord-2025-06-18",
    "mcp-to-accord-2025-06-18-stateless",
    "mcp-to-accord-2024-11-05-sse",
    "fastmcp-to-accord-2025-06-18-auto",
    "sdk-1-to-accord-2024-11-05",
    "sdk-1-to-accord-2025-06-18-auto",
    "sdk-2-to-accord-2025-03-26-stream",
    "accord-to-mcp-2025-06-18-json",
    "accord-to-mcp-lowlevel-2025-03-26-stateful",
    "accord-to-fastmcp-2025-06-18",
    "accord-to-sdk-1-2025-06-18",
    "accord-to-sdk-1-2024-11-05-sse",
    "accord-to-sdk-2-2025-06-18-stateless",
    "mcp-to-accord-2026-07-28",
    "fastmcp-to-accord-2026-07-28-auto",
    "sdk-2-to-accord-default",
    "sdk-2-to-accord-2026-07-28-stream",
    "accord-to-mcp-default",
    "accord-to-fastmcp-2026-07-28-stateful",
    "accord-to-sdk-2-2026-07-28",
    "sdk-1-tasks-to-accord-tasks-2025-11-25",
    "accord-tasks-to-sdk-1-tasks-2025-11-25",
}
# The scenario does this on purpose, to see it refused.
ON_PURPOSE = {"pagination.cursor.opaque"}
# Breaches of foreign peers that the table of findings does not know yet.
unknown: dict[tuple[str, str], str] = {}


@pytest.fixture(scope="session")
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("sessions"))
    asked = [getattr(item, "callspec", None) for item in request.session.items]
    stage.begin(spec.params["pairing"] for spec in asked if spec and "pairing" in spec.params)
    yield stage
    stage.close()


InBrowser = Callable[[Callable[[Chromium], Awaitable[Any]]], Any]


@pytest.fixture(scope="session")
def in_browser() -> Iterator[InBrowser]:
    """One browser for many tests: calls a function with it, then closes the pages."""

    async def run(chromium: Chromium, at: Callable[[Chromium], Awaitable[Any]]) -> Any:
        try:
            return await at(chromium)
        finally:
            await chromium.close_pages()

    with asyncio.Runner() as runner:
        opened = browser()
        chromium = runner.run(opened.__aenter__())
        try:
            yield lambda at: runner.run(run(chromium, at))
        finally:
            runner.run(opened.__aexit__(None, None, None))


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups that are set here
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot be done without sessions, or without streams."""
    dropped = [item for item in items if _needs_more_than_it_has(item)]
    config.hook.pytest_deselected(items=dropped)
    items[:] = [item for item in items if item not in dropped]
    for item in items:
        if _is_left_to_thorough(item):
            item.add_marker(pytest.mark.thorough)
        # What looks at sessions shares them; all else shares what its module starts.
        shared = "stage" if "stage" in getattr(item, "fixturenames", ()) else item.path.stem
        item.add_marker(pytest.mark.xdist_group(shared))


def _needs_more_than_it_has(item: pytest.Item) -> bool:
    pairing = getattr(item, "callspec", None) and item.callspec.params.get("pairing")
    if not pairing:
        return False
    lacking = {"stateless": "needs_session", "json": "needs_stream"}.get(pairing.form)
    return lacking is not None and item.get_closest_marker(lacking) is not None


def _is_left_to_thorough(item: pytest.Item) -> bool:
    """Whether a pairing is left to `make thorough`: the gate has one per peer, role and form."""
    pairing = getattr(item, "callspec", None) and item.callspec.params.get("pairing")
    return pairing is not None and str(pairing) not in IN_THE_GATE


@pytest.fixture
def session(stage: Stage, pairing: Pairing) -> Session:
    return stage.session(pairing)


@pytest.fixture(scope="session")
def findings() -> dict[str, dict[str, str]]:
    """What is known: by foreign peer, then by requirement."""
    return tomllib.loads(FINDINGS.read_text(encoding="utf-8"))


def note_unknown(session: Session, findings: dict[str, dict[str, str]]) -> None:
    """Note what the foreign peer broke that the table lacks.

    Its next release may break something else: that is news, not our failure.
    """
    pairing = session.pairing
    known = ON_PURPOSE | findings.get(pairing.peer, {}).keys()
    for breach in session.breaches:
        if breach.party == pairing.foreign and breach.requirement not in known:
            key = (pairing.peer, breach.requirement)
            unknown.setdefault(key, f"{breach.why} ({pairing.revision})")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if unknown:
        terminalreporter.section("breaches by foreign peers that interop/findings.toml lacks")
        for (peer, requirement), example in sorted(unknown.items()):
            terminalreporter.line(f"{peer}: {requirement}: {example}")
