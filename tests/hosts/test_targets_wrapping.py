"""Entries that launch accord around a server."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from accord.client.server_spec import ServerSpec
from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.launching.installation import (
    AccordCommand,
    bridge_entry,
    unwrap_entry,
    wrap_entry,
)

ACCORD = AccordCommand(words=("/venv/bin/python", "-P", "-m", "accord"), kind="venv")
UVX = AccordCommand(
    words=("/bin/uvx", "--from", "accord==1", "python", "-P", "-m", "accord"),
    kind="uvx",
    env={"SSL_CERT_FILE": "/etc/own.pem"},
)
URL = ServerSpec(name="x", transport="http", url="https://x.example/mcp")
COMMAND = ServerSpec(name="x", command=("npx", "-y", "x", "--", "y"), env={"A": "b"})


def with_headers(**headers):
    return ServerSpec(
        name="x",
        transport="http",
        url="https://x.example/mcp",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


def test_a_url_is_reached_through_a_proxy():
    entry = bridge_entry(URL, ACCORD)
    assert entry.command == (*ACCORD.words, "proxy", URL.url)
    assert (entry.form, entry.url, entry.env) == ("stdio", "", {})


def test_secrets_of_headers_are_variables_and_not_arguments():
    given = with_headers(Authorization="Bearer ${env:TOKEN}", X_Api_Key="hidden", X_Kind="plain")
    entry = bridge_entry(given, ACCORD)
    assert entry.command[6:] == (
        *("--bearer", "-", "--header-from", "X-Api-Key: ACCORD_HEADER_X_API_KEY"),
        *("--header", "X-Kind: plain"),
    )
    assert entry.env == {"ACCORD_BEARER": "${env:TOKEN}", "ACCORD_HEADER_X_API_KEY": "hidden"}


def test_a_bridge_can_let_the_user_sign_in():
    assert bridge_entry(URL, ACCORD, uses_oauth=True).command[-1] == "--oauth"


@pytest.mark.parametrize("accord", [ACCORD, UVX], ids=["venv", "uvx"])
def test_a_bridge_can_be_taken_away(accord):
    given = with_headers(Authorization="Bearer ${env:TOKEN}", X_Api_Key="k", X_Kind="a: b")
    found = unwrap_entry(bridge_entry(given, accord, uses_oauth=True))
    assert found == given


def test_a_proxy_that_does_more_is_left_as_it_is():
    entry = ServerSpec(name="x", command=(*ACCORD.words, "proxy", URL.url, "--revision", "2025"))
    assert unwrap_entry(entry) == entry


@pytest.mark.parametrize("accord", [ACCORD, UVX], ids=["venv", "uvx"])
def test_a_wrapped_command_can_be_unwrapped(accord):
    entry = wrap_entry(COMMAND, accord, cwd=Path("/code"), env_file=Path("/home/x.env"))
    words = ("exec", "--cwd", "/code", "--env-file", "/home/x.env", "--")
    assert entry.command == (*accord.words, *words, *COMMAND.command)
    found = unwrap_entry(entry)
    assert found.command == COMMAND.command
    assert (found.cwd, found.env_file) == ("/code", "/home/x.env")


def test_a_wrapped_entry_is_wrapped_once():
    once = wrap_entry(COMMAND, ACCORD, cwd=Path("/code"))
    twice = wrap_entry(once, UVX, env_file=Path("/x.env"))
    found = unwrap_entry(twice)
    assert found.command == COMMAND.command
    assert (found.cwd, found.env_file) == ("/code", "/x.env")


def test_accord_does_not_import_the_packages_of_the_server():
    server = ServerSpec(name="x", command=("python3", "x.py"), env={"PYTHONPATH": "/bundle/lib"})
    entry = wrap_entry(server, ACCORD, env_file=Path("/x.env"))
    assert entry.command[:6] == ("/venv/bin/python", "-E", "-P", "-m", "accord", "exec")
    assert entry.env == server.env
    assert unwrap_entry(entry) == replace(server, env_file="/x.env")
    by_uvx = wrap_entry(server, UVX, env_file=Path("/x.env"))
    assert by_uvx.command[3:9] == ("python", "-E", "-P", "-m", "accord", "exec")


def test_a_checkout_and_the_server_share_the_path_of_modules():
    checkout = AccordCommand(words=ACCORD.words, kind="checkout", env={"PYTHONPATH": "/src"})
    server = ServerSpec(name="x", command=("python3", "x.py"), env={"PYTHONPATH": "/lib"})
    entry = wrap_entry(server, checkout, env_file=Path("/x.env"))
    assert entry.command[:4] == ACCORD.words
    assert entry.env == {"PYTHONPATH": f"/src{os.pathsep}/lib"}
    again = wrap_entry(entry, checkout, env_file=Path("/y.env"))
    assert again.env == entry.env


def test_a_bridge_with_a_file_of_variables_is_unwrapped_to_its_url():
    bridge = bridge_entry(with_headers(Authorization="Bearer ${env:TOKEN}"), ACCORD)
    found = unwrap_entry(wrap_entry(bridge, ACCORD, env_file=Path("/x.env")))
    assert found.url == URL.url
    assert found.env_file == "/x.env"


def test_an_entry_that_needs_nothing_stays_as_it_is():
    assert wrap_entry(COMMAND, ACCORD) == COMMAND
    assert unwrap_entry(COMMAND) == COMMAND
    assert unwrap_entry(URL) == URL


def test_the_wrong_kind_of_entry_is_refused():
    with pytest.raises(HostsError, match="only a URL needs a bridge"):
        bridge_entry(COMMAND, ACCORD)
    with pytest.raises(HostsError, match="only a command can be wrapped"):
        wrap_entry(URL, ACCORD, cwd=Path("/"))


@pytest.mark.parametrize(
    "words",
    [
        "/bin/accord exec --cwd / -- x",
        "accord.exe exec -- x",
        "uvx --from accord==1 accord exec -- x",
    ],
)
def test_the_script_accord_is_recognized(words):
    assert unwrap_entry(ServerSpec(name="x", command=tuple(words.split()))).command == ("x",)
