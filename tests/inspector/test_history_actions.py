"""Calls are kept while they are made, found again, and made again."""

import pytest

from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.live.calls import Calls
from inspector.reached_servers import (
    ask,
    call_of,
    make_server,
    session_of,
    until,
    url_target,
)
from support.http_server import serving
from support.running import on_a_loop

SECRET = "hunter2-and-more"
ADD = {"name": "add", "arguments": '{"a": 1, "b": 2.50}'}


async def listed(session, **params):
    return (await ask(session, "history.list", **params))["entries"]


@on_a_loop
async def test_each_call_is_kept_with_its_texts(tmp_path):
    file = tmp_path / "inspect.sqlite"
    with serving(make_server().asgi()) as port:
        async with session_of(url_target(port), is_connected=True, history=file) as session:
            await call_of(session, "calls.tool", **ADD)
            await call_of(session, "calls.read", uri="note://today")
            await call_of(session, "calls.prompt", name="greet", arguments='{"name": "Ada"}')
            await call_of(session, "calls.tool", name="fail", arguments='{"why": "so"}')
        async with session_of(url_target(port), kind="trace", history=file) as session:
            found = await listed(session)
            assert [(each["kind"], each["name"]) for each in found] == [
                ("tool", "fail"),
                ("prompt", "greet"),
                ("resource", "note://today"),
                ("tool", "add"),
            ]
            assert all(each["is_same_target"] for each in found)
            entry = await ask(session, "history.get", id=found[-1]["id"])
            assert entry["arguments"] == ADD["arguments"]
            assert '"value":3.5' in entry["response"].replace(" ", "")
            assert not entry["is_cut"]
            assert (await listed(session, text="note://"))[0]["kind"] == "resource"
        async with session_of(url_target(port, path="/other"), history=file) as session:
            assert await listed(session) == []
            others = await listed(session, all_targets=True)
            assert [each["is_same_target"] for each in others] == [False] * 4


@on_a_loop
async def test_a_call_is_made_again():
    with serving(make_server().asgi()) as port:
        async with session_of(url_target(port), is_connected=True) as session:
            await call_of(session, "calls.tool", **ADD)
            await call_of(session, "calls.read", uri="note://today")
            first, second = [each["id"] for each in await listed(session)]
            again = (await ask(session, "history.replay", id=second))["id"]
            await until(lambda: not session.part(Calls).find(again).is_running)
            assert (await listed(session))[0]["name"] == "add"
            for id in (first, second):
                await ask(session, "history.pin", id=id, on=True)
            pinned = (await ask(session, "history.replay_pinned"))["ids"]
            names = [session.part(Calls).find(each).name for each in pinned]
            assert names == ["add", "note://today"]


@on_a_loop
async def test_a_masked_secret_cannot_be_sent_again():
    with serving(make_server().asgi()) as port:
        async with session_of(url_target(port), is_connected=True) as session:
            arguments = f'{{"text": "hello", "password": "{SECRET}"}}'
            await call_of(session, "calls.tool", name="echo", arguments=arguments)
            (entry,) = await listed(session)
            shown = await ask(session, "history.get", id=entry["id"])
            assert SECRET not in str(shown)
            assert "hello" in shown["arguments"]
            with pytest.raises(ActionRefused, match="/password"):
                await ask(session, "history.replay", id=entry["id"])
            last = await ask(session, "history.last", kind="tool", name="echo")
            assert last == {"arguments": None, "recent": []}


@on_a_loop
async def test_the_arguments_used_last_are_offered():
    with serving(make_server().asgi()) as port:
        async with session_of(url_target(port), is_connected=True) as session:
            for text in ("one", "two", "one"):
                await call_of(session, "calls.tool", name="echo", arguments=f'{{"text": "{text}"}}')
            last = await ask(session, "history.last", kind="tool", name="echo")
            assert last["arguments"] == '{"text": "one"}'
            assert [each["arguments"] for each in last["recent"]] == [
                '{"text": "one"}',
                '{"text": "two"}',
            ]


@on_a_loop
async def test_entries_are_noted_and_deleted():
    with serving(make_server().asgi()) as port:
        async with session_of(url_target(port), is_connected=True) as session:
            await call_of(session, "calls.tool", **ADD)
            await call_of(session, "calls.tool", **ADD)
            one, other = [each["id"] for each in await listed(session)]
            await ask(session, "history.note", id=one, note="as in the bug")
            assert (await listed(session, text="bug"))[0]["note"] == "as in the bug"
            await ask(session, "history.delete", id=one)
            with pytest.raises(ActionRefused, match="deleted"):
                await ask(session, "history.get", id=one)
            assert (await ask(session, "history.delete", all=True)) == {"deleted": 1}
            with pytest.raises(ActionRefused):
                await ask(session, "history.pin", id=other)


@on_a_loop
async def test_a_folder_that_cannot_be_written_costs_no_call(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with serving(make_server().asgi()) as port:
        target = url_target(port)
        async with session_of(target, is_connected=True, history=blocked / "x.db") as session:
            await call_of(session, "calls.tool", **ADD)
            shown = await ask(session, "history.list")
            assert len(shown["entries"]) == 1
            assert not shown["keeps"]
            assert str(blocked) in shown["note"]


@on_a_loop
async def test_prompts_and_requests_are_made_again():
    with serving(make_server().asgi()) as port:
        async with session_of(url_target(port), is_connected=True) as session:
            await call_of(session, "calls.prompt", name="greet", arguments='{"name": "Ada"}')
            await call_of(session, "calls.request", method="tools/list", params='{"a": 1}')
            for each in await listed(session):
                again = (await ask(session, "history.replay", id=each["id"]))["id"]
                await until(lambda again=again: not session.part(Calls).find(again).is_running)
            found = await listed(session)
            made = [await ask(session, "history.get", id=each["id"]) for each in found]
            prompt = ("prompt", "greet", '{"name": "Ada"}')
            request = ("request", "tools/list", '{"a": 1}')
            expected = [prompt, request, request, prompt]
            assert [(each["kind"], each["name"], each["arguments"]) for each in made] == expected


@on_a_loop
async def test_a_deletion_needs_a_call_that_is_kept():
    async with session_of(url_target(1)) as session:
        with pytest.raises(ActionRefused, match="say which call"):
            await ask(session, "history.delete")
        with pytest.raises(ActionRefused, match="deleted"):
            await ask(session, "history.delete", id=99)
