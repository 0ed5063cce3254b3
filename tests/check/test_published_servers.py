"""What published servers do and no clause forbids, repeated on a correct server: no alarm."""

import pytest

from accord.testing import run_in_virtual_time
from accord_tools.check.server_check import ServerPlan, check_server
from check.mutants.everything import server as everything
from check.mutants.foundation import Between, in_memory
from check.mutants.stateless_base import error


def as_coroutine(function):
    """Return a coroutine function around one that may return a coroutine."""

    async def run(*given):
        work = function(*given)
        if work is not None:
            await work

    return run


LISTS = {"tools/list", "resources/list", "resources/templates/list", "prompts/list"}


def results(hook, revision, only=(), server=everything):
    async def work():
        async with in_memory(hook, server)() as target:
            report = await check_server(target, ServerPlan(revisions=[revision], only=only))
        return {each.id: each for each in report.results}

    return run_in_virtual_time(work())


def breaches(hook, revision, only=(), server=everything):
    found = results(hook, revision, only, server).values()
    return {each.id: each.message for each in found if each.verdict in ("fail", "warn")}


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


@pytest.mark.requirement("resources.uri.validated")
def test_a_server_that_finds_nothing_under_an_invalid_uri_breaks_no_must():
    def hook(wire: Between) -> None:
        def from_server(message, request):
            if request.get("method") == "resources/read" and "error" in message:
                return {"jsonrpc": "2.0", "id": request["id"], "result": {"contents": []}}
            return message

        wire.from_server = from_server

    found = results(hook, "2025-06-18", ["resources.uri"])["resources.uri.validated"]
    assert found.verdict == "not-exercised"


# -- evidence


@pytest.mark.requirement("jsonrpc.batch.receive")
def test_the_evidence_of_a_refused_batch_is_the_batch_and_the_refusal():
    def hook(wire: Between) -> None:
        def send(data):
            if data.startswith(b"["):
                refusal = {"code": -32600, "message": "batches are not supported"}
                wire.to_client({"jsonrpc": "2.0", "id": None, "error": refusal})
                return None
            return pass_on(data)

        pass_on, wire.send = wire.send, as_coroutine(send)

    found = results(hook, "2025-03-26", ["jsonrpc.batch"])["jsonrpc.batch.receive"]
    assert found.verdict == "fail"
    assert "refuses a batch with" in found.message
    batch, refusal = [each.message for each in found.evidence if each.message]
    assert batch.startswith("[")
    assert "batches are not supported" in refusal


@pytest.mark.requirement("jsonrpc.request.answered")
def test_an_answer_that_is_lost_beside_an_id_of_the_same_text_is_reported_with_both_ids():
    def hook(wire: Between) -> None:
        wire.from_server = lambda message, _: (
            None if str(message.get("id")).isdigit() and isinstance(message["id"], str) else message
        )

    found = results(hook, "2025-06-18", ["jsonrpc.request"])["jsonrpc.request.answered"]
    assert found.verdict == "fail"
    assert "sent together with one whose id is" in found.message
