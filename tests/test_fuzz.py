"""The search for fatal input runs, finds nothing in a moment, and can repeat what it finds."""

import json
import random
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

PATH = Path(__file__).parents[1] / "fuzz" / "core.py"
_spec = spec_from_file_location("fuzz_core", PATH)
assert _spec is not None
assert _spec.loader is not None
fuzz = module_from_spec(_spec)
sys.modules["fuzz_core"] = fuzz
_spec.loader.exec_module(fuzz)


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


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x01{}\n{}", b"\xffx\ny\nz"])
def test_any_bytes_make_a_case(data):
    case = fuzz.case_from_bytes(data)
    fuzz.run(case, thorough=False)
    assert case.messages


def test_what_is_found_is_made_smaller_saved_and_repeated(tmp_path, capsys, monkeypatch):
    fatal = b'{"fatal":true}'

    def fragile(data: bytes) -> None:
        if data == fatal:
            raise ZeroDivisionError

    monkeypatch.setattr(fuzz, "_decode", fragile)
    messages = [("client", b"1"), ("server", fatal), ("client", b"2")]
    assert fuzz.report(fuzz.Case("2025-06-18", True, messages), tmp_path, "x") == 1
    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said
    path = tmp_path / "found-x.json"
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


# -- the edge of the HTTP server


@pytest.fixture(scope="module")
def edge():
    path = PATH.with_name("http_server.py")
    spec = spec_from_file_location("fuzz_http_server", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["fuzz_http_server"] = module
    spec.loader.exec_module(module)
    return module


def test_a_short_search_at_the_edge_of_http_finds_nothing(edge, tmp_path, capsys):
    assert edge.main(["--seconds", "2", "--seed", "7", "--folder", str(tmp_path)]) == 0
    assert "nothing found (seed 7)" in capsys.readouterr().out


def test_a_seed_gives_the_same_connections(edge):
    seeds = edge.corpus()
    first, second = (
        [edge.random_case(seeds, dice) for _ in range(20)]
        for dice in (random.Random(3), random.Random(3))
    )
    assert first == second


def test_what_is_found_at_the_edge_is_made_smaller_saved_and_repeated(
    edge, tmp_path, capsys, monkeypatch
):
    fatal = b"GET /fatal HTTP/1.1\r\n\r\n"
    received = edge.BoundedProtocol.data_received

    def fragile(self, data: bytes) -> None:
        if fatal in data:
            raise ZeroDivisionError
        received(self, data)

    monkeypatch.setattr(edge.BoundedProtocol, "data_received", fragile)
    fine = b"GET /healthz HTTP/1.1\r\n\r\n"
    case = edge.Case([edge.Talk([fine]), edge.Talk([fine, fatal])])
    with edge.target() as made:
        why = edge.failure_of(case, made)
    assert "ZeroDivisionError" in why
    assert edge.report(case, tmp_path, "x", why) == 1
    path = tmp_path / "found-http-server-x.json"
    assert f"--repeat {path}" in capsys.readouterr().err
    assert edge.Case.load(path) == edge.Case([edge.Talk([fatal])])
    assert edge.main(["--repeat", str(path)]) == 1
    monkeypatch.undo()
    assert edge.main(["--repeat", str(path)]) == 0
