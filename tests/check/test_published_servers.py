"""What published servers do and no clause forbids, repeated on a correct server: no alarm."""

import pytest

from accord.check.server_check import ServerPlan, check_server
from accord.testing import run_in_virtual_time
from check.mutants.everything import server as everything
from check.mutants.foundation import Between, in_memory
from check.mutants.standalone_base import error

LISTS = {"tools/list", "resources/list", "resources/templates/list", "prompts/list"}


def breaches(hook, revision, only=(), server=everything):
    async def work():
        async with in_memory(hook, server)() as target:
            report = await check_server(target, ServerPlan(revisions=[revision], only=only))
        return {
            each.id: each.message for each in report.results if each.verdict in ("fail", "warn")
        }

    return run_in_virtual_time(work())


@pytest.mark.requirement(
    "tools.list.answers-when-declared",
    "versioning.dual-era.initialize-selects-legacy",
    "versioning.dual-era.meta-selects-modern",
)
@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
def test_a_server_whose_lists_fail_inside_breaks_nothing(revision):
    def hook(wire: Between) -> None:
        def from_server(message, request):
            if request.get("method") in LISTS and "result" in message:
                return error(request, -32603, "fetch failed")
            return message

        wire.from_server = from_server

    assert breaches(hook, revision) == {}
