"""`accord check server` on foreign servers as they are: what fails is what a person agreed with."""

import asyncio
import os
import tomllib

import pytest
from sessions import HERE, QUIET, SERVERS

from accord.client import ServerSpec
from accord_tools.check.probing.target import ServerTarget
from accord_tools.check.server_check import ServerPlan, check_server

VERDICTS = tomllib.loads((HERE / "verdicts.toml").read_text())
REVISION = "2025-06-18"


# One of them always, the others with `make thorough`: they start slowly, and often.
NAMES = [
    pytest.param(name, marks=() if name == "everything" else pytest.mark.thorough)
    for name in sorted(VERDICTS)
]


@pytest.mark.parametrize("name", NAMES)
def test_only_what_was_reviewed_fails(name: str) -> None:
    env = {**os.environ, **QUIET}
    spec = ServerSpec(name=name, command=tuple(SERVERS[name]), env=env)
    subject = ServerTarget(spec=spec, leaving=5)

    async def run() -> dict[str, str]:
        async with asyncio.timeout(170):
            report = await check_server(subject, ServerPlan(revisions=[REVISION]))
        return {each.id: each.message for each in report.results if each.verdict == "fail"}

    failed = asyncio.run(run())
    assert failed.keys() <= VERDICTS[name].keys(), failed
