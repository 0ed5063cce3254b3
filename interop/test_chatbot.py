"""The chatbot of the official SDK beside its port: same servers, same model, same conversation.

A server of this test plays the model. It answers by a script, and records what it was asked.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from sessions import HERE, PATIENCE, QUIET, surroundings

ORIGINALS: Final = HERE.parent / ".venv-interop" / "originals"
ORIGINAL: Final = ORIGINALS / "mcp/examples/clients/simple-chatbot/mcp_simple_chatbot/main.py"
PORT: Final = HERE / "ports" / "chatbot.py"
REDIRECT: Final = HERE / "ports" / "foreign" / "chatbot.py"

# What the user says, and the replies of the model to each; a call of a tool is followed by another.
CONVERSATION: Final = (
    ("Hello", ["How can I help?"]),
    ("Add 2 and 3", ['{"tool": "add", "arguments": {"a": 2, "b": 3}}', "It is 5."]),
    (
        "How warm is it in Paris?",
        [
            '```json\n{"tool": "get_temperature", "arguments": {"city": "Paris"}}\n```',
            "22 degrees.",
        ],
    ),
    ("Add x", ['{"tool": "add", "arguments": {"a": "x", "b": 3}}', "That is not a number."]),
    ("Fly", ['{"tool": "fly", "arguments": {}}', "I cannot fly."]),
    ("Call without arguments", ['{"tool": "add"}']),
    ("List something", ['["no", "call"]']),
)
SAID: Final = [said for said, _ in CONVERSATION]


class Model:
    """A model at a URL."""

    def __init__(self, replies: Sequence[str]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        waiting = iter(replies)
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                model.requests.append(json.loads(body))
                model.keys.add(self.headers["Authorization"])
                message = {"role": "assistant", "content": next(waiting, "the script has ended")}
                answer = json.dumps({"choices": [{"message": message}]}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/chat/completions"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def transcript(self) -> list[dict[str, str]]:
        """The messages of the last request, which repeats all before."""
        found: list[dict[str, str]] = self.requests[-1]["messages"]
        return found


def launch(name: str) -> dict[str, Any]:
    """Return the entry of a server."""
    run = ["-P", "-m", "accord", "run", str(HERE / "ports" / name)]
    return {"command": sys.executable, "args": run, "env": {"DESK": "1"}}


def talk(
    folder: Path, servers: dict[str, Any], said: Sequence[str], replies: Sequence[str]
) -> dict[str, tuple[Model, int, str]]:
    """Have the same conversation with both; return what the model saw, the status and the log."""
    (folder / "servers_config.json").write_text(json.dumps({"mcpServers": servers}))
    found = {}
    for name in ("original", "port"):
        model = Model(replies)
        foreign = [str(REDIRECT), str(ORIGINAL), model.url]
        try:
            done = subprocess.run(
                [sys.executable, *(foreign if name == "original" else [str(PORT)])],
                input="\n".join([*said, "quit"]) + "\n",
                capture_output=True,
                text=True,
                cwd=folder,
                timeout=PATIENCE,
                env={**surroundings(), **QUIET, "LLM_API_KEY": "key", "LLM_URL": model.url},
                check=False,
            )
        finally:
            model.close()
        found[name] = (model, done.returncode, done.stderr)
    return found


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    """Return the model of each side, after the whole conversation."""
    servers = {"numbers": launch("testing_demo.py"), "weather": launch("weather.py")}
    replies = [reply for _, all_ in CONVERSATION for reply in all_]
    talks = talk(tmp_path_factory.mktemp("chat"), servers, SAID, replies)
    for _, status, said in talks.values():
        assert status == 0, said[-2000:]
    return {name: model for name, (model, _, _) in talks.items()}


def roles_and_texts(model: Model) -> list[tuple[str, str]]:
    """Return the transcript without texts of the program, which each writes in its own words."""
    return [
        (each["role"], "" if each["role"] == "system" else each["content"])
        for each in model.transcript
    ]


def test_the_model_sees_the_same_conversation(models: dict[str, Model]) -> None:
    theirs, ours = models["original"], models["port"]
    assert len(ours.requests) == len(theirs.requests)
    assert roles_and_texts(ours) == roles_and_texts(theirs)
    assert [each["content"] for each in ours.transcript if each["role"] == "user"] == [
        said.lower() for said in SAID
    ]
    assert ours.keys == theirs.keys == {"Bearer key"}


def test_the_model_gets_the_same_tools(models: dict[str, Model]) -> None:
    introductions = [model.transcript[0]["content"] for model in models.values()]
    tools = [
        [line for line in text.splitlines() if line.startswith(("Tool: ", "- "))]
        for text in introductions
    ]
    theirs, ours = [[line.partition(": ") for line in lines] for lines in tools]
    assert [line[0] for line in ours] == [line[0] for line in theirs]
    assert [line[2] for line in ours if line[0] == "Tool"] == [
        line[2] for line in theirs if line[0] == "Tool"
    ]
    assert [line[2].endswith("(required)") for line in ours] == [
        line[2].endswith("(required)") for line in theirs
    ]


def test_the_model_gets_the_same_results(models: dict[str, Model]) -> None:
    results = {
        name: [each["content"] for each in model.transcript[1:] if each["role"] == "system"]
        for name, model in models.items()
    }
    ours, theirs = results["port"], results["original"]
    assert len(ours) == len(theirs) == 4
    assert [text.partition(": ")[0] for text in ours] == [
        "The tool returned",
        "The tool returned",
        "The tool failed",
        "No server has this tool",
    ]
    for mine, other in zip(ours[:3], theirs[:3], strict=True):
        # The original prints the whole result as Python does.
        assert repr(mine.partition(": ")[2])[1:-1] in other
    assert ["is_error=True" in each for each in theirs[:3]] == [False, False, True]
    assert "fly" in theirs[3]


def test_the_port_goes_on_without_a_server_that_does_not_start(tmp_path: Path) -> None:
    servers = {"gone": {"command": "accord-no-such-program", "args": []}}
    servers["numbers"] = launch("testing_demo.py")
    replies = ['{"tool": "add", "arguments": {"a": 2, "b": 3}}', "It is 5."]
    talks = talk(tmp_path, servers, ["Add 2 and 3"], replies)
    assert talks["original"][0].requests == []
    assert "gone" in talks["port"][2]
    assert talks["port"][0].transcript[-1]["content"] == "The tool returned: 5"
