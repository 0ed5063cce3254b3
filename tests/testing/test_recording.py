import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from accord import trace
from accord.protocol.catalogue import catalogue
from accord.testing import ProtocolBroken, Recording, connected
from support import testing_servers as servers
from support.waiting import LONG, run


def recorded(maker=servers.make, tool: str = "add") -> Recording:
    recording = Recording()

    async def main() -> None:
        async with connected(
            maker, revision="2025-06-18", recording=recording, allow={"*"}
        ) as client:
            await client.call_tool(tool, {"a": 1, "b": 2} if tool == "add" else {})

    run(main())
    return recording


def test_messages_can_be_picked_by_sender_and_method() -> None:
    recording = recorded()
    assert len(recording.messages()) == 5
    (call,) = recording.messages("client", "tools/call")
    assert call["params"]["name"] == "add"
    assert recording.messages("server", "tools/call") == []
    assert repr(recording) == "<Recording of 5 messages, 0 violations>"


def test_batches_count_as_their_messages() -> None:
    recording = Recording()
    recording.observe("client", b'[{"jsonrpc":"2.0","id":1,"method":"ping"},3]')
    assert recording.messages("client", "ping") == [{"jsonrpc": "2.0", "id": 1, "method": "ping"}]


def test_invalid_json_is_kept_as_text_and_reported() -> None:
    recording = Recording()
    recording.observe("server", b"loading \xff model")
    assert recording.records[0].raw == "loading \udcff model"
    recording.close()
    recording.close()
    assert [each.requirement for each in recording.broken()] == [
        "stdio.server.stdout-only-messages"
    ]
    assert recording.messages() == []


@pytest.mark.parametrize("end", [Recording.close, Recording.begin_anew], ids=["close", "anew"])
def test_a_recording_without_a_handshake_is_judged_at_the_end(
    end: Callable[[Recording], None],
) -> None:
    recording = Recording()
    recording.observe("client", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    assert recording.violations == []
    end(recording)
    assert [each.requirement for each in recording.violations] == ["lifecycle.initialize.first"]


def test_it_can_be_saved_and_judged_by_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    recorded(servers.make_bad, "lie").save(file)
    assert len(list(trace.read(file))) == 5
    checked = subprocess.run(
        [sys.executable, "-m", "accord.cli.main", "check", "trace", str(file)],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert "tools.structured-content.also-text" in checked.stdout


def test_verdicts_are_given_on_each_requirement() -> None:
    verdicts = {each.id: each.verdict for each in recorded().verdicts()}
    assert verdicts["tools.structured-content.also-text"] == "pass"
    assert verdicts["prompts.list.array"] == "not-exercised"


def test_breaches_are_reported_by_requirement_with_each_message_once() -> None:
    recording = recorded(servers.make_bad, "lie")
    error = ProtocolBroken([*recording.violations, *recording.violations])
    text = str(error)
    assert text.startswith("the traffic broke the protocol 2 times:")
    assert text.count("- tools.structured-content.also-text") == 1
    assert text.count("message 5, at /result/structuredContent: ") == 1
    assert text.count(f"\n  mend: {catalogue()['tools.structured-content.also-text'].mend}") == 1


@pytest.mark.parametrize(("allow", "count"), [((), 1), (("tools.*",), 0), (("prompts.*",), 1)])
def test_an_allowed_breach_is_not_reported(allow: tuple[str, ...], count: int) -> None:
    assert len(recorded(servers.make_bad, "lie").broken(allow=allow)) == count
