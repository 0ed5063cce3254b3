"""Clients that behave like those of other projects: allowed behaviour raises no alarm."""

import json
from typing import Any

import pytest

from accord.testing import run_in_virtual_time
from accord_tools.check.client_check import ClientPlan, check_client
from check.client.mutants import IgnoresBatches, IgnoresPings
from check.client.raw import Gone, Message
from check.client.raw_stateless import LISTS, RawStateless


def results(
    kind: Any,
    scenario: str,
    revision: str | None = None,
    *,
    over: str = "http",
    patience: float = 0.4,
) -> dict[str, Any]:
    async def client(place: Any) -> int:
        return await kind(place).run()

    plan = ClientPlan(
        command=["{server}" if over == "stdio" else "{url}", *kind.options],
        transport="http",
        revisions=[revision or kind.revision],
        client=client,
        timeout=10,
        patience=patience,
        scenarios=[scenario],
    )
    report = run_in_virtual_time(check_client(plan))
    return {each.id: each for each in report.results}


def breaches(found: dict[str, Any]) -> list[str]:
    return [id for id, each in found.items() if each.verdict in ("fail", "warn")]


class EndsAfterErrors(RawStateless):
    """Lets the error of a missing resource end the program, as a short script does."""

    async def ask(self, method: str, params: Message | None = None) -> Any:
        reply = await super().ask(method, params)
        if method == "resources/read" and "error" in (reply or {}):
            raise Gone
        return reply


@pytest.mark.requirement("resources.read.client-accepts-32002")
def test_a_client_that_ends_after_an_error_is_not_blamed_for_its_code():
    found = results(EndsAfterErrors, "ReturnsUnusualResults")
    assert breaches(found) == []
    assert found["resources.read.client-accepts-32002"].verdict == "not-exercised"


class WantsResultTypes(RawStateless):
    """Refuses results without a type from a server that has to send it."""

    def kind_of(self, result: Message) -> str:
        if "resultType" not in result:
            raise Gone
        return str(result["resultType"])


@pytest.mark.requirement("result.type.absent-means-complete")
def test_a_client_may_insist_on_result_types_of_a_server_that_must_send_them():
    found = results(WantsResultTypes, "LeavesResultTypesOut")
    assert breaches(found) == []
    assert found["result.type.absent-means-complete"].verdict == "not-exercised"


class DropsToolsOfTwoTypes(RawStateless):
    """Takes x-mcp-header on a parameter with several types for an error, and repeats nothing."""

    async def ask(self, method: str, params: Message | None = None) -> Any:
        reply = await super().ask(method, params)
        if method == "tools/list" and reply is not None:
            assert '"type":["' not in json.dumps(reply["result"]["tools"], separators=(",", ":"))
        return reply


@pytest.mark.requirement("http.param-headers.client-support")
def test_the_check_annotates_only_parameters_of_one_plain_type():
    found = results(DropsToolsOfTwoTypes, "WantsArgumentsInHeaders")
    assert breaches(found) == []
    assert found["http.param-headers.client-support"].verdict == "pass"


class ListsTwice(RawStateless):
    """Lists everything a second time, and drops kept pages where a cursor is refused."""

    async def ask(self, method: str, params: Message | None = None) -> Any:
        reply = await super().ask(method, params)
        if "error" in (reply or {}) and "cursor" in (params or {}):
            self.kept = {key: each for key, each in self.kept.items() if method not in key}
        return reply

    async def finish(self) -> None:
        for method in LISTS:
            await self.list(method)


@pytest.mark.requirement("caching.client.bad-cursor-discards-pages")
def test_a_client_that_starts_over_may_follow_the_cursor_of_the_new_first_page():
    found = results(ListsTwice, "ReturnsUnusualResults")
    assert breaches(found) == []
    assert found["caching.client.bad-cursor-discards-pages"].verdict == "pass"


class TakesSubscriptionsBack(RawStateless):
    """Cancels its subscriptions before it ends."""

    async def finish(self) -> None:
        for id in sorted(self.subscriptions)[-1:]:
            await self.give_up(id)


@pytest.mark.requirement("stdio.crash.relisten")
def test_a_client_may_take_back_the_subscription_of_a_new_server_when_it_ends():
    found = results(TakesSubscriptionsBack, "Crashes", over="stdio")
    assert breaches(found) == []
    assert found["stdio.crash.relisten"].verdict == "pass"


class GivesUpEarly(IgnoresPings):
    """Waits less long for an answer than the check does, and answers no ping."""

    patience = 3.0


class LeavesAtOnce(GivesUpEarly):
    """Leaves when its first request takes too long."""

    async def give_up(self, id: Any) -> None:
        raise Gone


@pytest.mark.requirement("ping.response.prompt")
@pytest.mark.parametrize("over", ["http", "stdio"])
def test_a_client_that_goes_on_and_then_leaves_could_have_answered_a_ping(over: str):
    found = results(GivesUpEarly, "SendsEveryRequest", over=over, patience=60.0)
    assert breaches(found) == ["ping.response.prompt"]
    found = results(LeavesAtOnce, "SendsEveryRequest", over=over, patience=60.0)
    assert "ping.response.prompt" not in breaches(found)


@pytest.mark.requirement("jsonrpc.batch.receive")
def test_the_evidence_of_an_unanswered_batch_is_the_batch():
    found = results(IgnoresBatches, "SendsBatches")["jsonrpc.batch.receive"]
    assert found.verdict == "fail"
    (shown,) = [each.message for each in found.evidence if each.message]
    assert shown.startswith("[")
    assert shown.count('"ping"') == 2


class RefusesRequests(RawStateless):
    """Answers requests that its revision does not have with an error, as JSON-RPC wants it."""

    def heed(self, message: Message) -> None:
        super().heed(message)
        if "id" in message:
            error = {"code": -32601, "message": "unknown method"}
            self.spawn(self.say({"jsonrpc": "2.0", "id": message["id"], "error": error}))


@pytest.mark.requirement("jsonrpc.client-no-responses")
def test_a_client_may_refuse_requests_that_its_revision_does_not_have():
    found = results(RefusesRequests, "AsksDirectly", over="stdio")
    assert breaches(found) == []
    assert found["jsonrpc.client-no-responses"].verdict == "pass"
