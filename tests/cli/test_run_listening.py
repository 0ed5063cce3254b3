"""`accord run --http --listen`, `--certificate` and `--metrics`."""

import json
import os
import socket
import ssl
import urllib.request

import pytest

from cli.test_run_http import file, post, running  # noqa: F401  # a fixture
from support.certificates import self_signed
from support.http_talk import initialize
from support.listened import Wire, head
from support.waiting import LONG


def get(path, socket_file):
    with socket.socket(socket.AF_UNIX) as made:
        made.settimeout(LONG)
        made.connect(str(socket_file))
        with Wire(made) as wire:
            wire.send(head(method="GET", path=path))
            return wire.answer()


def test_all_addresses_are_served_and_announced(file, tmp_path):  # noqa: F811
    path = tmp_path / "desk.sock"
    options = ("--http", "--metrics", "--listen", "127.0.0.1:0", "--listen", f"unix:{path}")
    with running(file, *options) as (places, printed):
        url, _, other = places.partition(" and ")
        assert other == f"/mcp on unix:{path}"
        status, _ = post(url, initialize())
        assert status == 200
        assert get("/healthz", path).status == 200
        assert b'accord_responses_total{method="POST",status="2xx"} 1' in get("/metrics", path).body
    assert not path.exists()
    assert "only requests to localhost are served" not in "".join(printed)


def test_addresses_of_the_environment_are_served(file, tmp_path):  # noqa: F811
    path = tmp_path / "desk.sock"
    variables = {"ACCORD_LISTEN": f"unix:{path}, 127.0.0.1:0", "ACCORD_TRANSPORT": "http"}
    with running(file, **variables) as (places, _):
        assert places.startswith(f"/mcp on unix:{path} and http://127.0.0.1:")
    with running(file, "--port", "0", **variables) as (places, _):
        assert places.startswith("http://127.0.0.1:")


def test_https_is_served_and_announced(file, tmp_path):  # noqa: F811
    certificate, key = self_signed(tmp_path)
    options = ("--http", "--port", "0", "--certificate", str(certificate), "--key", str(key))
    with running(file, *options) as (url, _):
        assert url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=certificate)
        context.check_hostname = False
        address = url.removesuffix("/mcp") + "/healthz"
        with urllib.request.urlopen(address, context=context, timeout=LONG) as response:
            assert json.load(response) == {"status": "ok"}


def test_a_reloading_server_keeps_its_unix_socket(file, tmp_path):  # noqa: F811
    path = tmp_path / "desk.sock"
    with running(file, "--http", "--reload", "--listen", f"unix:{path}") as (places, _):
        assert places == f"/mcp on unix:{path}"
        assert get("/healthz", path).status == 200
        assert os.path.exists(path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--listen", "127.0.0.1:0"], "--listen is for HTTP; add --http"),
        (["--metrics"], "--metrics is for HTTP; add --http"),
        (["--http", "--listen", "8000"], "argument --listen: '8000' is not an address, expected"),
        (["--http", "--listen", ":1", "--port", "1"], "leave out --host and --port"),
        (["--http", "--key", "k.pem"], "key is the key of a certificate"),
        (["--http", "--certificate", "no.pem"], "cannot read the certificate no.pem: no such file"),
        (["--http", "--listen", "systemd"], "cannot listen on systemd: LISTEN_FDS is not set"),
        (["--http", "--listen", "fd:999"], "cannot listen on fd:999: bad file descriptor"),
        (["--http", "--listen", "unix:/no/x"], "cannot listen on unix:/no/x: there is no such"),
        (["--http", "--listen", f"unix:/tmp/{'x' * 200}"], "is too long for a Unix socket"),
    ],
)
def test_addresses_that_cannot_be_served_are_explained(accord, file, options, why):  # noqa: F811
    result = accord("run", str(file), *options)
    assert result.returncode == 2, result
    assert why in result.stderr
    assert "Traceback" not in result.stderr


def test_a_malformed_list_of_proxies_is_explained(accord, file):  # noqa: F811
    result = accord("run", str(file), "--http", "--port", "0", FORWARDED_ALLOW_IPS="proxy.example")
    assert result.returncode == 2, result
    assert "variable FORWARDED_ALLOW_IPS: 'proxy.example' does not appear to be" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("options", "url"),
    [
        (["--listen", "unix:x.sock", "--listen", ":8123"], "http://127.0.0.1:8123/mcp"),
        (["--listen", "[::1]:8123"], "http://[::1]:8123/mcp"),
        (["--port", "8443", "--certificate", "c.pem"], "https://127.0.0.1:8443/mcp"),
    ],
)
def test_the_entry_for_hosts_names_the_address(accord, file, options, url):  # noqa: F811
    result = accord("run", str(file), "--http", *options, "--print-config")
    assert json.loads(result.stdout)["mcpServers"]["desk"]["url"] == url
