"""`subscriptions/listen` over real pipes, beside a session."""

from pathlib import Path
from typing import Any

import pytest

from support.listening import SUBSCRIPTION
from support.modern import meta
from support.processes import Child, python

CHANGING = Path(__file__).parent / "servers" / "changing.py"
TOOLS = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"


def receive_all(child: Child, count: int) -> list[Any]:
    return [child.receive() for _ in range(count)]


@pytest.mark.requirement(
    "subscriptions.ack-first",
    "subscriptions.graceful-end-result",
    "subscriptions.teardown-cancelled-notification",
    "stdio.shutdown.server-exits-on-eof",
    "stdio.listen.correlate-by-id",
)
def test_a_pipe_carries_a_session_and_subscriptions_until_its_end() -> None:
    with Child(*python(CHANGING)) as child:
        filters = {"toolsListChanged": True, "resourceSubscriptions": ["note://a"]}
        child.request("L", "subscriptions/listen", {"_meta": meta(), "notifications": filters})
        child.request(1, "subscriptions/listen", {"_meta": meta(), "notifications": filters})
        for id, acknowledged in zip(("L", 1), receive_all(child, 2), strict=True):
            assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
            assert acknowledged["params"] == {
                "_meta": {SUBSCRIPTION: id},
                "notifications": filters,
            }
        child.open("2025-11-25")
        child.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        )
        child.call(2, "change")
        told = receive_all(child, 4)
        assert sorted(each.get("method", "") for each in told) == ["", UPDATED, TOOLS, TOOLS]
        tagged = [each for each in told if SUBSCRIPTION in each.get("params", {}).get("_meta", {})]
        assert [each["method"] for each in tagged] == [UPDATED, TOOLS]
        child.close_input()
        cancelled, result = receive_all(child, 2)
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == "L"
        assert result["id"] == "L"
        assert result["result"]["resultType"] == "complete"
        assert result["result"]["_meta"][SUBSCRIPTION] == "L"
        assert child.receive() is None
        assert child.wait() == 0
