import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from accord import Server
from accord.errors import ConnectFailed
from accord.stdio.client import Process
from accord.testing import ProtocolBroken, Recording, TappedWire, connected
from support import testing_servers as servers
from support.waiting import run

HERE = Path(servers.__file__)
COMMAND = [sys.executable, "-m", "accord", "run", f"{HERE}:make"]


async def called(target: Any, **options: Any) -> tuple[int, int]:
    async with connected(target, **options) as client:
        total = await client.call_tool("add", {"a": 1, "b": 2}, result_type=int)
        return total, await client.call_tool("where", result_type=int)


@pytest.mark.parametrize(
    "target",
    [servers.good, servers.make, lambda: servers.make()],
    ids=["server", "maker", "lambda"],
)
def test_in_memory_the_target_is_a_server_or_a_function(target: Any) -> None:
    assert run(called(target)) == (3, os.getpid())


@pytest.mark.parametrize(
    "target", [servers.good, servers.make, COMMAND], ids=["server", "maker", "command"]
)
def test_over_stdio_the_server_runs_in_its_own_process(target: Any) -> None:
    total, pid = run(called(target, transport="stdio"))
    assert total == 3
    assert pid != os.getpid()


def test_a_file_is_run_over_stdio(tmp_path: Path) -> None:
    file = tmp_path / "served.py"
    file.write_text(HERE.read_text() + "\n\nif __name__ == '__main__':\n    good.run()\n")
    assert run(called(file, transport="stdio"))[0] == 3
    assert run(called(str(file), transport="stdio"))[0] == 3


def test_a_plain_with_gives_the_blocking_client() -> None:
    with connected(servers.good) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}, result_type=int) == 3
    assert client.is_closed


def test_options_are_those_of_connect() -> None:
    async def main() -> None:
        async with connected(servers.good, revision="2025-03-26") as client:
            assert client.revision == "2025-03-26"

    run(main())


@pytest.mark.parametrize("is_async", [True, False])
def test_one_violation_fails_the_test_with_requirement_clause_and_message(is_async: bool) -> None:
    async def main() -> None:
        async with connected(servers.make_bad, revision="2025-06-18") as client:
            await client.call_tool("lie")

    def plainly() -> None:
        with connected(servers.make_bad, revision="2025-06-18") as client:
            client.call_tool("lie")

    with pytest.raises(ProtocolBroken) as caught:
        run(main()) if is_async else plainly()
    (violation,) = caught.value.violations
    assert violation.requirement == "tools.structured-content.also-text"
    message = str(caught.value)
    assert "the traffic broke the protocol once" in message
    assert "has the same JSON in a text block" in message
    assert "something else" in message
    assert isinstance(caught.value, AssertionError)


@pytest.mark.parametrize("allow", ["tools.structured-content.also-text", "tools.*"])
def test_a_breach_may_be_allowed_by_name(allow: str) -> None:
    async def main() -> None:
        async with connected(
            servers.make_bad, revision="2025-06-18", allow={allow, "practice.*"}
        ) as client:
            await client.call_tool("lie")

    run(main())


def test_a_failing_test_shows_the_breaches() -> None:
    async def main() -> None:
        async with connected(servers.make_bad, revision="2025-06-18") as client:
            await client.call_tool("lie")
            raise KeyError("own failure")

    with pytest.raises(KeyError, match="own failure") as caught:
        run(main())
    assert "also-text" in caught.value.__notes__[0]


def test_a_given_recording_is_filled() -> None:
    recording = Recording()

    async def main() -> None:
        async with connected(servers.good, recording=recording, revision="2025-11-25") as client:
            await client.ping()

    run(main())
    assert [each["method"] for each in recording.messages("client")] == [
        "initialize",
        "notifications/initialized",
        "ping",
    ]


def test_an_unknown_transport_is_refused() -> None:
    with pytest.raises(ValueError, match="'telepathy', expected one of memory, stdio"):
        connected(servers.good, transport="telepathy")  # type: ignore[arg-type]


def test_a_target_other_than_a_server_is_refused_in_memory() -> None:
    with pytest.raises(TypeError, match="not a list"):
        run(called(["python"]))


@pytest.mark.parametrize("target", [Server("nowhere"), lambda: servers.make()])
def test_a_server_that_a_process_cannot_import_is_refused_over_stdio(target: Any) -> None:
    with pytest.raises(ValueError, match="at the top level of a module"):
        run(called(target, transport="stdio"))


def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(ConnectFailed, match="died early") as caught:
        run(called([sys.executable, "-c", "raise SystemExit('died early')"], transport="stdio"))
    assert caught.value.exit_code == 1


def test_output_of_a_launched_module_is_not_a_breach() -> None:
    recording = Recording()
    run(called(servers.good, transport="stdio", recording=recording))
    assert recording.violations == []


def test_stderr_options_reach_the_process() -> None:
    lines: list[str] = []
    run(called(servers.good, transport="stdio", stderr=lines.append))
    assert "printed at import" in lines


def test_both_kinds_of_clients_can_be_used_at_once() -> None:
    async def main() -> None:
        async with connected(servers.good) as one, connected(servers.good) as two:
            await asyncio.gather(one.ping(), two.ping())

    run(main())


def test_a_recorded_process_reports_to_the_listener_of_the_client() -> None:
    process = Process([sys.executable])
    listener: Any = object()
    TappedWire(process, Recording()).report_to(listener)
    assert process._listener is listener
