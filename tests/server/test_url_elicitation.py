"""Pages that users are asked to visit, on the side of the server and of the client."""

import asyncio
import threading
from typing import Any

import pytest

from accord import Context, Principal, Server, connect
from accord.errors import ElicitationRefused, InternalError, UrlElicitationRequired
from accord.server.questions import url_elicitation
from accord.server.questions.url_elicitation import UrlElicitations, check_url
from accord.types import ElicitParams, PromptReference
from support.links import IN_MEMORY, over, text
from support.raw import RawClient
from support.tables import cases
from support.waiting import in_loop, until

pytestmark = IN_MEMORY

PAGE = "https://desk.example/link/{elicitation_id}"
WITH_URL = over("memory", "http:2025-11-25", "http-stream:2025-11-25", revisions=("2025-11-25",))


class Desk(Server):
    """A server whose tools ask the user to link an account; `linked` has the pages."""

    def __init__(self, **settings: Any) -> None:
        super().__init__("desk", **settings)
        self.linked: list[Any] = []
        for tool in (self.link, self.link_and_wait, self.finish, self.balance):
            self.add_tool(tool)
        self.add_resource("desk://balance", self.read_balance)
        self.add_prompt(self.ask_balance, name="balance")

    async def link(self, ctx: Context) -> str:
        """Ask, and return the outcome."""
        try:
            page = await ctx.elicit_url("Link your account", PAGE)
        except ElicitationRefused as refused:
            return refused.action
        self.linked.append(page)
        return "accept"

    async def link_and_wait(self, ctx: Context) -> str:
        """Ask, and wait until the page is complete."""
        page = await ctx.elicit_url("Link your account", PAGE)
        self.linked.append(page)
        await page.wait()
        await page.wait()
        return "linked"

    def finish(self) -> list[bool]:
        """Report that the first page is complete, twice."""
        id = self.linked[0].id
        return [self.elicitation_completed(id), self.elicitation_completed(id)]

    def _need_link(self, ctx: Context) -> str:
        if not self.linked or not self.linked[-1].is_complete:
            self.linked.append(ctx.prepare_url("Link your account", PAGE))
            raise UrlElicitationRequired("no account", elicitations=self.linked[-1:])
        return "12 EUR"

    def balance(self, ctx: Context) -> str:
        """Need a page."""
        return self._need_link(ctx)

    def read_balance(self, ctx: Context) -> str:
        """Need a page."""
        return self._need_link(ctx)

    def ask_balance(self, ctx: Context, currency: str = "EUR") -> str:
        """Need a page."""
        return self._need_link(ctx)


# -- asking


@WITH_URL
@pytest.mark.requirement(
    "elicitation.url.required-params",
    "elicitation.url.elicitation-id",
    "elicitation.url.valid-url",
    "elicitation.result.url-no-content",
    "elicitation.server.handles-decline",
    "elicitation.server.not-assumed-to-succeed",
)
@pytest.mark.parametrize(
    ("returned", "outcome"),
    [(True, "accept"), (False, "decline"), (None, "cancel")],
)
async def test_the_user_is_asked_to_visit_a_page(
    connect_to: Any, returned: Any, outcome: str
) -> None:
    server, shown = Desk(), []

    def visit(params: ElicitParams) -> Any:
        shown.append(params)
        return returned

    async with connect_to(server, on_elicit_url=visit) as client:
        assert text(await client.call_tool("link")) == outcome
    (params,) = shown
    assert (params.mode, params.message) == ("url", "Link your account")
    assert len(params.elicitation_id) >= 32
    assert params.url == f"https://desk.example/link/{params.elicitation_id}"
    assert (server.elicitations.find(params.elicitation_id) is not None) is (outcome == "accept")


@WITH_URL
@pytest.mark.requirement(
    "elicitation.complete.same-client", "elicitation.complete.has-id", "elicitation.binds-user"
)
async def test_completion_is_announced_once_to_the_client_that_was_asked(connect_to: Any) -> None:
    server, heard, others = Desk(), [], []
    options = {"on_elicit_url": lambda params: True}
    async with (
        connect_to(server, on_elicitation_complete=heard.append, **options) as client,
        connect_to(server, on_elicitation_complete=others.append, **options) as other,
    ):
        await client.call_tool("link")
        assert (await other.call_tool("finish")).structured_content == {"result": [True, False]}
        await until(lambda: heard)
        await client.ping()
    assert heard == [server.linked[0].id]
    assert others == []


@WITH_URL
async def test_a_handler_waits_for_the_end_of_its_page(connect_to: Any) -> None:
    server, heard = Desk(), []
    async with connect_to(
        server, on_elicit_url=lambda params: True, on_elicitation_complete=heard.append
    ) as client:
        call = asyncio.ensure_future(client.call_tool("link_and_wait"))
        await until(lambda: server.linked)
        finished = threading.Thread(target=server.linked[0].complete)
        finished.start()
        assert text(await call) == "linked"
        finished.join()
        await until(lambda: heard)


@over("memory", revisions=("2025-11-25",))
@pytest.mark.requirement("elicitation.mode.supported-only")
async def test_a_client_with_forms_alone_is_not_asked_by_url(connect_to: Any) -> None:
    async with connect_to(Desk(), on_elicit=lambda params: {}) as client:
        result = await client.call_tool("link")
    assert result.is_error
    assert text(result) == "the client did not declare elicitation.url"


@in_loop
async def test_a_revision_without_url_mode_is_not_asked_by_url() -> None:
    async with RawClient(Desk()) as raw:
        await raw.open("2025-06-18", elicitation={"url": {}})
        answer = await raw.ask(1, "tools/call", {"name": "link", "arguments": {}})
        assert answer["result"]["isError"]
        reported = answer["result"]["content"][0]["text"]
        assert reported == "revision 2025-06-18 has no elicitation by URL"


@pytest.mark.requirement("elicitation.url.https", "elicitation.url.no-personal-data")
@cases(
    ("url", "reported"),
    [
        ("http://desk.example/", "the URL 'http://desk.example' has to begin with https"),
        ("javascript:alert(1)", "the URL 'javascript:' has to begin with https"),
        ("file:///etc/passwd", "has to begin with https"),
        ("https://ann:secret@desk.example/", "user name or password"),
        ("https://ann@desk.example/", "user name or password"),
        ("https:///path", "the host of the URL is missing"),
        ("https://127.1/", "the host of the URL is a number"),
        ("https://desk.example:99999/", "port"),
        ("https://desk.example/a b", "percent-encoded"),
        ("https://dësk.example/", "percent-encoded"),
    ],
)
def test_a_url_that_a_client_may_not_show_is_refused(url: str, reported: str) -> None:
    with pytest.raises(ValueError, match=reported):
        check_url(url)


@pytest.mark.parametrize(
    "url", ["https://desk.example:8443/a?b=c", "http://localhost:1/a", "http://127.0.0.1/"]
)
def test_https_and_this_machine_may_be_shown(url: str) -> None:
    assert check_url(url) == url


# -- the error that names pages


@over("memory", revisions=("2025-11-25",))
@pytest.mark.requirement(
    "elicitation.required-error.used",
    "elicitation.required-error.lists-elicitations",
    "elicitation.required-error.only-for-url",
)
@pytest.mark.parametrize("kind", ["tool", "resource", "prompt"])
async def test_any_method_may_require_a_page(connect_to: Any, kind: str) -> None:
    server = Desk()
    async with connect_to(server, on_elicit_url=lambda params: False) as client:
        with pytest.raises(UrlElicitationRequired, match="no account") as caught:
            await _use(client, kind)
    (page,) = caught.value.elicitations
    assert page == server.linked[0].params()
    assert caught.value.data == {
        "elicitations": [
            {
                "mode": "url",
                "message": "Link your account",
                "url": f"https://desk.example/link/{server.linked[0].id}",
                "elicitationId": server.linked[0].id,
            }
        ]
    }


async def _use(client: Any, kind: str) -> Any:
    if kind == "tool":
        return await client.call_tool("balance")
    if kind == "resource":
        return await client.read_resource("desk://balance")
    return await client.get_prompt("balance")


@over("memory", revisions=("2025-06-18", "2025-11-25"))
@pytest.mark.requirement("errors.retired-codes.not-emitted", "elicitation.mode.supported-only")
@pytest.mark.parametrize("kind", ["tool", "resource", "prompt"])
async def test_a_client_without_url_mode_reads_where_the_page_is(
    connect_to: Any, kind: str
) -> None:
    server = Desk()
    async with connect_to(server, on_elicit=lambda params: {}) as client:
        if kind == "tool":
            result = await client.call_tool("balance")
            assert result.is_error
            reported = text(result)
        else:
            with pytest.raises(InternalError) as caught:
                await _use(client, kind)
            reported = caught.value.message
    assert reported == f"no account (Link your account: {server.linked[0].url})"


@over("memory", revisions=("2025-11-25",))
async def test_middleware_and_completers_may_require_a_page(connect_to: Any) -> None:
    async def refuse(ctx: Any, proceed: Any) -> Any:
        if ctx.method == "tools/call":
            page = ctx.prepare_url("Sign up", "https://desk.example/")
            raise UrlElicitationRequired("no account", elicitations=[page])
        return await proceed()

    def complete(typed: str, filled_in: Any) -> list[str]:
        page = Context.current().prepare_url("Sign up", "https://desk.example/")
        raise UrlElicitationRequired("no account", elicitations=[page])

    server = Desk(middleware=[refuse])
    server.add_completion("balance", "currency", complete)
    async with connect_to(server, on_elicit_url=lambda params: None) as client:
        for use in (
            client.call_tool("link"),
            client.complete(PromptReference("balance"), "currency", ""),
        ):
            with pytest.raises(UrlElicitationRequired) as caught:
                await use
            assert caught.value.elicitations[0].url == "https://desk.example/"


@over("memory", revisions=("2025-11-25",))
@pytest.mark.requirement("elicitation.required-error.lists-elicitations")
@pytest.mark.parametrize(
    "named",
    [
        {},
        {"data": {"elicitations": []}},
        {"data": {"elicitations": [{"message": 1}]}},
        {"data": {"elicitations": [{"message": "form"}]}},
        {"elicitations": [ElicitParams("no id", mode="url", url="https://desk.example/")]},
    ],
)
async def test_an_error_that_names_no_page_is_not_sent_as_such(connect_to: Any, named: Any) -> None:
    def pay() -> str:
        """Need something."""
        raise UrlElicitationRequired("visit it", **named)

    server = Server("desk")
    server.add_tool(pay)
    async with connect_to(server, on_elicit_url=lambda params: True) as client:
        result = await client.call_tool("pay")
    assert result.is_error
    assert text(result) == "visit it, but the server names no page to visit"


@over("memory", revisions=("2025-11-25",))
async def test_a_page_of_another_server_is_passed_to_the_client(connect_to: Any) -> None:
    other = Desk()

    async def forward() -> str:
        """Call the other server."""
        async with connect(
            other, revision="2025-11-25", on_elicit_url=lambda params: False
        ) as client:
            return str(await client.call_tool("balance"))

    server = Server("hub")
    server.add_tool(forward)
    async with connect_to(server, on_elicit_url=lambda params: False) as client:
        with pytest.raises(UrlElicitationRequired) as caught:
            await client.call_tool("forward")
    assert caught.value.elicitations == (other.linked[0].params(),)


# -- the client visits pages, then repeats


@over("memory", revisions=("2025-11-25",))
@pytest.mark.parametrize("kind", ["tool", "resource", "prompt"])
async def test_a_request_is_repeated_once_its_page_is_complete(connect_to: Any, kind: str) -> None:
    server, shown = Desk(), []

    async def visit(params: ElicitParams) -> bool:
        shown.append(params.url)
        asyncio.get_running_loop().call_later(0.01, server.linked[0].complete)
        return True

    async with connect_to(server, on_elicit_url=visit) as client:
        result = await _use(client, kind)
    assert "12 EUR" in str(result)
    assert shown == [server.linked[0].url]


@over("memory", revisions=("2025-11-25",))
async def test_a_request_is_repeated_no_more_than_once(connect_to: Any) -> None:
    server, shown = Desk(), []

    def visit(params: ElicitParams) -> bool:
        shown.append(params.url)
        return True

    async with connect_to(server, on_elicit_url=visit) as client:
        with pytest.raises(UrlElicitationRequired):
            await client.call_tool("balance", timeout=0.5)
    assert shown == [server.linked[0].url]
    assert len(server.linked) == 2


@over("memory", "http", revisions=("2026-07-28",))
async def test_a_page_that_a_request_needs_is_the_same_in_every_round(connect_to: Any) -> None:
    server, shown = Server("desk"), []

    @server.tool
    def balance(ctx: Context) -> str:
        """Read the balance."""
        page = ctx.prepare_url("Link", PAGE)
        if not page.is_complete:
            raise UrlElicitationRequired("no account", elicitations=[page])
        return "12 EUR"

    def visit(params: ElicitParams) -> bool:
        shown.append(params.url)
        if len(shown) == 2:
            server.elicitation_completed(str(params.url).rpartition("/")[2])
        return True

    async with connect_to(server, on_elicit_url=visit) as client:
        assert (await client.call_tool("balance")).text == "12 EUR"
    assert len(shown) == 2
    assert len(set(shown)) == 1


# -- bounds


@in_loop
async def test_pages_are_bounded_for_each_caller_and_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(url_elicitation, "_OWNER_MOST", 2)
    monkeypatch.setattr(url_elicitation, "_MOST", 3)
    pages: dict[str, list[Any]] = {"ann": [], "bob": []}
    server = Server("desk")

    @server.tool
    async def prepare(ctx: Context) -> None:
        """Prepare a page."""
        assert ctx.principal is not None
        page = ctx.prepare_url("Link", PAGE)
        assert page.principal == ctx.principal
        pages[ctx.principal.subject].append(page)

    for subject in ("ann", "ann", "ann", "bob", "bob"):
        async with connect(server.acting_as(Principal(subject))) as client:
            assert not (await client.call_tool("prepare")).is_error
    kept = {
        name: [server.elicitations.find(page.id) is page for page in made]
        for name, made in pages.items()
    }
    assert kept == {"ann": [False, False, True], "bob": [True, True]}
    assert not server.elicitation_completed("unknown")


@in_loop
async def test_a_page_outlives_its_client_without_harm() -> None:
    server = Desk()
    async with connect(server, on_elicit_url=lambda params: True) as client:
        await client.call_tool("link")
    (page,) = server.linked
    assert page.id not in repr(page)
    assert server.elicitation_completed(page.id)
    assert not page.complete()
    assert server.elicitations.find(page.id) is None
    server.elicitations.discard(page)
    server.elicitations.discard(page)
    assert UrlElicitations().find(page.id) is None
