"""The search at the edge of the HTTP server runs, and what it finds is small and repeatable."""

import random
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "fuzz"


def load(name):
    spec = spec_from_file_location(f"fuzz_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[f"fuzz_{name}"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def edge():
    return load("http_server")


@pytest.fixture(scope="module")
def listener():
    return load("http_listener")


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


def test_a_finding_at_the_edge_is_made_smaller_saved_and_repeated(
    edge, tmp_path, capsys, monkeypatch
):
    fatal = b"GET /fatal HTTP/1.1\r\n\r\n"
    received = edge.HttpConnection.data_received

    def fragile(self, data: bytes) -> None:
        if fatal in data:
            raise ZeroDivisionError
        received(self, data)

    monkeypatch.setattr(edge.HttpConnection, "data_received", fragile)
    fine = b"GET /healthz HTTP/1.1\r\n\r\n"
    case = edge.Case([edge.Talk([fine]), edge.Talk([fine, fatal])])
    with edge.target() as made:
        why = edge.failure_of(case, made)
        assert "ZeroDivisionError" in why
        assert edge.make_search(made).report(case, tmp_path, "x", why) == 1
    path = tmp_path / "found-http_server-x.json"
    assert f"--repeat {path}" in capsys.readouterr().err
    assert edge.Case.load(path) == edge.Case([edge.Talk([fatal])])
    assert edge.main(["--repeat", str(path)]) == 1
    monkeypatch.undo()
    assert edge.main(["--repeat", str(path)]) == 0


def test_a_short_search_in_the_listener_finds_nothing(listener, tmp_path, capsys):
    assert listener.main(["--seconds", "1", "--seed", "7", "--folder", str(tmp_path)]) == 0
    assert "nothing found (seed 7)" in capsys.readouterr().out


def test_a_seed_gives_the_listener_the_same_connections(listener):
    seeds = listener.all_seeds()
    first, second = (
        [listener.random_case(seeds, dice) for _ in range(20)]
        for dice in (random.Random(3), random.Random(3))
    )
    assert first == second


def test_a_request_that_the_listener_executes_wrongly_is_found_and_made_smaller(
    listener, tmp_path, capsys, monkeypatch
):
    def careless(self, most):
        return None

    # As if the listener took every version for HTTP/1.1, as its parser does.
    monkeypatch.setattr(listener.ReceivedHead, "find_fault", careless)
    canary = next(each.data for each in listener.CASES if each.name == "request line, no version")
    fine = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    case = listener.Case([listener.Talk([fine, fine]), listener.Talk([fine, canary])])
    why = listener.fails_alone(case)
    assert "a request was executed" in why
    loop = listener.Loop()
    assert listener.make_search(loop).report(case, tmp_path, "x", why) == 1
    loop.close()
    path = tmp_path / "found-http_listener-x.json"
    assert f"--repeat {path}" in capsys.readouterr().err
    assert listener.Case.load(path) == listener.Case([listener.Talk([canary])])
    monkeypatch.undo()
    assert listener.main(["--repeat", str(path)]) == 0
