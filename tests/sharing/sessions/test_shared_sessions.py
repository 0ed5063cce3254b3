"""Sessions that several workers serve: whichever worker gets a request, the session is the same."""

import asyncio
import json

import msgspec
import pytest

from accord import Context, Principal
from accord.http.settings import HttpLimits
from accord.sharing import KeyRing
from accord.sharing.workers import names
from accord.sharing.workers.session_records import FORMAT, SessionRecord
from accord.sharing.workers.session_tokens import SessionTokens
from accord.types import CreateMessageParams, SamplingMessage, TextContent
from support.http_talk import call, initialize, notification, request
from support.shared import add_app, eventually, in_virtual_time, serve_shared
from support.shared_tools import Desk

REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25"]
everywhere = pytest.mark.parametrize("revision", REVISIONS)


def by_header(scope):
    """The caller of a request, as its header says."""
    user = dict(scope["headers"]).get(b"x-user")
    return None if user is None else Principal(user.decode(), issuer="https://issuer.test")


# -- any worker


@everywhere
@in_virtual_time
async def test_a_session_is_served_by_all_workers(revision):
    async with serve_shared(Desk().make, 3) as crew:
        client = crew.client(revision)
        await client.open(at=0, ready_at=1)
        for at in (2, 0, 1, 2):
            assert await client.call(at, "add", a=at, b=1) == str(at + 1)
            listed = await client.ask(at, "tools/list")
            assert len(listed["result"]["tools"]) > 10


@in_virtual_time
async def test_a_call_where_the_session_is_cached_does_not_touch_the_store():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        await client.call(1, "add", a=1, b=2)
        before = len(crew[1].backend.calls)
        for _ in range(20):
            await client.call(1, "add", a=1, b=2)
        sessions = [about for _, about in crew[1].backend.calls[before:] if client.sid in about]
        assert sessions == []


@in_virtual_time
async def test_a_worker_that_joins_later_serves_sessions_of_the_others():
    desk = Desk()
    async with serve_shared(desk.make, 1) as crew:
        client = await crew.open()
        await client.call(0, "count")
        await add_app(crew, desk.make)
        assert await client.call(1, "count") == "2"


@in_virtual_time
async def test_a_session_outlives_the_worker_that_opened_it():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open(at=0)
        await client.call(0, "count")
        await crew[0].stop()
        assert await client.call(1, "count") == "2"


@in_virtual_time
async def test_requests_that_meet_at_a_new_worker_read_the_session_once():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        answers = [client.begin(1, call(id, "add", a=id, b=0)) for id in range(20)]
        for answer in answers:
            await answer.done()
        assert [answer.status for answer in answers] == [200] * 20
        assert crew[1].worker.metrics.sessions_loaded == 1


@in_virtual_time
async def test_a_large_message_is_accepted_where_the_session_was_not_seen_before():
    async with serve_shared(Desk().make, 2, limits=HttpLimits(opening_bytes=10_000)) as crew:
        client = await crew.open()
        big = call(1, "put", key="k", value="x" * 50_000)
        assert (await client.post(1, big)).status == 200
        forged = crew.client()
        forged.session = client.session[:-2] + "AA"
        assert (await forged.post(1, big)).status == 413


# -- ids


def alter(session):
    middle = len(session) // 2
    return session[:middle] + ("A" if session[middle] != "A" else "B") + session[middle + 1 :]


def seal_with(keys):
    def change(client):
        return SessionTokens(KeyRing(keys)).seal(client.token).decode()

    return change


FORGERIES = {
    "altered": lambda client: alter(client.session),
    "with more at the end": lambda client: client.session + "A",
    "with padding": lambda client: client.session + "=",
    "cut": lambda client: client.session[:-1],
    "made up": lambda client: "0" * len(client.session),
    "sealed with a foreign key": seal_with(["f" * 40]),
    "the name in the store": lambda client: client.sid,
    "empty": lambda client: "",
}


@pytest.mark.parametrize("forgery", FORGERIES)
@in_virtual_time
async def test_an_id_that_no_worker_has_sealed_is_unknown(forgery):
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        session = FORGERIES[forgery](client)
        for at in (0, 1):
            forged = crew.client()
            forged.session = session
            answers = [
                await forged.post(at, call(1, "add", a=1, b=2)),
                await forged.post(at, notification("notifications/cancelled", requestId=1)),
                await forged.listen(at),
                await forged.delete(at),
            ]
            assert [answer.status for answer in answers] == [404] * 4
            # An answer does not say whether it exists.
            assert {answer.reason for answer in answers} == {
                "the session is unknown or has ended; initialize anew"
            }
        assert await client.call(1, "add", a=1, b=2) == "3"


@in_virtual_time
async def test_sessions_survive_the_rotation_of_keys():
    desk, old, new = Desk(), "o" * 40, "n" * 40
    async with serve_shared(desk.make, 1, store_keys=[old]) as crew:
        early = await crew.open()
        await add_app(crew, desk.make, store_keys=[old, new])
        await add_app(crew, desk.make, store_keys=[new, old])
        assert await early.call(1, "count") == "1"
        assert await early.call(2, "count") == "2"
        late = await crew.open(at=2)
        assert await late.call(1, "count") == "1"
        crew[0].kill()


@in_virtual_time
async def test_a_session_serves_only_the_caller_that_opened_it():
    async with serve_shared(Desk().make, 3, principal=by_header) as crew:
        client = await crew.open(user="ada")
        assert await client.call(1, "caller") == "ada"
        for at in range(3):
            for user in ("eve", None):
                thief = crew.client(user=user)
                thief.session = client.session
                answers = [
                    await thief.post(at, call(1, "caller")),
                    await thief.post(at, notification("notifications/initialized")),
                    await thief.post(at, {"jsonrpc": "2.0", "id": 5, "result": {}}),
                    await thief.listen(at),
                    await thief.listen(at, last="0123456789-1"),
                    await thief.delete(at),
                ]
                assert [answer.status for answer in answers] == [404] * 6
        assert await client.call(0, "caller") == "ada"
        assert await client.call(2, "caller") == "ada"


@in_virtual_time
async def test_callers_whose_names_look_alike_do_not_share_a_session():
    callers = {"a": 1, "b": "1", "c": b"1", "d": (1,), "e": ("1",)}

    def find(scope):
        return callers[dict(scope["headers"])[b"x-user"].decode()]

    async with serve_shared(Desk().make, 2, principal=find) as crew:
        for owner in callers:
            client = await crew.open(user=owner)
            for user in callers:
                client.user = user
                found = [(await client.post(at, call(1, "count"))).status for at in (0, 1)]
                assert found == ([200, 200] if user == owner else [404, 404]), (owner, user)


@in_virtual_time
async def test_an_anonymous_session_is_not_that_of_a_caller():
    async with serve_shared(Desk().make, 2, principal=by_header) as crew:
        client = await crew.open()
        assert await client.call(1, "caller") == "nothing"
        client.user = "ada"
        assert (await client.post(0, call(1, "caller"))).status == 404
        assert (await client.post(1, call(1, "caller"))).status == 404


@in_virtual_time
async def test_a_caller_with_another_token_keeps_its_session():
    def with_changing_scopes(scope):
        user = dict(scope["headers"]).get(b"x-user", b"").decode()
        name, _, granted = user.partition("/")
        return Principal(name, scopes=frozenset({granted}), issuer="https://issuer.test")

    async with serve_shared(Desk().make, 2, principal=with_changing_scopes) as crew:
        client = await crew.open(user="ada/read")
        client.user = "ada/write"
        assert await client.call(1, "caller") == "ada"
        assert await client.call(0, "caller") == "ada"


@in_virtual_time
async def test_ids_are_visible_ascii_and_unlike_each_other():
    async with serve_shared(Desk().make, 2) as crew:
        clients = [await crew.open(at=number % 2) for number in range(30)]
        ids = {client.session for client in clients}
        assert len(ids) == len({client.sid for client in clients}) == 30
        assert all(id.isascii() and id.isprintable() and len(id) < 260 for id in ids)


# -- state


@in_virtual_time
async def test_state_is_the_same_on_alternating_workers():
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open()
        for number in range(12):
            assert await client.call(number * 7 % 3, "count") == str(number + 1)


@in_virtual_time
async def test_state_of_one_session_is_not_seen_by_another():
    async with serve_shared(Desk().make, 2) as crew:
        first, second = await crew.open(), await crew.open(at=1)
        await first.call(0, "put", key="secret", value="a")
        for at in (0, 1):
            assert json.loads(await second.call(at, "values")) == {}


@in_virtual_time
async def test_values_of_all_kinds_arrive_as_they_were():
    value = {"text": "ü", "list": [1, 2.5, None, True], "deep": {"a": [{}]}, "big": 2**60}
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        await client.call(0, "put", key="v", value=value)
        assert json.loads(await client.call(1, "values")) == {"v": value}
        await client.call(1, "drop", key="v")
        assert json.loads(await client.call(0, "values")) == {}


@in_virtual_time
async def test_writers_at_the_same_time_are_merged_by_key():
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        client = await crew.open()
        await client.call(0, "put", key="old", value=1)
        for at in (1, 2):
            await client.call(at, "add", a=1, b=1)
        writing = [
            client.begin(at, call(at, "put", key=f"k{at}", value=at, gate="all")) for at in range(3)
        ]
        await eventually(lambda: sum("waits" in step for step in desk.trail) == 3)
        desk.gates["all"].set()
        for answer in writing:
            await answer.done()
        for at in range(3):
            found = json.loads(await client.call(at, "values"))
            assert found == {"old": 1, "k0": 0, "k1": 1, "k2": 2}


@in_virtual_time
async def test_many_writers_at_random_lose_nothing():
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open()
        writing = [
            client.begin(number % 3, call(number, "put", key=f"k{number}", value=number))
            for number in range(60)
        ]
        for answer in writing:
            await answer.done()
        for at in range(3):
            assert len(json.loads(await client.call(at, "values"))) == 60


@in_virtual_time
async def test_a_handler_that_runs_while_another_worker_writes_sees_the_new_values():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        holding = client.begin(0, call("h", "put", key="a", value=1, gate="hold"))
        await eventually(lambda: desk.trail)
        await client.call(1, "put", key="b", value=2)
        # Its dictionary has both; what it has not saved yet is not elsewhere.
        assert json.loads(await client.call(1, "values")) == {"b": 2}
        desk.gates["hold"].set()
        await holding.done()
        assert json.loads(await client.call(1, "values")) == {"a": 1, "b": 2}
        assert json.loads(await client.call(0, "values")) == {"a": 1, "b": 2}


@in_virtual_time
async def test_of_two_writers_of_one_key_the_last_one_to_answer_wins_everywhere():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open()
        await client.call(1, "add", a=1, b=1)
        late = client.begin(0, call("l", "put", key="k", value="late", gate="late"))
        await eventually(lambda: desk.trail)
        await client.call(1, "put", key="k", value="early")
        desk.gates["late"].set()
        await late.done()
        for at in (0, 1):
            assert json.loads(await client.call(at, "values")) == {"k": "late"}


@in_virtual_time
async def test_a_value_that_cannot_be_stored_fails_its_call_and_no_other(caplog):
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        await client.call(0, "put", key="good", value=1)
        error = await client.call(0, "keep_object")
        assert (error["code"], error["message"]) == (-32603, "internal error")
        assert "session.state['odd'] is a object" in caplog.text
        for at in (0, 1):
            assert json.loads(await client.call(at, "values")) == {"good": 1}
            assert "error" not in await client.ask(at, "ping")
            assert (await client.notify(at, "notifications/roots/list_changed")).status == 202


@in_virtual_time
async def test_a_state_that_is_too_large_fails_its_call_and_no_other():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        error = await client.call(0, "put", key="k", value="x" * 300_000)
        assert error["code"] == -32603
        assert await client.call(0, "put", key="k", value="x") == "kept"
        assert json.loads(await client.call(1, "values")) == {"k": "x"}


# -- what the client has set


@in_virtual_time
async def test_the_log_level_holds_on_all_workers():
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open("2025-06-18")

        async def logged(at, level):
            id = client.next_id()
            answer = await client.post(at, call(id, "log", level=level, text="t"))
            return len(answer.messages) == 2

        await client.ask(0, "logging/setLevel", level="error")
        assert [await logged(at, "warning") for at in range(3)] == [False] * 3
        assert [await logged(at, "error") for at in range(3)] == [True] * 3
        await client.ask(2, "logging/setLevel", level="debug")
        assert [await logged(at, "debug") for at in range(3)] == [True] * 3
        assert (await crew.record(client)).log_level == "debug"


@in_virtual_time
async def test_entries_that_a_session_hides_are_hidden_on_all_workers():
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open()

        async def tools(at):
            listed = await client.ask(at, "tools/list")
            return {each["name"] for each in listed["result"]["tools"]}

        for at in range(3):
            assert "add" in await tools(at)
        await client.call(1, "set_visible", name="add", shows=False)
        for at in range(3):
            assert "add" not in await tools(at)
            assert (await client.call(at, "add", a=1, b=1))["code"] == -32602
        await client.call(2, "set_visible", name="add", shows=True)
        for at in range(3):
            assert await client.call(at, "add", a=1, b=1) == "2"


@in_virtual_time
async def test_subscriptions_hold_on_all_workers_and_end_on_all():
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open()
        await client.ask(0, "resources/subscribe", uri="note://a")
        await client.ask(1, "resources/subscribe", uri="note://b")
        assert (await crew.record(client)).subscriptions == {"note://a", "note://b"}
        await client.call(2, "add", a=1, b=1)
        assert crew[2].session(client).session.subscriptions == {"note://a", "note://b"}
        await client.ask(2, "resources/unsubscribe", uri="note://a")
        for app in crew:
            assert app.session(client).session.subscriptions == {"note://b"}


@everywhere
@in_virtual_time
async def test_a_session_is_ready_on_all_workers_once_one_has_heard_that(revision):
    async with serve_shared(Desk().make, 3) as crew:
        client = crew.client(revision)
        opened = await client.post(0, initialize(revision))
        client.session = opened.headers["mcp-session-id"]
        assert not (await crew.record(client)).is_initialized
        # Another worker has a copy from before.
        assert (await client.ask(1, "ping"))["result"] == {}
        assert (await client.notify(2, "notifications/initialized")).status == 202
        assert (await crew.record(client)).is_initialized
        for app in crew:
            assert app.session(client).session.is_ready


@in_virtual_time
async def test_the_capabilities_of_a_client_are_known_on_all_workers():
    async with serve_shared(Desk().make, 2) as crew:
        plain = await crew.open("2025-06-18")
        said = await plain.call(1, "ask")
        assert "elicitation" in (said if isinstance(said, str) else said["message"])
        able = await crew.open("2025-06-18", elicitation={})
        asking = able.begin(1, call(1, "ask"))
        await eventually(lambda: asking.messages)
        assert asking.messages[0]["method"] == "elicitation/create"


@in_virtual_time
async def test_a_refused_revision_is_refused_on_all_workers():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open("2025-06-18")
        for at in (0, 1):
            answer = await client.post(at, call(1, "add", a=1, b=1), mcp_protocol_version="1999")
            assert answer.status == 400


# -- copies


@in_virtual_time
async def test_a_change_on_one_worker_is_seen_by_the_next_request_on_another():
    async with serve_shared(Desk().make, 4) as crew:
        client = await crew.open()
        for at in range(4):
            await client.call(at, "count")
        for number in range(20):
            await client.call(number % 4, "put", key="k", value=number)
            assert json.loads(await client.call((number + 1) % 4, "values"))["k"] == number


@in_virtual_time
async def test_a_copy_on_a_killed_worker_delays_a_change_but_does_not_stop_it():
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open()
        await client.call(1, "count")
        await client.call(2, "count")
        crew[1].kill()
        began = asyncio.get_running_loop().time()
        assert await client.call(2, "count") == "3"
        assert asyncio.get_running_loop().time() - began < 2.0
        assert await client.call(2, "count") == "4"
        assert await client.call(0, "count") == "5"
        assert crew[1].worker.id not in (await crew.record(client)).holders


@in_virtual_time
async def test_a_change_of_a_worker_that_died_before_it_informed_others_is_seen_everywhere():
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open()
        for at in range(3):
            await client.call(at, "put", key=f"k{at}", value=at)
        # It writes the record, and dies before the messages to the others have left.
        crew[0].backend.fail("append", "}i", times=100)
        client.begin(0, call("late", "put", key="late", value=1))
        await asyncio.sleep(0.1)
        crew[0].kill()
        await asyncio.sleep(5)
        found = [json.loads(await client.call(at, "values")) for at in (1, 2)]
        assert found[0] == found[1]
        assert "late" in found[0]


@in_virtual_time
async def test_a_stalled_worker_that_wakes_serves_the_newest_state():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        await client.call(0, "count")
        await client.call(1, "count")
        crew[1].backend.stall()
        assert await client.call(0, "count") == "3"
        late = client.begin(1, call("late", "count"))
        await asyncio.sleep(0.1)
        crew[1].backend.move_on()
        await late.done()
        assert late.messages[-1]["result"]["content"][0]["text"] == "4"


@in_virtual_time
async def test_a_worker_with_little_room_gives_copies_up_and_reads_them_again():
    async with serve_shared(Desk().make, 1, sessions=1000) as crew:
        await add_app(crew, Desk().make, sessions=3)
        clients = [await crew.open(at=0) for _ in range(8)]
        for _ in range(3):
            for client in clients:
                await client.call(1, "count")
                assert len(crew[1].sessions) <= 3
        for client in clients:
            assert await client.call(0, "count") == "4"
            assert await client.call(1, "count") == "5"


# -- other versions


async def rewrite(crew, client, change):
    """Change the record of a session as another version of accord would."""
    key = names.session_of(client.sid)
    stored = await crew.store.backend.get(key)
    members = msgspec.msgpack.decode(stored.value)
    change(members)
    await crew.store.backend.put(key, msgspec.msgpack.encode(members), ttl=600)


@pytest.mark.parametrize("more", [{}, {"holders": 7, "state": "elsewhere"}])
@in_virtual_time
async def test_a_session_of_a_later_format_is_left_to_later_workers(more):
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        await rewrite(crew, client, lambda members: members.update(needs=FORMAT + 1, **more))
        answers = [
            await client.post(1, call(1, "add", a=1, b=2)),
            await client.listen(1),
            await client.post(1, notification("notifications/initialized")),
        ]
        for answer in answers:
            assert answer.status == 503
            assert answer.headers["retry-after"] == "1"
            assert "later version" in answer.reason


@in_virtual_time
async def test_members_of_a_later_version_survive_what_this_one_writes():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open()
        await rewrite(crew, client, lambda members: members.update(colour={"deep": ["red"]}))
        await client.call(1, "count")
        await client.ask(1, "logging/setLevel", level="error")
        listening = await client.listen(1)
        listening.disconnect()
        await listening.done()
        await eventually(lambda: not crew[1].session(client).followed)
        assert await client.call(0, "count") == "2"
        await asyncio.sleep(1)
        stored = await crew.store.backend.get(names.session_of(client.sid))
        assert msgspec.msgpack.decode(stored.value)["colour"] == {"deep": ["red"]}
        assert (await crew.record(client)).log_level == "error"


@in_virtual_time
async def test_a_record_that_cannot_be_read_fails_its_session_and_no_other():
    async with serve_shared(Desk().make, 2) as crew:
        client, other = await crew.open(), await crew.open()
        await crew.store.backend.put(names.session_of(client.sid), b"\xc1", ttl=600)
        assert (await client.post(1, call(1, "add", a=1, b=2))).status == 500
        assert await other.call(1, "add", a=1, b=2) == "3"


# -- ending


@in_virtual_time
async def test_a_session_that_was_deleted_on_one_worker_is_unknown_on_all():
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open()
        for at in range(3):
            await client.call(at, "count")
        assert (await client.delete(1)).status == 204
        for at in range(3):
            assert (await client.post(at, call(1, "add", a=1, b=2))).status == 404
            assert (await client.listen(at)).status == 404
            assert (await client.delete(at)).status == 404
        assert not any(len(app.sessions) for app in crew)
        assert await crew.store.backend.count(names.SESSIONS) == 0


@in_virtual_time
async def test_a_deleted_session_stays_unknown_when_its_mark_has_expired():
    async with serve_shared(Desk().make, 2, session_idle=40.0) as crew:
        client = await crew.open()
        await client.delete(0)
        await asyncio.sleep(300)
        assert await crew.read_record(client) is None
        for at in (0, 1):
            assert (await client.post(at, call(1, "add", a=1, b=2))).status == 404


@in_virtual_time
async def test_deleting_cancels_calls_and_ends_streams_on_all_workers():
    desk = Desk()
    async with serve_shared(desk.make, 4) as crew:
        client = await crew.open()
        calling = client.begin(0, call(1, "hold", token="t", name="gate"))
        silent = client.begin(1, call(2, "wait", name="gate"))
        listening = await client.listen(2)
        await eventually(lambda: calling.messages and len(desk.trail) == 2)
        resumed = await client.listen(2, last=calling.all_events[0].id)
        assert (await client.delete(3)).status == 204
        for answer in (calling, silent, listening, resumed):
            await eventually(lambda answer=answer: answer.is_over)
        assert {"gate at 0 is cancelled", "gate at 1 is cancelled"} <= set(desk.trail)
        assert silent.status == 404
        assert calling.is_whole
        assert len(calling.messages) == 1
        for at in range(4):
            assert (await client.post(at, call(9, "add", a=1, b=1))).status == 404
        assert not any(len(app.sessions) for app in crew)


@in_virtual_time
async def test_an_idle_session_ends_on_all_workers():
    async with serve_shared(Desk().make, 2, session_idle=10.0) as crew:
        client = await crew.open()
        await client.call(0, "count")
        await client.call(1, "count")
        await asyncio.sleep(30)
        assert not any(len(app.sessions) for app in crew)
        assert (await client.post(0, call(1, "count"))).status == 404
        assert (await client.post(1, call(1, "count"))).status == 404


@in_virtual_time
async def test_use_on_any_worker_keeps_a_session_alive_on_all():
    async with serve_shared(Desk().make, 2, session_idle=10.0) as crew:
        client = await crew.open()
        await client.call(0, "count")
        for number in range(20):
            await asyncio.sleep(4)
            assert await client.call(1, "add", a=number, b=0) == str(number)
        assert await client.call(0, "count") == "2"


@in_virtual_time
async def test_a_listening_client_or_a_running_call_keeps_a_session_alive():
    desk = Desk()
    async with serve_shared(desk.make, 2, session_idle=5.0) as crew:
        listener, caller = await crew.open(), await crew.open()
        await listener.listen(1)
        calling = caller.begin(1, call(1, "wait", name="long"))
        await asyncio.sleep(60)
        assert await listener.call(0, "count") == "1"
        desk.gates["long"].set()
        await calling.done()
        assert calling.messages[-1]["result"]["content"][0]["text"] == "long"
        assert await caller.call(0, "count") == "1"


@in_virtual_time
async def test_a_session_that_is_never_used_ends_within_a_minute():
    async with serve_shared(Desk().make, 1) as crew:
        client = crew.client()
        opened = await client.post(0, initialize("2025-11-25"))
        client.session = opened.headers["mcp-session-id"]
        assert await crew.store.backend.count(names.SESSIONS) == 1
        await asyncio.sleep(100)
        assert await crew.read_record(client) is None
        assert await crew.store.backend.count(names.SESSIONS) == 0


# -- limits


@in_virtual_time
async def test_sessions_of_all_workers_share_the_limit():
    async with serve_shared(Desk().make, 2, sessions=4) as crew:
        clients = [await crew.open(at=number % 2) for number in range(4)]
        refused = await crew.client().post(0, initialize("2025-06-18"))
        assert refused.status == 503
        assert refused.headers["retry-after"] == "5"
        assert refused.reason == "4 sessions are open (sessions)"
        await clients[0].delete(1)
        await crew.open(at=0)


@in_virtual_time
async def test_sessions_of_one_caller_are_limited_over_all_workers():
    async with serve_shared(Desk().make, 2, sessions_per_caller=2, principal=by_header) as crew:
        for at in (0, 1):
            await crew.open(at=at, user="ada")
        for at in (0, 1):
            refused = await crew.client(user="ada").post(at, initialize("2025-06-18"))
            assert refused.status == 503
            assert refused.reason == "2 sessions of one caller are in use (sessions_per_caller)"
        await crew.open(at=0, user="eve")
        await crew.open(at=1)


@in_virtual_time
async def test_sessions_that_ended_by_idleness_make_room():
    async with serve_shared(Desk().make, 2, sessions=2, session_idle=10.0) as crew:
        for at in (0, 1):
            await crew.open(at=at)
        await asyncio.sleep(30)
        await crew.open(at=0)


# -- routed messages


async def begin_asking(client, at, id, tool="ask"):
    """Let a tool ask; return the response and the id of the question."""
    asking = client.begin(at, call(id, tool))
    await eventually(lambda: asking.messages)
    return asking, asking.messages[-1]["id"]


def accept(id, name="Ada"):
    return {
        "jsonrpc": "2.0",
        "id": id,
        "result": {"action": "accept", "content": {"name": name}},
    }


@everywhere
@in_virtual_time
async def test_a_question_is_answered_at_any_worker(revision):
    async with serve_shared(Desk().make, 3) as crew:
        able = {"roots": {}} if revision == "2025-03-26" else {"elicitation": {}}
        client = await crew.open(revision, **able)
        for number, (asked, answered) in enumerate([(0, 0), (0, 1), (1, 2), (2, 0)]):
            if revision == "2025-03-26":
                asking, question = await begin_asking(client, asked, number, "ask_roots")
                reply = {"jsonrpc": "2.0", "id": question, "result": {"roots": []}}
                expected = "0"
            else:
                asking, question = await begin_asking(client, asked, number)
                reply, expected = accept(question), "hello Ada"
            assert (await client.post(answered, reply)).status == 202
            await asking.done()
            assert asking.messages[-1]["result"]["content"][0]["text"] == expected


@pytest.mark.parametrize("content", [{"name": "method"}, {"name": "x", "method": "notifications/"}])
@in_virtual_time
async def test_an_answer_that_looks_like_another_message_arrives(content):
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open("2025-06-18", elicitation={})
        await client.call(1, "add", a=1, b=1)
        asking, question = await begin_asking(client, 0, 1)
        reply = {
            "jsonrpc": "2.0",
            "id": question,
            "result": {"action": "accept", "content": content},
        }
        assert (await client.post(1, reply)).status == 202
        await asking.done()
        assert asking.messages[-1]["result"]["content"][0]["text"] == f"hello {content['name']}"


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)])
@in_virtual_time
async def test_of_the_same_answer_twice_the_first_counts(first, second):
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open("2025-06-18", elicitation={})
        asking, question = await begin_asking(client, 0, 1)
        assert (await client.post(first, accept(question, "Ada"))).status == 202
        again = await client.post(second, accept(question, "Eve"))
        assert again.status == 400
        await asking.done()
        assert asking.messages[-1]["result"]["content"][0]["text"] == "hello Ada"


@in_virtual_time
async def test_two_answers_at_the_same_time_are_one():
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open("2025-06-18", elicitation={})
        for number in range(5):
            asking, question = await begin_asking(client, 0, number)
            replies = [client.begin(at, accept(question, str(at))) for at in (1, 2, 0, 1)]
            for reply in replies:
                await reply.done()
            statuses = sorted(reply.status for reply in replies)
            assert statuses == [202, 400, 400, 400]
            await asking.done()
            (first,) = (
                at for at, each in zip((1, 2, 0, 1), replies, strict=True) if each.status == 202
            )
            assert asking.messages[-1]["result"]["content"][0]["text"] == f"hello {first}"


@pytest.mark.parametrize("id", [999, "x", "5\n", "x" * 500, -1, 2**62, None, 1.5])
@in_virtual_time
async def test_an_answer_to_a_question_that_was_never_asked_is_refused(id):
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open("2025-06-18", elicitation={})
        asking, question = await begin_asking(client, 0, 1)
        for at in (0, 1):
            assert (await client.post(at, accept(id))).status == 400
        assert (await client.post(1, accept(str(question)))).status == 400
        assert (await client.post(1, accept(question))).status == 202
        await asking.done()
        assert asking.messages[-1]["result"]["content"][0]["text"] == "hello Ada"


@in_virtual_time
async def test_an_answer_in_another_session_is_refused():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open("2025-06-18", elicitation={})
        other = await crew.open("2025-06-18", elicitation={})
        asking, question = await begin_asking(client, 0, 1)
        for at in (0, 1):
            assert (await other.post(at, accept(question, "Eve"))).status == 400
        await client.post(1, accept(question, "Ada"))
        await asking.done()
        assert asking.messages[-1]["result"]["content"][0]["text"] == "hello Ada"


@in_virtual_time
async def test_questions_of_several_workers_have_different_ids():
    async with serve_shared(Desk().make, 3) as crew:
        client = await crew.open("2025-06-18", elicitation={})
        asked = [await begin_asking(client, at, at) for at in range(3)]
        assert len({question for _, question in asked}) == 3
        for at, (_, question) in enumerate(asked):
            assert question < 2**53
            await client.post((at + 1) % 3, accept(question, f"of {at}"))
        for at, (asking, _) in enumerate(asked):
            await asking.done()
            assert asking.messages[-1]["result"]["content"][0]["text"] == f"hello of {at}"


@in_virtual_time
async def test_answered_questions_leave_nothing_in_the_store():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open("2025-06-18", elicitation={})
        for number in range(4):
            asking, question = await begin_asking(client, 0, number)
            await client.post(number % 2, accept(question))
            await asking.done()
        await asyncio.sleep(1)
        kept = [key for key in crew.store.backend._records if "q" in key.partition("}")[2]]
        assert kept == []


@everywhere
@pytest.mark.parametrize("tool", ["hold", "wait"])
@in_virtual_time
async def test_a_call_is_cancelled_from_any_worker(revision, tool):
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        client = await crew.open(revision)
        for at in (1, 2, 0):
            calling = client.begin(0, call(at, tool, token="t", name=f"gate{at}"))
            await eventually(lambda at=at: f"gate{at} at 0 waits" in desk.trail)
            cancelled = await client.notify(at, "notifications/cancelled", requestId=at)
            assert cancelled.status == 202
            await eventually(lambda at=at: f"gate{at} at 0 is cancelled" in desk.trail, seconds=1)
            await calling.done()
            assert not any(message.get("id") == at for message in calling.messages)


@in_virtual_time
async def test_cancelling_what_is_not_known_changes_nothing():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client, other = await crew.open(), await crew.open()
        calling = client.begin(0, call(1, "wait", name="gate"))
        await eventually(lambda: desk.trail)
        for id in (2, "1", None, [1], {"a": 1}):
            await client.notify(1, "notifications/cancelled", requestId=id)
        await other.notify(0, "notifications/cancelled", requestId=1)
        await other.notify(1, "notifications/cancelled", requestId=1)
        await asyncio.sleep(1)
        assert desk.trail == ["gate at 0 waits"]
        desk.gates["gate"].set()
        await calling.done()
        assert calling.messages[-1]["id"] == 1


@in_virtual_time
async def test_progress_of_a_client_reaches_the_worker_that_waits_for_its_answer():
    seen = []
    desk = Desk()

    def make():
        server = desk.make()

        @server.tool
        async def watch(ctx: Context) -> str:
            """Sample, and note the progress."""
            said = SamplingMessage("user", TextContent("Say it."))
            params = CreateMessageParams([said], 5, meta={"progressToken": "p7"})
            found = await ctx._session.dispatcher.request(
                "sampling/createMessage", params, on_progress=seen.append, within=ctx._exchange
            )
            return found.text

        return server

    async with serve_shared(make, 2) as crew:
        client = await crew.open("2025-06-18", sampling={})
        calling = client.begin(0, call(1, "watch"))
        await eventually(lambda: calling.messages)
        question = calling.messages[-1]
        progress = {"progressToken": "p7", "progress": 0.5}
        accepted = await client.post(1, notification("notifications/progress", **progress))
        assert accepted.status == 202
        await eventually(lambda: seen)
        said = {
            "role": "assistant",
            "model": "m",
            "content": {"type": "text", "text": "it"},
        }
        await client.post(1, {"jsonrpc": "2.0", "id": question["id"], "result": said})
        await calling.done()
        assert calling.messages[-1]["result"]["content"][0]["text"] == "it"


# -- batches


@in_virtual_time
async def test_parts_of_a_batch_reach_the_workers_that_they_concern():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-03-26", roots={})
        held = client.begin(0, call("held", "wait", name="gate"))
        asking, question = await begin_asking(client, 0, "asking", "ask_roots")
        answer = await client.post(
            1,
            [
                {"jsonrpc": "2.0", "id": question, "result": {"roots": [{"uri": "file:///a"}]}},
                notification("notifications/cancelled", requestId="held"),
                call("a", "add", a=1, b=2),
                request("p", "ping"),
            ],
        )
        assert answer.status == 200
        assert {message["id"] for message in answer.messages} == {"a", "p"}
        await asking.done()
        assert asking.messages[-1]["result"]["content"][0]["text"] == "1"
        await eventually(lambda: "gate at 0 is cancelled" in desk.trail)
        await held.done()


@in_virtual_time
async def test_a_batch_without_requests_is_accepted():
    desk = Desk()
    async with serve_shared(desk.make, 2) as crew:
        client = await crew.open("2025-03-26", roots={})
        asking, question = await begin_asking(client, 0, "asking", "ask_roots")
        answer = await client.post(
            1,
            [
                {"jsonrpc": "2.0", "id": question, "result": {"roots": []}},
                notification("notifications/roots/list_changed"),
            ],
        )
        assert (answer.status, answer.body) == (202, b"")
        await asking.done()


@in_virtual_time
async def test_a_batch_that_changes_the_session_is_saved_before_its_answers():
    async with serve_shared(Desk().make, 2) as crew:
        client = await crew.open("2025-03-26")
        await client.call(1, "add", a=1, b=1)
        answer = await client.post(0, [call(1, "count"), call(2, "count"), request(3, "ping")])
        assert sorted(message["id"] for message in answer.messages) == [1, 2, 3]
        assert await client.call(1, "count") == "3"


# -- nothing is left


@in_virtual_time
async def test_nothing_is_left_of_sessions_that_have_ended():
    desk = Desk()
    tasks = asyncio.all_tasks()
    async with serve_shared(desk.make, 3, retention=20.0, session_idle=60.0) as crew:
        await asyncio.sleep(1)
        at_rest = len(asyncio.all_tasks())
        before = await crew.store.backend.describe()
        followed = [len(app.backend.followed) for app in crew]
        for number in range(5):
            client = await crew.open("2025-11-25", at=number % 3, elicitation={})
            await client.call(1, "count")
            await client.call(2, "count")
            listening = await client.listen(number % 3)
            await client.post(0, call("s", "steps", token="t", n=3))
            asking, question = await begin_asking(client, 1, "asking")
            await client.post(2, accept(question))
            await asking.done()
            await client.call(2, "change")
            await eventually(lambda listening=listening: listening.messages)
            assert (await client.delete((number + 1) % 3)).status == 204
            await client.leave()
        assert not any(len(app.sessions) for app in crew)
        # The marks of ended sessions, and what can be resumed for a while, expire.
        await asyncio.sleep(200)
        after = await crew.store.backend.describe()
        assert after["records"] == before["records"]
        assert after["index_members"] == before["index_members"]
        # Those of messages to one worker and to all, which are the workers', not the sessions'.
        assert after["logs"] <= len(crew) + 1
        assert [len(app.backend.followed) for app in crew] == followed
        for app in crew:
            sessions = app.app.sessions
            assert not sessions.writers
            assert not sessions._by_sid
            assert not sessions._fresh
            assert not sessions._resumed
            assert not sessions._tasks
            assert not app.app.state.readers
            assert app.app.state.listening == 0
            assert app.app.under_way == 0
        assert len(asyncio.all_tasks()) == at_rest
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == tasks


def test_members_of_records_keep_their_names():
    """Workers of two versions share records: a member may be added, not renamed."""
    assert set(SessionRecord.__struct_fields__) >= {
        "needs",
        "created",
        "revision",
        "capabilities",
        "client",
        "principal",
        "is_older_form",
        "is_initialized",
        "is_ended",
        "log_level",
        "subscriptions",
        "state",
        "visibility",
        "holders",
        "listeners",
        "outbox",
        "broadcasts",
    }
