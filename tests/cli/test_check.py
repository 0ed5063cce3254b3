import json
import os
import subprocess
import sys
import threading
from xml.etree import ElementTree as ET

import pytest

from accord.types import REVISION_IDS
from check.sessions import NEW, opening, request, result, text_of

GOOD = [*opening(), request(2, "ping"), result(2)]
BAD = [*GOOD, {**request(2, "ping"), "t": 1}]


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.jsonl"
    path.write_text(text_of(GOOD))
    return path


@pytest.fixture
def bad(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text(text_of(BAD))
    return path


def test_a_good_recording_passes_with_exit_code_0(accord, good):
    done = accord("check", "trace", good)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{good}: revision {NEW}\nno failures in the ")
    assert "\n\nno violations\n" in done.stdout
    assert "\ncoverage: " in done.stdout
    assert "\nscore: 100 of 100 (" in done.stdout


def test_a_bad_recording_fails_with_exit_code_1(accord, bad):
    done = accord("check", "trace", bad)
    assert (done.returncode, done.stderr) == (1, "")
    assert "FAIL jsonrpc.request.id-unique (MUST, client) record 6\n" in done.stdout


def test_a_recording_is_read_from_standard_input(accord):
    done = accord("check", "trace", "-", "--quiet", data=text_of(BAD))
    assert done.returncode == 1
    assert done.stdout.startswith("FAIL jsonrpc.request.id-unique")
    assert "\nstandard input: revision " in done.stdout


def test_the_report_is_available_in_every_format(accord, bad):
    shown = json.loads(accord("check", "trace", bad, "--format", "json").stdout)
    assert (shown["target"], shown["revision"]) == (str(bad), NEW)
    verdicts = {each["id"]: each for each in shown["results"]}
    assert verdicts["jsonrpc.request.id-unique"]["verdict"] == "fail"
    assert verdicts["jsonrpc.request.id-unique"]["evidence"][0]["number"] == 6
    xml = accord("check", "trace", bad, "--format", "junit").stdout
    assert ET.fromstring(xml).get("failures") == "1"
    assert accord("check", "trace", bad, "--format", "markdown").stdout.startswith("### accord: ")


def test_the_revision_to_judge_by_can_be_given(accord, good):
    done = accord("check", "trace", good, "--revision", REVISION_IDS[0], "--format", "json")
    assert json.loads(done.stdout)["revision"] == REVISION_IDS[0]


def test_only_chosen_requirements_are_reported_and_in_the_command_to_repeat(accord, bad):
    done = accord("check", "trace", bad, "--only", "jsonrpc.request")
    assert done.returncode == 1
    again = f"accord check trace {bad} --only jsonrpc.request.id-unique --revision {NEW}\n"
    assert again in done.stdout
    assert accord("check", "trace", bad, "--only", "ping").returncode == 0


def test_an_unknown_requirement_is_refused_with_a_suggestion(accord, good):
    done = accord("check", "trace", good, "--only", "jsonrpc.request.id-uniqe")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'jsonrpc.request.id-uniqe'; did you mean jsonrpc.request.id-unique" in done.stderr


def test_the_report_is_written_to_a_file(accord, bad, tmp_path):
    path = tmp_path / "report.xml"
    done = accord("check", "trace", bad, "--format", "junit", "--output", path)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{bad}: revision {NEW}, 1 requirement failed")
    assert done.stdout.count("\n") == 1
    assert ET.parse(path).getroot().tag == "testsuites"


def test_a_text_report_in_a_file_is_plain(accord, bad, tmp_path):
    path = tmp_path / "report.txt"
    accord("check", "trace", bad, "--output", path)
    assert "FAIL jsonrpc.request.id-unique" in path.read_text()


def test_a_file_that_cannot_be_written_is_exit_code_2(accord, good, tmp_path):
    done = accord("check", "trace", good, "--output", tmp_path / "no" / "report.txt")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path}/no/report.txt: there is no folder {tmp_path}/no" in done.stderr


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the recording is empty"),
        (b"{}\n", "line 1: object missing required field `from`"),
        (text_of(GOOD).encode() + b"{oops\n", "line 6: not JSON at byte 1"),
        (text_of(GOOD).encode()[:-20], "the recording may be cut off"),
        (b"\xff\xfe\n", "line 1: not UTF-8 at byte 0"),
        (b'{"from":"client","http":{"method":"GET"}}\n', "no message in this recording"),
    ],
)
def test_a_recording_that_cannot_be_judged_is_exit_code_2(accord, tmp_path, data, reason):
    path = tmp_path / "session.jsonl"
    path.write_bytes(data)
    done = accord("check", "trace", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"accord: {path}: ")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_recording_that_cannot_be_opened_is_exit_code_2(accord, tmp_path, name):
    done = accord("check", "trace", tmp_path / name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "known"), [("--format", "junit, sarif, markdown, html"), ("--revision", NEW)]
)
def test_an_unknown_value_is_refused_with_the_known_ones(accord, good, option, known):
    done = accord("check", "trace", good, option, "nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"accord: unknown {option[2:]} 'nope'; known: ")
    assert known in done.stderr


def test_a_terminal_gets_colours_and_a_progress_bar(on_terminal, tmp_path):
    path = tmp_path / "long.jsonl"
    pings = [each for id_ in range(3, 1003) for each in (request(id_, "ping"), result(id_))]
    path.write_text(text_of([*BAD, *pings]))
    code, shown = on_terminal("check", "trace", path)
    assert code == 1
    assert "judging" in shown
    assert "\x1b[1;31mFAIL\x1b[0m" in shown


def test_a_terminal_without_colours_gets_plain_text(on_terminal, bad):
    code, shown = on_terminal("check", "trace", bad, NO_COLOR="1")
    assert code == 1
    assert "\x1b" not in shown


def test_without_rich_the_terminal_gets_plain_text(launched_on_terminal, bad, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "found = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'rich' else found(name, *more)\n"
    )
    code, shown = launched_on_terminal("check", "trace", bad, PYTHONPATH=str(tmp_path))
    assert code == 1
    assert "\x1b" not in shown


def test_a_named_pipe_is_read_too(on_terminal, tmp_path):
    pipe = tmp_path / "session.pipe"
    os.mkfifo(pipe)
    pings = [each for id_ in range(3, 603) for each in (request(id_, "ping"), result(id_))]
    writer = threading.Thread(target=pipe.write_text, args=[text_of([*GOOD, *pings])])
    writer.start()
    code, shown = on_terminal("check", "trace", pipe)
    writer.join(timeout=120)
    assert code == 0
    assert "no violations" in shown


def test_memory_does_not_grow_with_the_recording(tmp_path):
    def peak_of(pairs):
        path = tmp_path / f"{pairs}.jsonl"
        with path.open("w") as file:
            file.write(text_of(GOOD))
            for id_ in range(3, 3 + pairs):
                file.write(text_of([request(id_, "ping"), result(id_, extra="x" * 500)]))
        done = subprocess.run(
            [sys.executable, "-c", _PEAK, path], capture_output=True, timeout=120, check=False
        )
        return int(done.stderr.split()[-1])

    assert peak_of(10_000) < peak_of(1_000) + 8_000


_PEAK = """
import resource, sys
from accord.cli.main import main
main(["check", "trace", sys.argv[1], "--quiet"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def test_a_recording_of_another_tool_is_judged_by_what_http_said(accord, tmp_path):
    post = {
        "method": "POST",
        "headers": {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        },
    }
    answer = {"status": 200, "headers": {"Content-Type": "application/json"}}
    lines = [
        {**line, "transport": "http", "http": facts}
        for line, facts in zip(opening(), (post, answer, post), strict=True)
    ]
    lines.append({"from": "server", "transport": "http", "message": None, "http": {"status": 200}})
    path = tmp_path / "theirs.jsonl"
    path.write_text(text_of(lines))
    done = accord("check", "trace", path)
    assert done.returncode == 1
    assert "FAIL http.client.protocol-version-header (MUST, client) record 3" in done.stdout
    assert "FAIL http.post.accepted-202 (MUST, server) record 4" in done.stdout
