import asyncio
import socket

from accord.http.server.sockets import listen
from support.waiting import run


def test_responses_are_sent_without_waiting_for_acknowledgements() -> None:
    async def main() -> int:
        delays: asyncio.Queue[int] = asyncio.Queue()

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            sock = writer.get_extra_info("socket")
            delays.put_nowait(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        (listening,) = listen("127.0.0.1", 0)
        async with await asyncio.start_server(connected, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            writer.close()
            return await delays.get()

    assert run(main()) != 0
