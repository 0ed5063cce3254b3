"""The search for fatal input runs, finds nothing in a moment, and can repeat what it finds."""

import json
import random
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from support.tables import cases

FOLDER = Path(__file__).parents[1] / "fuzz"


def load(name: str) -> ModuleType:
    spec = spec_from_file_location(f"fuzz_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[f"fuzz_{name}"] = module
    spec.loader.exec_module(module)
    return module


fuzz = load("core")
http_client = load("http_client")


def test_a_short_search_finds_nothing(tmp_path, capsys):
    assert fuzz.main(["--seconds", "1", "--seed", "7", "--folder", str(tmp_path)]) == 0
    assert "nothing found (seed 7)" in capsys.readouterr().out


def test_the_corpus_is_survived_as_it_is():
    for number, data in enumerate(fuzz.corpus()):
        sender = "client" if number % 2 else "server"
        fuzz.run(fuzz.Case("2025-06-18", number % 3 > 0, [(sender, data)]), thorough=False)


def test_a_seed_gives_the_same_cases():
    seeds = fuzz.corpus()
    first, second = (
        [fuzz.random_case(seeds, dice) for _ in range(20)]
        for dice in (random.Random(3), random.Random(3))
    )
    assert first == second


@cases("data", [b"", b"\x00", b"\x01{}\n{}", b"\xffx\ny\nz"])
def test_any_bytes_make_a_case(data):
    case = fuzz.case_from_bytes(data)
    fuzz.run(case, thorough=False)
    assert case.messages


def test_a_failing_case_is_made_smaller_saved_and_repeated(tmp_path, capsys, monkeypatch):
    fatal = b'{"fatal":true}'

    def fragile(data: bytes) -> None:
        if data == fatal:
            raise ZeroDivisionError

    monkeypatch.setattr(fuzz, "_decode", fragile)
    messages = [("client", b"1"), ("server", fatal), ("client", b"2")]
    case = fuzz.Case("2025-06-18", True, messages)
    assert fuzz.make_search().report(case, tmp_path, "x", fuzz.failure_of(case)) == 1
    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said
    path = tmp_path / "found-core-x.json"
    assert f"--repeat {path}" in said
    assert fuzz.Case.load(path).messages == [("server", fatal)]
    assert json.loads(path.read_text())["revision"] == "2025-06-18"
    assert fuzz.main(["--repeat", str(path)]) == 1
    monkeypatch.undo()
    assert fuzz.main(["--repeat", str(path)]) == 0


def test_guidance_needs_its_library(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "atheris", None)
    assert fuzz.main(["--guided", "--folder", str(tmp_path)]) == 2
    assert "atheris" in capsys.readouterr().err


def test_a_short_search_with_the_http_client_finds_nothing(tmp_path):
    # In a process of its own: it counts the sockets of the process, and freezes its objects.
    command = [sys.executable, str(FOLDER / "http_client.py"), "--folder", str(tmp_path)]
    done = subprocess.run(
        [*command, "--seconds", "2", "--seed", "7"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "nothing found (seed 7)" in done.stdout


def test_a_seed_gives_the_http_client_the_same_cases():
    seeds = http_client.corpus()
    first, second = (
        [http_client.random_case(seeds, dice) for _ in range(20)]
        for dice in (random.Random(3), random.Random(3))
    )
    assert first == second


def test_a_case_that_the_http_client_does_not_survive_is_made_smaller_saved_and_repeated(
    tmp_path, capsys, monkeypatch
):
    def fragile(case):
        if any(b"fatal" in b"".join(answer.pieces) for answer in case.answers):
            raise RecursionError

    monkeypatch.setattr(http_client, "run", fragile)
    answers = [
        http_client.Answer([b"HTTP/1.1 200 OK\r\n", b"\r\n"]),
        http_client.Answer([b"x" * 100 + b"fatal", b"y"], "close"),
    ]
    case = http_client.Case(True, False, answers)
    assert http_client.make_search().report(case, tmp_path, "x", http_client.failure_of(case)) == 1
    said = capsys.readouterr().err
    assert "RecursionError" in said
    path = tmp_path / "found-http_client-x.json"
    assert f"--repeat {path}" in said
    (answer,) = http_client.Case.load(path).answers
    assert len(b"".join(answer.pieces)) < 20
    assert http_client.main(["--repeat", str(path)]) == 1
    monkeypatch.setattr(http_client, "run", lambda case: None)
    assert http_client.main(["--repeat", str(path)]) == 0
