"""Foreign peers on both sides of a proxy of ours: the scenario comes out as without it.

A recorder on each side of the proxy shows what it says as a server, and what as a client.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sessions import CLIENTS, PEERS, SERVERS, TEE, run, surroundings

from accord.protocol.monitor import Monitor
from accord.trace import Party, read


class Chain(NamedTuple):
    """A client, a server, the revision of the client, and the transport in front of the proxy."""

    client: str
    server: str
    revision: str = "default"
    front: str = "stdio"

    def __str__(self) -> str:
        return f"{self.client}-to-{self.server}-{self.revision}-{self.front}"


# A client that is asked through rounds, and a server that asks by requests.
IN_THE_GATE = [Chain("mcp", "sdk-1")]
OTHERS = [
    Chain("sdk-2", "accord", "2025-06-18", "http"),
    *(
        Chain(client, server)
        for client in CLIENTS
        for server in ("accord", "mcp", "mcp-lowlevel", "fastmcp", "sdk-1", "sdk-2")
    ),
    *(Chain(client, "mcp-lowlevel", "2025-06-18", "http") for client in ("mcp", "accord")),
    *(Chain(client, "sdk-1", "default", "http") for client in ("mcp", "fastmcp", "accord")),
]
CHAINS = [
    *IN_THE_GATE,
    *(pytest.param(each, marks=pytest.mark.thorough) for each in OTHERS if each not in IN_THE_GATE),
]
# FastMCP chooses the name of the model itself; the others take that of the scenario.
MODELS = {"fastmcp": "fastmcp-slim"}
# They lose progress that they read together with the answer.
LOSES_PROGRESS = {"sdk-1", "sdk-2"}
# They have no tool that changes a resource.
NO_SUBSCRIPTIONS = {"fastmcp"}
# They know no revision without a handshake.
HANDSHAKE_ALONE = {"sdk-1"}


@pytest.mark.parametrize("chain", CHAINS, ids=str)
def test_a_scenario_comes_out_through_a_proxy_as_without_it(chain: Chain, tmp_path: Path) -> None:
    front, back = tmp_path / "front.jsonl", tmp_path / "back.jsonl"
    proxy = [sys.executable, str(PEERS / "accord_proxy.py"), chain.front]
    # Each connection of the proxy launches a server, with a recording of its own.
    tee = f'exec "{sys.executable}" "{TEE}" "{back}.$$" "$@"'
    behind = [*proxy, "sh", "-c", tee, "sh", *SERVERS[chain.server]]
    start = [*CLIENTS[chain.client], chain.revision]
    if chain.front == "stdio":
        _, printed, said = run([*start, sys.executable, str(TEE), str(front), *behind])
        check_recording(front, "server")
    else:
        with served(behind) as url:
            _, printed, said = run([*start, url], INTEROP_FORM="auto")
    assert printed, said
    check_outcomes(chain, json.loads(printed))
    recordings = [each for each in tmp_path.glob("back.jsonl.*") if each.suffix != ".exit"]
    assert recordings
    for each in recordings:
        check_recording(each, "client")


@contextmanager
def served(command: list[str]) -> Iterator[str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=surroundings())
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip() + "/mcp"
    finally:
        process.terminate()
        process.communicate(timeout=30)


def check_recording(trace: Path, ours: Party) -> None:
    monitor = Monitor(kept=1)
    found = [breach for record in read(trace) for breach in monitor.observe(record)]
    found += monitor.close()
    broken = [str(each) for each in found if each.party == ours]
    assert not broken


def check_outcomes(chain: Chain, outcomes: dict[str, Any]) -> None:
    texts = {
        "add": "3",
        "sample": f"{MODELS.get(chain.client, 'parrot')}: echo hello",
        "elicit accept": "Ada is 36",
        "elicit decline": "decline",
        "elicit cancel": "cancel",
        "roots": "file:///work",
        "cancel": "1",
        "counted on": "counted to 5",
    }
    is_modern = outcomes["opened"]["revision"] == "2026-07-28"
    # Each call of a client without a session may have a process of its own, which knows nothing of
    # the others, where the server asks by requests.
    is_isolated = is_modern and chain.front == "http" and chain.server in HANDSHAKE_ALONE
    if is_isolated:
        del texts["cancel"]
    assert {name: outcomes[name].get("text") for name in texts} == texts
    weather = outcomes["weather"]
    assert 21.5 in (weather if chain.client == "accord" else weather["structured"].values())
    assert outcomes["fail"]["error"] is True
    assert outcomes["fail"]["text"].endswith("the tool says no")
    types = ["text", "image", "audio", "resource", "resource_link"]
    assert outcomes["media"]["types"] == types
    assert outcomes["large"] is True
    assert outcomes["at once"] == [str(2 * number) for number in range(20)]
    assert is_isolated or outcomes["grow"]["new"] is True
    said = {"msg": "heard", "extra": None} if chain.server == "fastmcp" else "heard"
    assert ["error", said, "interop"] in outcomes["log"]
    assert outcomes["read text"] == ["memo://today", "text/plain", "sunny"]
    assert outcomes["read template"] == ["memo://notes/monday", "text/plain", "note monday"]
    assert outcomes["prompt"] == [["user", "Greet Ada, who is happy."]]
    assert outcomes["complete prompt"] == ["happy", "hungry"]
    assert outcomes["complete template"] == ["monday", "moon"]
    assert outcomes["closed"] is True
    if chain.client not in LOSES_PROGRESS:
        steps = [[number, 3, f"step {number}"] for number in (1, 2, 3)]
        assert outcomes["progress"]["seen"] == steps
    if chain.server not in NO_SUBSCRIPTIONS and not is_isolated:
        assert outcomes["subscribe"] == ["memo://today"]
    if is_modern:
        assert outcomes["together"]["text"] == "Ada is 36 in file:///work"
