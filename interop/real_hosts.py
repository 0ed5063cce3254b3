"""Hosts that others wrote, each with a home folder of its own and without network.

A host tells which servers it reaches by a command of its own. Where it lacks one, a model on this
machine is asked a question through it, and the tools that it offers to the model are what it has.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, Final

import pytest
from sessions import HERE, NODE

GATE: Final = HERE / "node_modules/.bin"
# What `make .venv-interop/hosts` installs for `make thorough`.
MORE: Final = HERE / "more_hosts/node_modules/.bin"
# The package for all systems names a version of this one that is not published at times.
DROID: Final = HERE / "more_hosts/node_modules/@factory/cli-linux-x64/bin"
PATIENCE: Final = 120.0
TIMES: Final = 3
# Nothing answers there: a host that waits for the network fails at once.
NOWHERE: Final = "http://127.0.0.1:9"
TOKEN: Final = "a-token-of-the-user"
OFFLINE: Final = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
    **dict.fromkeys(("NO_COLOR", "DO_NOT_TRACK", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER"), "1"),
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CONTINUE_TELEMETRY_ENABLED": "0",
    "COPILOT_AUTO_UPDATE": "false",
    "COPILOT_OFFLINE": "true",
    "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    # Gemini CLI launches nothing in a folder that it does not trust.
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
}


class Home:
    """A home folder, with a project in it: what accord and a host see of the machine."""

    def __init__(self, folder: Path, model: "Model | None" = None) -> None:
        self.folder = folder / "home"
        self.project = self.folder / "project"
        self.project.mkdir(parents=True)
        self.model = model

    @property
    def environment(self) -> dict[str, str]:
        return {
            **OFFLINE,
            "HOME": str(self.folder),
            "PATH": os.pathsep.join((str(Path(NODE).parent), "/usr/bin", "/bin")),
            "API_TOKEN": TOKEN,
        }

    def accord(self, *words: str) -> str:
        """Run `accord`; return what it prints. It must succeed."""
        command = [sys.executable, "-m", "accord", *words]
        environment = {**self.environment, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        return self.run(command, environment)

    def run(self, command: Sequence[str], environment: dict[str, str] | None = None) -> str:
        """Run a program in the project; return what it prints. It must succeed."""
        done = subprocess.run(
            command,
            cwd=self.project,
            env=environment or self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)


States = dict[str, str]


def read_lines(output: str) -> States:
    """Read a list with one server a line: `connected` if the line says so, else `listed`."""
    found = {}
    for line in output.splitlines():
        if name := re.match(r"\W*(near|far)\b", line):
            is_connected = re.search(r"\bconnected\b", line, re.IGNORECASE)
            found[name[1]] = "connected" if is_connected else "listed"
    return found


def list_servers(*words: str) -> Callable[[Home, str], States]:
    """Let a host list its servers by a command of its own."""
    return lambda home, program: read_lines(home.run([program, *words]))


def list_as_json(home: Home, program: str) -> States:
    """Let MCPorter list its servers, and those of the other hosts whose files it reads."""
    found = json.loads(home.run([program, "list", "--json"]))
    states = {"ok": "connected"}
    return {each["name"]: states.get(each["status"], "listed") for each in found["servers"]}


def ask_app_server(home: Home, program: str) -> States:
    """Ask the server that editors use Codex by: it launches all that is configured."""
    process = subprocess.Popen(
        [program, "app-server"],
        cwd=home.project,
        env=home.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin
    assert process.stdout

    def ask(number: int, method: str, params: dict[str, Any]) -> Any:
        message = {"id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            answer = json.loads(line)
            if answer.get("id") == number:
                return answer["result"]
        raise AssertionError("it ended before it answered")

    with process:
        ask(1, "initialize", {"clientInfo": {"name": "interop", "version": "1"}})
        found = ask(2, "mcpServerStatus/list", {})
        process.stdin.close()
    return {each["name"]: "connected" if each["tools"] else "listed" for each in found["data"]}


def ask_model(*words: str) -> Callable[[Home, str], States]:
    """Ask a question through a host; return the servers whose tools it offers to the model."""

    def ask(home: Home, program: str) -> States:
        assert home.model is not None
        home.model.offered.clear()
        home.run([program, *words], {**home.environment, **home.model.environment})
        assert home.model.offered, "it did not ask the model"
        names = " ".join(home.model.offered)
        return {name: "connected" for name in ("near", "far") if f"tell_{name}" in names}

    return ask


@dataclass(frozen=True)
class RealHost:
    """A host as it is installed.

    Attributes:
        name: in accord's table.
        program: that shows its servers.
        show: runs it; returns the state of each server.
        file: its configuration, below the home folder.
        text: what a user has in it.
        connects: whether it connects to servers to show them.
        settles: whether it writes into the file itself, so that it has to run once before.
        in_gate: whether `make integration` has it.
        others: files that it needs besides, by their paths below the home folder.
    """

    name: str
    program: str
    show: Callable[[Home, str], States]
    file: str
    text: str
    connects: bool = True
    settles: bool = False
    in_gate: bool = False
    others: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def find(self) -> str:
        """Return the path of its program; skip the test if it is not installed, or not wholly."""
        if self.in_gate:
            found = shutil.which(self.program, path=str(GATE))
            assert found, f"{self.program} is not installed: make .venv-interop/ready"
            return found
        found = shutil.which(self.program, path=f"{MORE}{os.pathsep}{DROID}")
        if found is None:
            pytest.skip(f"{self.program} is not installed: make .venv-interop/hosts")
        with TemporaryDirectory() as folder:
            try:
                Home(Path(folder)).run([found, "--version"])
            except AssertionError as error:
                pytest.skip(f"{self.program} is not installed wholly: {error}")
        return found

    def set_up(self, home: Home) -> Path:
        """Write its files as the user has them; return the path of the configuration."""
        for place, text in {**self.others, self.file: self.text}.items():
            path = home.folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            port = home.model.port if home.model else 0
            path.write_text(text.replace("MODEL_URL", f"http://127.0.0.1:{port}/v1"))
        return home.folder / self.file

    def expect(self, home: Home, program: str, states: States) -> None:
        """Require that it shows these servers.

        Some hosts give a server five seconds to start, which is little on a busy machine: it is
        asked again then.
        """
        for _ in range(TIMES):
            found = self.show(home, program)
            if found == states:
                return
        assert found == states


# -- a model on this machine


class Model(ThreadingHTTPServer):
    """An API for chat completions that always answers the same.

    Attributes:
        offered: the names of the tools in the questions so far.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.offered: list[str] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def environment(self) -> dict[str, str]:
        return {
            "COPILOT_PROVIDER_BASE_URL": f"http://127.0.0.1:{self.port}/v1",
            "COPILOT_MODEL": "small",
        }


class _Answer(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.offered += [each["function"]["name"] for each in asked.get("tools", ())]
        if asked.get("stream"):
            events = [_chunk({"role": "assistant", "content": "done"}), _chunk({}, "stop")]
            body = (
                "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
            )
            self._send("text/event-stream", body)
        else:
            message = {"role": "assistant", "content": "done"}
            whole = _chunk({}, "stop")
            whole["choices"][0]["message"] = message
            self._send("application/json", json.dumps({**whole, "object": "chat.completion"}))

    def do_GET(self) -> None:
        self._send("application/json", json.dumps({"object": "list", "data": [{"id": "small"}]}))

    def _send(self, content_type: str, body: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def _chunk(delta: dict[str, str], reason: str | None = None) -> dict[str, Any]:
    return {
        "id": "1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "small",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


@contextmanager
def run_model() -> Iterator[Model]:
    """Run the model as long as the block."""
    with Model() as model:
        thread = Thread(target=model.serve_forever, daemon=True)
        thread.start()
        try:
            yield model
        finally:
            model.shutdown()
            thread.join()
