"""At which addresses of this machine a port is open."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from accord.testing import run_in_virtual_time
from accord_tools.check.scenarios.server import http_connections
from accord_tools.check.server_check import ServerPlan, check_server
from check.mutants.between_http import over_http
from check.mutants.stateless_server import server as stateless

BIND = "http.server.bind-localhost"


async def hang_up(reader, writer):
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_address_of_a_listening_socket_is_found(host):
    with socket.create_server((host, 0)) as made:
        found = http_connections.listening_addresses(made.getsockname()[1])
    assert found in ({host}, None)


@pytest.mark.parametrize(
    ("digits", "address"),
    [
        ("0100007F", "127.0.0.1"),
        ("00000000", "0.0.0.0"),
        ("00000000000000000000000000000000", "::"),
        ("00000000000000000000000001000000", "::1"),
        ("0000000000000000FFFF00000100007F", "127.0.0.1"),
    ],
)
def test_an_address_of_the_kernel_is_read_in_its_byte_order(digits, address, tmp_path, monkeypatch):
    table = tmp_path / "tcp"
    table.write_text(f"  sl  local_address\n   0: {digits}:1F90 00000000:0000 0A 0 0 0\n")
    monkeypatch.setattr(http_connections, "_TABLES", (table,))
    assert http_connections.listening_addresses(8080) == {address}
    assert http_connections.listening_addresses(8081) == set()


def test_without_tables_of_the_kernel_the_addresses_of_this_machine_are_dialled(monkeypatch):
    monkeypatch.setattr(http_connections, "_TABLES", ())
    assert http_connections.listening_addresses(8080) is None

    async def dial(host):
        async with await asyncio.start_server(hang_up, host, 0) as made:
            found = await http_connections.open_addresses(made.sockets[0].getsockname()[1])
            await asyncio.sleep(0)  # lets the server hang up
            return found

    assert asyncio.run(dial("127.0.0.1")) == []
    near = [each for each in http_connections.own_addresses() if ":" not in each]
    assert asyncio.run(dial("0.0.0.0")) == near


@asynccontextmanager
async def beside_another_program():
    """Serve at a port of loopback, which another program has in IPv6."""
    async with over_http(lambda web: None, server=stateless)() as target:
        port = int(target.spec.url.rsplit(":", 1)[1].partition("/")[0])
        async with await asyncio.start_server(hang_up, "::", port):
            yield target


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_another_program_at_the_port_of_a_server_is_not_taken_for_it():
    """http.server.bind-localhost"""

    async def run():
        async with beside_another_program() as target:
            return await check_server(target, ServerPlan(only=[BIND]))

    (result,) = run_in_virtual_time(run()).results
    assert result.verdict == "pass"
