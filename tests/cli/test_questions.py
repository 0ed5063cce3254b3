"""Questions and tasks of servers, as `accord call` shows them to its user."""

import asyncio

import pytest

from accord import Context, Server
from accord.server.tasks import TaskSettings
from support.http_server import bounded


def make_server():
    server = Server("trip", tasks=TaskSettings(poll_interval=0.05))

    @server.tool
    async def book(ctx: Context) -> str:
        """Book a trip."""
        nights, name = await asyncio.gather(
            ctx.elicit("How many nights?", int), ctx.elicit("Whose name?", str)
        )
        sure = await ctx.elicit(f"{nights} nights for {name}?", bool)
        return f"booked: {sure}"

    @server.tool
    async def link(ctx: Context) -> str:
        """Link an account."""
        await ctx.elicit_url("Link your account", "https://desk.example/link")
        return "linked"

    @server.tool(task="required")
    async def render(ctx: Context) -> str:
        """Render a film, once the user agrees."""
        await ctx.task.update("reading the scenes")
        sure = await ctx.elicit("Render them?", bool)
        await ctx.task.update("rendering")
        return f"rendered: {sure}"

    return server


@pytest.fixture(scope="module")
def trip():
    with bounded(make_server().asgi()) as port:
        yield f"http://127.0.0.1:{port}/mcp"


def test_repeated_answers_are_for_the_questions_in_their_order(accord, trip):
    answers = ["--answer", "value=3", "--answer", "value=Ann", "--answer", "value=yes"]
    done = accord("call", trip, "book", *answers)
    assert (done.returncode, done.stdout) == (0, "booked: True\n")
    assert "the server asks: 3 nights for Ann?" in done.stderr


def test_questions_asked_together_are_put_one_after_another(converse, trip):
    typed = [
        ("How many nights?", b""),
        ("value (integer): ", b"3\n"),
        ("Whose name?", b""),
        ("value (string): ", b"Ann\n"),
        ("value (boolean, y or n): ", b"y\n"),
    ]
    assert converse("call", trip, "book", typed=typed, is_piped=True) == (0, "booked: True\n")


def test_a_page_is_shown_with_its_host_and_needs_agreement(accord, trip):
    done = accord("call", trip, "link")
    assert (done.returncode, done.stdout) == (1, "the user declined to answer\n")
    shown = "the server asks you to visit a page on desk.example: Link your account"
    assert f"{shown}\n  https://desk.example/link\n" in done.stderr
    assert "declined: there is no terminal to answer on; add --answer agree=yes" in done.stderr
    assert accord("call", trip, "link", "--answer", "agree=yes").stdout == "linked\n"


def test_a_page_is_agreed_to_on_the_terminal(converse, trip):
    typed = [("will you open it in your browser? [y/N] ", b"y\n")]
    assert converse("call", trip, "link", typed=typed, is_piped=True) == (0, "linked\n")


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_call_that_becomes_a_task_shows_its_status(accord, trip, revision):
    done = accord("call", trip, "render", "--revision", revision, "--answer", "value=y")
    assert (done.returncode, done.stdout) == (0, "rendered: True\n"), done.stderr
    assert "reading the scenes" in done.stderr
    assert "the server asks: Render them?" in done.stderr
