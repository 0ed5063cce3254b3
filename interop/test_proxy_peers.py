"""Foreign servers behind our proxy, foreign clients in front of it, and both at once.

A chain is a client, our proxy and a server. The clients of all chains run in one process, which
plays the scenario of `test_features.py` with each of them.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from proxy_clients import ALL_CHAINS
from sessions import (
    DEFAULT,
    HERE,
    MODERN,
    NEWEST_HANDSHAKE,
    OLDER,
    QUIET,
    SERVERS,
    STDIO,
    TEE,
    judge,
    surroundings,
)

from accord.trace import read

HTTP: Final = "http"
PROXY: Final = [sys.executable, "-m", "accord", "proxy"]
CODE_INVALID: Final = -32602
CODE_INTERNAL: Final = -32603
CODE_NOT_FOUND: Final = -32002
_URL: Final = re.compile(r"http://127\.0\.0\.1:\d+/mcp")


class Chain(NamedTuple):
    """A client, the revision it speaks, a server, and the revision that the proxy asks it for."""

    client: str
    revision: str
    server: str
    behind: str = DEFAULT
    front: str = STDIO  # how the client of another library reaches `accord proxy`
    back: str = STDIO  # how the proxy reaches the server
    earlier: int = 0  # how many calls other chains have cancelled on the same server

    def __str__(self) -> str:
        return f"{self.client}-{self.revision}-to-{self.server}-{self.behind}"

    @property
    def agreed(self) -> str:
        """The revision between client and proxy."""
        return MODERN if self.revision == DEFAULT else self.revision

    @property
    def both(self) -> str:
        """The older one of the revisions on both sides of the proxy."""
        return min(self.agreed, MODERN if self.behind == DEFAULT else self.behind)

    @property
    def is_watched(self) -> bool:
        """Whether both wires are recorded."""
        return "accord" not in (self.client, self.server)


# Our client in the first four is connected to a proxy in its own process (`accord.compose`), all
# others to a process of `accord proxy`.
CHAINS: Final = [
    Chain("accord", OLDER, "mcp"),
    Chain("accord", MODERN, "mcp", earlier=1),
    Chain("accord", OLDER, "fastmcp", back=HTTP),
    Chain("accord", MODERN, "fastmcp", "2025-06-18", back=HTTP, earlier=1),
    Chain("mcp", DEFAULT, "accord", NEWEST_HANDSHAKE),
    Chain("fastmcp", DEFAULT, "accord", front=HTTP),
    Chain("mcp", "2025-06-18", "fastmcp"),
    Chain("fastmcp", DEFAULT, "mcp"),
]
BOTH_FOREIGN: Final = [chain for chain in CHAINS if chain.is_watched]
in_each_chain = pytest.mark.parametrize("chain", CHAINS, ids=str)

Outcomes = dict[str, dict[str, Any]]


@contextmanager
def serving(command: list[str]) -> Iterator[str]:
    """Run a process that logs the URL it serves at; yield the URL."""
    env = {**surroundings(), **QUIET}
    silent = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=silent, stderr=subprocess.PIPE, env=env, text=True)
    with process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = _URL.search(line)
            assert found, f"the process names no URL: {line}"
            yield found[0]
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("proxies")


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> Outcomes:
    """Play all chains: outcomes by chain, then by step."""
    ours = next(chain for chain in CHAINS if chain.front == HTTP)
    with serving([*PROXY, "--http", "--port", "0", *_rest(ours, folder)]) as proxy:
        jobs = []
        for chain in CHAINS:
            target: Any = SERVERS[chain.server]
            if chain.back == HTTP:
                target = None  # the process of the clients serves it
            elif chain.front == HTTP:
                target = proxy
            elif chain.client != "accord":
                recorder = _recorder(folder / f"{chain}.front") if chain.is_watched else []
                target = [*recorder, *PROXY, *_rest(chain, folder)]
            fields = {"client": chain.client, "revision": chain.revision, "behind": chain.behind}
            jobs.append({"name": str(chain), "target": target, **fields})
        command = [sys.executable, str(HERE / "proxy_clients.py"), json.dumps(jobs)]
        env = {**surroundings(), **QUIET}
        played = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=ALL_CHAINS, check=False
        )
    assert played.returncode == 0, played.stderr[-4000:]
    return dict(json.loads(line) for line in played.stdout.splitlines())


def _rest(chain: Chain, folder: Path) -> list[str]:
    """Return what follows `accord proxy`: the revision, and the command of the server."""
    pinned = [] if chain.behind == DEFAULT else ["--revision", chain.behind]
    recorder = _recorder(folder / f"{chain}.back") if chain.is_watched else []
    return [*pinned, "--", *recorder, *SERVERS[chain.server]]


def _recorder(trace: Path) -> list[str]:
    return [sys.executable, str(TEE), str(trace)]


@pytest.fixture
def outcome(chain: Chain, outcomes: Outcomes) -> dict[str, Any]:
    """Return what came of each step of a chain."""
    return outcomes[str(chain)]


def answered(outcome: Any) -> str:
    assert outcome["error"] is False, outcome
    text: str = outcome["text"]
    return text


def code(outcome: Any) -> int:
    assert isinstance(outcome, dict), outcome
    assert isinstance(outcome["error"], dict), outcome
    found: int = outcome["error"]["code"]
    return found


@in_each_chain
def test_a_proxy_introduces_itself_as_the_other_server(chain: Chain, outcome: Any) -> None:
    opened = outcome["opened"]
    assert opened["revision"] == chain.agreed
    assert (opened["server"], opened["instructions"]) == (["interop", "1.2.3"], "Call anything.")
    assert {"add", "count", "ask_user", "ask_model"} <= {*outcome["tools"]["names"]}


@in_each_chain
def test_structured_results_pass_a_proxy(chain: Chain, outcome: Any) -> None:
    assert answered(outcome["add"]) == "3"
    if chain.client == "accord":
        assert (outcome["typed result"], outcome["weather"]) == (3, ["Oslo", 21.5, "clear"])
    else:
        assert outcome["add"]["structured"] == {"result": 3}
        assert outcome["weather"]["structured"]["celsius"] == 21.5
        first = outcome["tools"]["first"]
        assert (first["title"], "outputSchema" in first) == ("Addition", True)


@in_each_chain
def test_content_is_that_of_the_revision_of_the_client(chain: Chain, outcome: Any) -> None:
    audio, link = ("text", "text") if chain.agreed == OLDER else ("audio", "resource_link")
    assert outcome["media"]["types"] == ["text", "image", audio, "resource", link]


@in_each_chain
def test_errors_pass_a_proxy(chain: Chain, outcome: Any) -> None:
    assert outcome["fail"]["error"] is True
    assert "the tool says no" in outcome["fail"]["text"]
    assert outcome["bad arguments"]["error"] is True
    assert code(outcome["unknown tool"]) == CODE_INVALID
    assert code(outcome["unknown prompt"]) == CODE_INVALID
    missing = CODE_INVALID if chain.agreed == MODERN else CODE_NOT_FOUND
    assert code(outcome["read missing"]) == missing
    # Their servers call a missing argument an internal error, which passes as it is.
    lacking = CODE_INVALID if chain.server == "accord" else CODE_INTERNAL
    assert code(outcome["missing argument"]) == lacking


@in_each_chain
def test_progress_passes_a_proxy_in_order(chain: Chain, outcome: Any) -> None:
    assert answered(outcome["progress"]) == "counted to 3"
    has_text = chain.both != OLDER
    steps = [[step, 3, f"step {step}" if has_text else None] for step in (1, 2, 3)]
    assert outcome["progress"]["seen"] == steps


@in_each_chain
def test_a_cancelled_call_stops_behind_a_proxy(chain: Chain, outcome: Any) -> None:
    assert outcome["cancel"]["gave up"] is True
    assert answered(outcome["cancel"]) == str(chain.earlier + 1)


@in_each_chain
def test_the_model_and_the_roots_of_the_client_answer(chain: Chain, outcome: Any) -> None:
    model = "fastmcp-slim" if chain.client == "fastmcp" else "parrot"
    assert answered(outcome["sample"]) == f"{model}: echo hello"
    assert answered(outcome["roots"]) == "file:///work"


@in_each_chain
def test_the_user_of_the_client_answers(chain: Chain, outcome: Any) -> None:
    if chain.agreed == OLDER:
        # The method does not exist yet, and the server is not given the capability.
        assert outcome["elicit accept"]["error"]
        return
    answers = [answered(outcome[f"elicit {action}"]) for action in ("accept", "decline", "cancel")]
    assert answers == ["Ada is 36", "decline", "cancel"]


@in_each_chain
def test_logs_pass_a_proxy(chain: Chain, outcome: Any) -> None:
    level, data, logger = outcome["log"][-1]
    assert (level, logger) == ("error", "interop")
    assert data in ("heard", {"msg": "heard", "extra": None})


@in_each_chain
def test_resources_and_prompts_pass_a_proxy(chain: Chain, outcome: Any) -> None:
    assert outcome["resources"] == [["memo://today", "text/plain"], ["memo://logo", "image/png"]]
    assert outcome["templates"] == ["memo://notes/{name}"]
    assert outcome["read text"] == ["memo://today", "text/plain", "sunny"]
    assert outcome["read blob"] == ["memo://logo", "image/png", "iVBORw0KGgo="]
    assert outcome["read template"] == ["memo://notes/monday", "text/plain", "note monday"]
    assert outcome["prompts"] == [["greet", [["name", True], ["mood", False]]], ["tour", []]]
    assert outcome["prompt"] == [["user", "Greet Ada, who is happy."]]
    kinds = [kind for _, kind in outcome["long prompt"]]
    assert kinds == ["Look.", "At what?", "resource", "image"]
    assert outcome["complete prompt"] == ["happy", "hungry"]
    assert outcome["complete template"] == ["monday", "moon"]


@in_each_chain
def test_every_connection_ends_in_peace(chain: Chain, outcome: Any) -> None:
    assert outcome["closed"] is True


@pytest.mark.usefixtures("outcomes")
@pytest.mark.parametrize("chain", BOTH_FOREIGN, ids=str)
def test_a_proxy_breaks_no_requirement_on_either_side(chain: Chain, folder: Path) -> None:
    behind = MODERN if chain.behind == DEFAULT else chain.behind
    sides = (("front", "server", chain.agreed), ("back", "client", behind))
    for side, ours, revision in sides:
        records = list(read(folder / f"{chain}.{side}"))
        assert records
        found = [str(each) for each in judge(records, revision) if each.party == ours]
        assert not found, side
