"""Sockets that several processes accept from; here they are several acceptors of one loop."""

import asyncio
import errno
import socket
from typing import Any

from accord.http.server.listener import HttpListener, LoadBoard, SharedLoad, SharedSocket
from accord.http.server.sockets import listen
from accord.http.settings import HttpLimits
from support.http_offer import offer
from support.waiting import in_loop, until


class Accepted(asyncio.Protocol):
    """A connection that counts itself."""

    def __init__(self, place: "Place") -> None:
        self.place = place

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.place.connections.append(self)
        self.place.load.note_open(len(self.place.connections))


class Place:
    """One acceptor, as a worker has it."""

    def __init__(self, board: LoadBoard, number: int, listening: Any) -> None:
        self.load = SharedLoad(board, number)
        self.load.note_open(0)
        self.connections: list[Accepted] = []
        self.socket = SharedSocket(listening, lambda: Accepted(self), self.load)

    def close(self) -> None:
        self.socket.close()
        for each in self.connections:
            each.transport.abort()


def connect(listening: socket.socket, count: int) -> list[socket.socket]:
    return [socket.create_connection(listening.getsockname()) for _ in range(count)]


@in_loop
async def test_connections_of_a_burst_are_shared_evenly() -> None:
    (listening,) = listen("127.0.0.1", 0)
    board = LoadBoard(2)
    places = [Place(board, number, listening.dup()) for number in range(2)]
    clients = connect(listening, 20)
    await until(lambda: sum(len(each.connections) for each in places) == 20)
    # A loop that is slow may let one of them accept a few more.
    assert min(len(each.connections) for each in places) >= 6
    for each in (*places, *clients, listening):
        each.close()


@in_loop
async def test_an_acceptor_that_is_stuck_keeps_no_connection_from_the_others() -> None:
    (listening,) = listen("127.0.0.1", 0)
    board = LoadBoard(2)
    place = Place(board, 0, listening.dup())
    SharedLoad(board, 1).note_open(0)  # never accepts, and never has more
    clients = connect(listening, 50)
    await until(lambda: len(place.connections) == 50)
    for each in (place, *clients, listening):
        each.close()


def test_only_those_that_accept_connections_are_compared() -> None:
    board = LoadBoard(3)
    first, second = SharedLoad(board, 0), SharedLoad(board, 1)
    first.note_open(3)
    assert not first.is_above_others
    second.note_open(2)
    assert first.is_above_others
    assert not second.is_above_others
    second.note_opening(1)
    assert not first.is_above_others
    second.note_opening(-1)
    assert first.is_above_others
    second.leave()
    assert not first.is_above_others
    assert board.find_place({0, 1}) == 2


class FullSocket(socket.socket):
    """A socket that can accept nothing at first, as if there were too many open files."""

    attempts = 0
    is_full = True

    def accept(self) -> Any:
        self.attempts += 1
        if self.is_full:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


@in_loop
async def test_a_shortage_of_files_is_reported_and_waited_for(
    monkeypatch: Any, caplog: Any
) -> None:
    monkeypatch.setattr("accord.http.server.listener._SHORTAGE_PAUSE", 0.05)
    listening = FullSocket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    place = Place(LoadBoard(1), 0, listening)
    (client,) = connect(listening, 1)
    await until(lambda: listening.attempts >= 3)
    assert "no connection can be accepted: Too many open files" in caplog.text
    assert not place.connections
    listening.is_full = False
    await until(lambda: place.connections)
    place.close()
    place.socket.close()  # once more is fine
    client.close()


@in_loop
async def test_a_closed_acceptor_leaves_waiting_connections_to_the_others() -> None:
    (listening,) = listen("127.0.0.1", 0)
    board = LoadBoard(2)
    first, second = (Place(board, number, listening.dup()) for number in range(2))
    first.close()
    first.load.leave()
    clients = connect(listening, 3)
    await until(lambda: len(second.connections) == 3)
    assert not first.connections
    for each in (second, *clients, listening):
        each.close()


@in_loop
async def test_a_listener_gets_connections_from_its_start_until_it_is_closed() -> None:
    board = LoadBoard(2)
    other = SharedLoad(board, 0)
    other.note_open(1)
    listener = HttpListener(offer().asgi(), HttpLimits())
    assert not other.is_above_others
    await listener.start(listen("127.0.0.1", 0), load=SharedLoad(board, 1))
    assert other.is_above_others
    await listener.stop()
    assert not other.is_above_others
