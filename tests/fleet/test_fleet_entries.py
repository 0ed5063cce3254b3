"""Entries made ready to launch: values, what is missing, and what must never be shown."""

import base64
import os
import sys
from pathlib import Path

import pytest

from accord_tools.fleet.definition import Fleet, FleetError, FleetServer
from accord_tools.fleet.file.entries import resolve_server, show_entry
from support.tables import cases

SECRET = "Zq9-hidden-value-77"


@pytest.fixture
def resolve(tmp_path):
    def resolve(entry, environ=None, **settings):
        server = FleetServer(name="desk", entry=entry, **settings)
        fleet = Fleet(path=tmp_path / "accord-fleet.toml", folder=tmp_path, servers=(server,))
        given = {"PATH": os.environ["PATH"], **(environ or {})}
        return resolve_server(server, fleet, given)

    return resolve


def test_every_kind_of_placeholder_is_filled_in(resolve, tmp_path):
    (tmp_path / "token.txt").write_text(f"{SECRET}\nsecond line\n")
    found = resolve(
        {
            "command": sys.executable,
            "args": ["${fleet}/desk.py", "${env:A}", "${B}", "${env:C:-three}", "$HOME", "${x-y}"],
            "env": {"TOKEN": "${file:token.txt}", "EMPTY": "${D:-}", "N": 5},
        },
        {"A": "one", "B": "two"},
    )
    assert found.command == (
        *(sys.executable, f"{tmp_path}/desk.py", "one", "two", "three", "$HOME", "${x-y}"),
    )
    assert found.env == {"TOKEN": SECRET, "EMPTY": "", "N": "5"}
    assert (found.cwd, found.transport, found.missing) == (str(tmp_path), None, ())
    assert SECRET in found.secrets


def test_everything_that_is_missing_is_named_at_once(resolve):
    found = resolve(
        {
            "command": "no-such-program",
            "args": ["${env:ONE}", "${TWO}", "${env:ONE}"],
            "env": {"A": "${file:gone.txt}", "B": "${input:key}"},
            "envFile": "gone.env",
            "cwd": "gone",
        },
        {"TWO": ""},
        needs=("TWO", "THREE", "PATH"),
    )
    said = "\n".join([*found.missing, *found.not_found])
    for each in (
        *("ONE", "TWO", "THREE", "the file gone.txt", "${input:key}", "gone.env, which envFile"),
        *("gone, in which it should run", "the program no-such-program, which is not on the PATH"),
    ):
        assert said.count(each) == 1, each
    assert "PATH" not in found.missing


def test_a_url_without_its_variable_is_missing_and_not_wrong(resolve):
    found = resolve({"url": "${env:DESK_URL}"})
    assert (found.url, found.missing) == ("", ("DESK_URL",))
    assert found.shown == "${env:DESK_URL}"


def test_a_wrong_entry_is_an_error(resolve):
    with pytest.raises(FleetError, match="server 'desk': url: expected a URL that begins with"):
        resolve({"url": "${env:DESK_URL}"}, {"DESK_URL": "ftp://x"})


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [
        ("./tool", 0o755, ""),
        ("./tool", 0o644, "is not executable"),
        ("./gone", 0, "does not exist"),
    ],
)
def test_a_program_is_found_relative_to_the_folder_of_the_file(name, mode, said, resolve, tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(mode)
    found = resolve({"command": name})
    assert found.command == (str(tmp_path / name[2:]),)
    assert [said in each for each in found.not_found] == ([True] if said else [])


def test_a_program_is_looked_for_on_the_path_of_the_server(resolve, tmp_path):
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "desk-tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert resolve({"command": "desk-tool"}).not_found
    found = resolve({"command": "desk-tool", "env": {"PATH": str(tmp_path / "bin")}})
    assert (found.command, found.not_found) == ((str(tool),), ())


def test_an_entry_of_another_file_runs_in_that_files_folder(resolve, tmp_path):
    (tmp_path / "base").mkdir()
    found = resolve({"command": sys.executable, "args": ["${fleet}"]}, folder=tmp_path / "base")
    assert (found.cwd, found.command[1]) == (str(tmp_path / "base"), str(tmp_path))


@pytest.mark.parametrize(
    ("entry", "transport", "auth", "headers"),
    [
        ({"url": "https://a.example"}, None, None, {}),
        ({"url": "https://a.example", "type": "sse"}, "sse", None, {}),
        ({"url": "https://a.example", "type": "streamable-http"}, "http", None, {}),
        ({"httpUrl": "https://a.example", "auth": "oauth"}, None, "oauth", {}),
        (
            {"url": "https://a.example", "auth": SECRET},
            *(None, None),
            {"Authorization": "Bearer S"},
        ),
        (
            {
                "url": "https://a.example",
                "bearer_token_env_var": "T",
                "env_http_headers": {"x": "T"},
            },
            *(None, None, {"Authorization": "Bearer S", "x": "S"}),
        ),
    ],
)
def test_a_remote_server_is_resolved(entry, transport, auth, headers, resolve):
    found = resolve(entry, {"T": SECRET})
    assert (found.url, found.transport, found.auth) == ("https://a.example", transport, auth)
    assert found.headers == {
        name: value.replace("S", SECRET, 1) if value == "S" else value.replace(" S", f" {SECRET}")
        for name, value in headers.items()
    }
    assert all(each == SECRET for each in found.secrets)


BASIC = base64.b64encode(b"me:pass word 1").decode()


@cases(
    ("entry", "secrets"),
    [
        ({"command": "x", "env": {"API_KEY": "abcdef"}}, ["abcdef"]),
        ({"command": "x", "env": {"API_KEY": "abcde"}}, []),
        ({"command": "x", "env": {"OTHER": "Abcdef7"}}, []),
        ({"command": "x", "env": {"OTHER": "Abcdefg8"}}, ["Abcdefg8"]),
        ({"command": "x", "env": {"OTHER": "production"}}, []),
        ({"command": "x", "env": {"OTHER": "12345678.90"}}, []),
        ({"command": "x", "env": {"OTHER": "https://a.example/x"}}, []),
        (
            {"command": "x", "env": {"OTHER": "postgres://me:pw12345@h/x"}},
            ["postgres://me:pw12345@h/x", "pw12345"],
        ),
        ({"command": "x", "env": {"OTHER": "/usr/bin:/bin", "PLACE": "/etc/some-file"}}, []),
        ({"command": "x", "env": {"API_KEY": "/wJalrXUtnFEMI/K7"}}, ["/wJalrXUtnFEMI/K7"]),
        ({"command": "x", "args": ["--token", "Zq9Zq9Zq9"]}, ["Zq9Zq9Zq9"]),
        ({"url": "https://a.example", "headers": {"Authorization": "Bearer abcdefg"}}, ["abcdefg"]),
        ({"url": "https://a.example", "headers": {"X-Team": "blue-team"}}, ["blue-team"]),
        ({"url": "https://a.example", "headers": {"User-Agent": "blue-team"}}, []),
        (
            {"url": "https://a.example", "headers": {"Authorization": f"Basic {BASIC}"}},
            [BASIC, "me:pass word 1", "pass word 1"],
        ),
        ({"url": "https://me:pw%2012345@a.example"}, ["pw%2012345", "pw 12345"]),
        ({"url": "https://a.example/?a=queried&b=x"}, ["queried"]),
        (
            {"url": "https://a.example/s/0123456789abcdefABCDEF012345/mcp"},
            ["0123456789abcdefABCDEF012345"],
        ),
    ],
)
def test_possible_secrets_are_known(entry, secrets, resolve):
    found = resolve(entry)
    assert list(found.secrets) == sorted(secrets, key=lambda each: (-len(each), each))
    for each in secrets:
        assert each not in found.shown
        assert each not in repr(found)


def test_values_of_placeholders_and_of_secret_variables_are_secrets(resolve):
    found = resolve(
        {"command": "x", "args": ["${env:PLAIN}", "${env:PLACE}", "${env:SHORT}"]},
        {"PLAIN": "plainword", "PLACE": "/usr/bin", "SHORT": "abcde", "CI_TOKEN": "inherited"},
    )
    assert found.secrets == ("inherited", "plainword")
    assert found.shown == "x '${env:PLAIN}' '${env:PLACE}' '${env:SHORT}'"


@cases(
    ("entry", "shown"),
    [
        ({"command": "uvx", "args": ["a b", "c"]}, "uvx 'a b' c"),
        ({"command": ["npx", "-y"], "args": ["x"]}, "npx -y x"),
        ({"command": {"path": "zed", "args": ["1"]}}, "zed 1"),
        ({"cmd": "goose", "args": ["1"]}, "goose 1"),
        ({"url": "https://me:pw@a.example/mcp?k=v"}, "https://masked-0@a.example/mcp?k=masked-0"),
        ({"serverUrl": "https://a.example/mcp"}, "https://a.example/mcp"),
        ({"command": "x", "args": ["--token", SECRET]}, "x --token masked-0"),
        ({"command": "x", "args": [f"--token={SECRET}"]}, "x --token=masked-0"),
    ],
)
def test_an_entry_is_shown_without_secrets(entry, shown):
    assert show_entry(entry) == shown


def test_a_device_is_not_read_as_a_file(resolve):
    found = resolve({"command": "x", "env": {"A": "${file:/dev/zero}"}})
    assert any("/dev/zero" in each for each in found.missing)


def test_the_home_folder_is_understood(resolve, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key").write_text("hello-key-1\n")
    found = resolve({"command": "x", "env": {"A": "${file:~/key}"}})
    assert found.env["A"] == "hello-key-1"
    assert Path.home() == tmp_path
