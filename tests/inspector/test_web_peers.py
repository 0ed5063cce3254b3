"""Which user of this machine connects to the page."""

import asyncio
import os
import socket
import struct
import sys

import pytest

from accord_tools.inspector.inspection import Inspection
from accord_tools.inspector.web.serving import (
    GONE,
    PageSockets,
    allowed_users,
    find_user,
    serve_inspection,
)
from support.page_client import PageClient
from support.waiting import in_loop

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whose it is")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_user_of_a_connection_is_found(host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with listening, socket.create_connection(listening.getsockname()[:2]) as client:
        served, theirs = listening.accept()
        with served:
            assert find_user(theirs[:2], served.getsockname()[:2]) == os.getuid()
            assert client.getsockname()[:2] == theirs[:2]


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_connection_that_was_closed_at_once_has_no_user(is_reset):
    # The table says that root has it, or has it no more; the request can be read all the same.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        client.sendall(b"GET / HTTP/1.1")
        if is_reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        served, theirs = listening.accept()
        with served:
            assert find_user(theirs[:2], served.getsockname()[:2]) == GONE
            assert served.recv(100) == b"GET / HTTP/1.1"


def test_root_and_the_caller_of_sudo_may_connect():
    assert allowed_users({}) == {0, os.getuid()}
    assert allowed_users({"SUDO_UID": "1234"}) == {0, os.getuid(), 1234}
    assert allowed_users({"SUDO_UID": "-1"}) == {0, os.getuid()}


@in_loop
async def test_another_user_is_refused_whatever_is_sent():
    sockets = PageSockets()
    sockets.users = frozenset({os.getuid() + 1})
    async with serve_inspection(Inspection(), sockets) as url:
        page = PageClient(url)
        for _ in range(2):
            answer = await page.send("GET", "/", {"x-accord-key": page.key})
            assert answer.status == 403
            assert b"may not use the page of another user" in answer.body
            await asyncio.sleep(0)


def test_a_public_page_does_not_ask_for_the_user():
    sockets = PageSockets(public_url="http://127.0.0.1:1")
    assert sockets.users is None
    sockets.close()
