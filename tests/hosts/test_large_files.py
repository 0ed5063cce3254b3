"""Files with thousands of servers, and files of one long line."""

import json
import sys

import pytest

MOST_GROWTH = 6  # for four times the entries; square time would be 16


def count_calls(work):
    """Return how many functions are called, those of C counted."""
    count = 0

    def profile(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def server(number):
    # Secrets, so that each has to be found and hidden.
    env = {"A_TOKEN": f"secretvalue{number}xyz"}
    return {"command": "/bin/true", "args": ["--number", str(number)], "env": env}


def as_cursor(count):
    return json.dumps({"mcpServers": {f"s{at}": server(at) for at in range(count)}}, indent=2)


def as_codex(count):
    return "".join(
        f'[mcp_servers.s{at}]\ncommand = "/bin/true"\nargs = ["--number", "{at}"]\n'
        f'[mcp_servers.s{at}.env]\nA_TOKEN = "secretvalue{at}xyz"\n'
        for at in range(count)
    )


def as_goose(count):
    entries = "".join(
        f"  s{at}:\n    type: stdio\n    cmd: /bin/true\n    args: ['{at}']\n    enabled: true\n"
        f"    envs:\n      A_TOKEN: secretvalue{at}xyz\n"
        for at in range(count)
    )
    return f"extensions:\n{entries}"


FILES = {
    "cursor": (".cursor/mcp.json", as_cursor),
    "codex": (".codex/config.toml", as_codex),
    "goose": (".config/goose/config.yaml", as_goose),
}


def write(home, host, count):
    name, make = FILES[host]
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(make(count))
    return path


@pytest.mark.parametrize(
    "words",
    [
        ("add", "desk.py", "--dry-run", "--no-check"),
        ("remove", "s7", "--dry-run"),
        ("hosts", "check", "--no-launch"),
        ("hosts",),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("host", FILES)
def test_four_times_the_servers_take_four_times_the_work(accord, home, host, words):
    if words != ("hosts",):
        words = (*words, "--host", host)
    write(home, host, 50)
    accord(*words)  # what is loaded only once
    calls = []
    for count in (100, 400):
        write(home, host, count)
        calls.append(count_calls(lambda: accord(*words)))
    assert calls[1] / calls[0] < MOST_GROWTH


def test_a_server_is_added_to_five_thousand(accord, home):
    path = write(home, "cursor", 5_000)
    code, out, _ = accord("add", "desk.py", "--host", "cursor", "--no-check", "--yes")
    assert code == 0
    assert len(out) < 5_000
    assert len(json.loads(path.read_text())["mcpServers"]) == 5_001


def test_a_change_of_one_long_line_is_shown_without_the_rest_of_the_line(accord, home):
    path = write(home, "cursor", 1)
    path.write_text(json.dumps(json.loads(as_cursor(1_000))))
    code, out, _ = accord("add", "desk.py", "--host", "cursor", "--no-check", "--yes")
    assert code == 0
    assert len(out) < 5_000
    assert '"desk"' in out
    assert "characters) ... " in out
    assert "secretvalue" not in out
    assert '"desk"' in path.read_text()
