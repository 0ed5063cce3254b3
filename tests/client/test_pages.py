"""Lists of hostile servers: what does not end is given up, with the reason."""

import asyncio
from types import SimpleNamespace

import pytest

from accord.client import blocking, connect
from accord.client.results import MOST_PAGES, PageGuard
from accord.errors import RemoteProtocolError
from support.raw_http import RawServer
from support.tables import cases
from support.waiting import in_loop, run


def tool(name):
    return {"name": name, "inputSchema": {"type": "object"}}


class Endless(RawServer):
    """A server whose list has a cursor on every page."""

    def __init__(self, entries):
        super().__init__(tools__list=self.page)
        self.entries = entries

    def page(self, request, reply):
        number = len(self.seen("tools/list"))
        reply.result(request, {"tools": self.entries(number), "nextCursor": f"c{number}"})


@cases(
    "entries", [lambda number: [], lambda number: [tool("a"), tool("b")]], ids=["empty", "the same"]
)
@cases(("options", "most"), [({}, 100), ({"empty_pages": 3}, 3)], ids=str)
@in_loop
async def test_pages_without_a_new_entry_are_given_up(entries, options, most):
    async with Endless(entries) as server, connect(server.url, **options) as client:
        with pytest.raises(
            RemoteProtocolError, match=rf"the server sent {most} pages in a row"
        ) as caught:
            [each async for each in client.tools()]
        assert "empty_pages=..." in str(caught.value)
        assert len(server.seen("tools/list")) <= most + 1


def test_the_blocking_client_gives_up_too():
    def read(url):
        with (
            blocking.connect(url, empty_pages=3) as client,
            pytest.raises(RemoteProtocolError, match="3 pages in a row"),
        ):
            list(client.tools())

    async def main():
        async with Endless(lambda number: []) as server:
            await asyncio.to_thread(read, server.url)

    run(main())


def test_a_page_with_a_new_entry_lets_the_count_begin_anew():
    pages = PageGuard("tools/list", 3)
    for number in range(50):
        pages.check([SimpleNamespace(name=f"t{number}")] if number % 3 == 2 else [], f"c{number}")


def test_resources_are_distinguished_by_their_uris():
    pages = PageGuard("resources/list", 1)
    for number in range(10):
        pages.check([SimpleNamespace(uri=f"a:{number}", name="same")], f"c{number}")


def test_long_cursors_are_not_kept():
    pages = PageGuard("tools/list", 10)
    pages.check([SimpleNamespace(name="a")], "x" * 1_000_000)
    assert all(isinstance(each, int) for each in pages._cursors)
    with pytest.raises(RemoteProtocolError, match="repeats cursor 'xxx"):
        pages.check([SimpleNamespace(name="b")], "x" * 1_000_000)


def test_a_list_that_goes_on_with_new_entries_ends_at_the_most_pages():
    pages = PageGuard("tools/list", 10)
    for number in range(MOST_PAGES - 1):
        pages.check([SimpleNamespace(name=str(number))], str(number))
    with pytest.raises(RemoteProtocolError, match="no end after 10000 pages"):
        pages.check([SimpleNamespace(name="x")], "x")
