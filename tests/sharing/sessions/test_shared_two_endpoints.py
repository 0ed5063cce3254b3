"""The older form with several workers: the stream on one of them, messages to any."""

import asyncio
import json

import pytest

from accord import Context, Principal
from accord.http.rules.sse import Decoder
from accord.sharing.workers import names
from support.http_talk import call, initialize, notification, request
from support.shared import Answer, Client, Crew, eventually, in_virtual_time, serve_shared
from support.shared_tools import Desk

REVISION = "2024-11-05"


class OlderClient:
    """A client of the older form.

    Attributes:
        stream: the response with all messages of the server.
        place: where messages are posted.
    """

    def __init__(self, crew: Crew, *, user: str | None = None) -> None:
        self.client: Client = crew.client(REVISION, user=user)
        self.stream: Answer
        self.place = ""

    async def connect(self, at: int) -> "OlderClient":
        self.stream = self.client.start(at, "GET", path="/sse")
        await eventually(lambda: self.stream.sent)
        assert self.stream.status == 200, self.stream.body
        await eventually(lambda: self.events)
        (name, self.place) = self.events[0]
        assert name == "endpoint"
        return self

    async def open(self, at: int, *, elsewhere: int | None = None, **capabilities) -> "OlderClient":
        await self.connect(at)
        at = at if elsewhere is None else elsewhere
        assert (await self.post(at, initialize(REVISION, **capabilities))).status == 202
        await eventually(lambda: self.messages)
        assert (await self.post(at, notification("notifications/initialized"))).status == 202
        return self

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(each.name, each.data.decode()) for each in Decoder().feed(self.stream.body)]

    @property
    def messages(self) -> list:
        return [json.loads(data) for name, data in self.events if name == "message"]

    @property
    def sid(self) -> str:
        self.client.session = self.place.partition("session_id=")[2]
        found = self.client.sid
        self.client.session = None
        return found

    async def post(self, at: int, message) -> Answer:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        answer = self.client.start(at, "POST", body, path=self.place)
        await answer.done()
        return answer

    async def answer(self, at: int, message) -> dict:
        """Send a request, and return its answer from the stream."""
        assert (await self.post(at, message)).status == 202

        def found():
            return next(
                (
                    each
                    for each in self.messages
                    if each.get("id") == message["id"] and "method" not in each
                ),
                None,
            )

        return await eventually(found)


def text_of(message) -> str:
    return message["result"]["content"][0]["text"]


def serving(desk: Desk, count: int = 3, **options):
    return serve_shared(desk.make, count, sse=True, **options)


@in_virtual_time
async def test_a_session_of_the_older_form_works_wherever_messages_are_posted():
    async with serving(Desk()) as crew:
        client = await OlderClient(crew).open(0, elsewhere=1)
        assert client.messages[0]["result"]["protocolVersion"] == REVISION
        for at in (0, 1, 2, 1):
            assert text_of(await client.answer(at, call(f"a{at}", "add", a=at, b=1))) == str(at + 1)
            counted = await client.answer(at, call(f"c{at}.{len(client.messages)}", "count"))
            assert "result" in counted
        assert {each.id for each in Decoder().feed(client.stream.body)} == {None}


@in_virtual_time
async def test_state_is_shared_by_the_workers_of_an_older_session():
    async with serving(Desk()) as crew:
        client = await OlderClient(crew).open(0)
        for number in range(9):
            answer = await client.answer(number % 3, call(number, "count"))
            assert text_of(answer) == str(number + 1)


@in_virtual_time
async def test_messages_of_one_call_arrive_in_order_while_the_session_changes():
    desk = Desk()

    def make():
        server = desk.make()

        @server.tool
        async def busy(ctx: Context) -> str:
            """Change the session between messages."""
            for step in range(1, 8):
                await ctx.progress(step)
                (ctx.session.hide if step % 2 else ctx.session.show)("add")
                if step == 4:
                    ctx.session.state["step"] = step
                if step % 3 == 0:
                    await asyncio.sleep(0)
            return "busy"

        return server

    async with serve_shared(make, 2, sse=True) as crew:
        client = await OlderClient(crew).open(0)
        for at in (0, 1):
            message = call(f"b{at}", "busy", token=f"t{at}")
            await client.answer(at, message)
            await asyncio.sleep(0.5)
            own = [
                each.get("params", {}).get("progress") or each.get("id")
                for each in client.messages
                if each.get("id") == f"b{at}"
                or each.get("params", {}).get("progressToken") == f"t{at}"
            ]
            assert own == [1, 2, 3, 4, 5, 6, 7, f"b{at}"]


@in_virtual_time
async def test_questions_of_any_worker_are_answered_at_any_worker():
    async with serving(Desk()) as crew:
        client = await OlderClient(crew).open(0, roots={})
        for asked, answered in ((0, 1), (1, 2), (2, 0), (1, 1)):
            id = f"{asked}.{answered}"
            assert (await client.post(asked, call(id, "ask_roots"))).status == 202

            def question():
                last = client.messages[-1]
                return last if last.get("method") == "roots/list" else None

            found = await eventually(question)
            reply = {"jsonrpc": "2.0", "id": found["id"], "result": {"roots": []}}
            assert (await client.post(answered, reply)).status == 202
            assert (await client.post(answered, reply)).status == 400
            await eventually(lambda: client.messages[-1].get("method") is None)
            assert client.messages[-1]["id"] == id
            assert text_of(client.messages[-1]) == "0"


@in_virtual_time
async def test_calls_are_cancelled_from_any_worker():
    desk = Desk()
    async with serving(desk) as crew:
        client = await OlderClient(crew).open(0)
        for at in (0, 1, 2):
            await client.post(1, call(at, "wait", name=f"gate{at}"))
            await eventually(lambda at=at: f"gate{at} at 1 waits" in desk.trail)
            gone = notification("notifications/cancelled", requestId=at)
            assert (await client.post(at, gone)).status == 202
            await eventually(lambda at=at: f"gate{at} at 1 is cancelled" in desk.trail)
        await asyncio.sleep(1)
        assert all(each.get("id") not in (0, 1, 2) for each in client.messages)


@in_virtual_time
async def test_changes_and_updates_are_heard():
    async with serving(Desk()) as crew:
        client = await OlderClient(crew).open(0)
        await client.answer(1, request("s", "resources/subscribe", uri="note://a"))
        await client.answer(2, call("t", "touch", uri="note://a"))
        await client.answer(2, call("c", "change"))
        await eventually(lambda: sum("method" in each for each in client.messages) == 2)
        methods = [each["method"] for each in client.messages if "method" in each]
        assert sorted(methods) == [
            "notifications/resources/updated",
            "notifications/tools/list_changed",
        ]


@in_virtual_time
async def test_a_request_that_cannot_be_read_is_answered_on_the_stream():
    async with serving(Desk()) as crew:
        client = await OlderClient(crew).open(0)
        answer = await client.answer(1, request(5, "tools/call", name=7))
        assert answer["error"]["code"] == -32602
        refused = await client.post(1, b"{")
        assert refused.status == 400


# -- ends


@in_virtual_time
async def test_a_session_of_the_older_form_ends_with_its_stream_on_all_workers():
    desk = Desk()
    async with serving(desk) as crew:
        client = await OlderClient(crew).open(0)
        await client.post(1, call(1, "wait", name="gate"))
        await eventually(lambda: desk.trail)
        client.stream.disconnect()
        await eventually(lambda: "gate at 1 is cancelled" in desk.trail)
        await asyncio.sleep(0.5)
        for at in range(3):
            assert (await client.post(at, call(2, "add", a=1, b=1))).status == 404
        assert not any(len(app.sessions) for app in crew)
        for app in crew:
            assert await crew.store.backend.members(names.recovery_records_of(app.worker.id)) == []
        assert await crew.store.backend.count(names.SESSIONS) == 0


@in_virtual_time
async def test_a_session_of_the_older_form_ends_when_the_worker_with_its_stream_is_killed():
    desk = Desk()
    async with serving(desk) as crew:
        client = await OlderClient(crew).open(0)
        await client.post(1, call(1, "wait", name="gate"))
        await eventually(lambda: desk.trail)
        crew[0].kill()
        await eventually(lambda: "gate at 1 is cancelled" in desk.trail, seconds=5)
        for at in (1, 2):
            assert (await client.post(at, call(2, "add", a=1, b=1))).status == 404
        again = await OlderClient(crew).open(1)
        assert text_of(await again.answer(2, call(1, "add", a=1, b=1))) == "2"


@in_virtual_time
async def test_a_call_of_a_killed_worker_without_the_stream_is_lost_alone():
    desk = Desk()
    async with serving(desk) as crew:
        client = await OlderClient(crew).open(0)
        await client.post(1, call(1, "wait", name="gate"))
        await eventually(lambda: desk.trail)
        crew[1].kill()
        await asyncio.sleep(5)
        assert text_of(await client.answer(2, call(2, "add", a=1, b=1))) == "2"


@in_virtual_time
async def test_a_stream_ends_when_its_session_is_lost_with_the_data_of_the_store():
    async with serving(Desk(), 2) as crew:
        client = await OlderClient(crew).open(0)
        crew.store.lose_data()
        await eventually(lambda: client.stream.is_over, seconds=10)
        assert (await client.post(1, call(1, "add", a=1, b=1))).status == 404
        again = await OlderClient(crew).open(1)
        assert text_of(await again.answer(0, call(1, "add", a=1, b=1))) == "2"


@in_virtual_time
async def test_a_client_that_leaves_while_the_store_is_away_is_forgotten_later():
    desk = Desk()
    async with serving(desk) as crew:
        client = await OlderClient(crew).open(0)
        await client.post(1, call(1, "wait", name="gate"))
        await eventually(lambda: desk.trail)
        crew[0].backend.cut()
        client.stream.disconnect()
        await asyncio.sleep(0.5)
        crew[0].backend.mend()
        await eventually(lambda: "gate at 1 is cancelled" in desk.trail, seconds=10)
        await asyncio.sleep(3)
        assert (await client.post(2, call(2, "add", a=1, b=1))).status == 404
        for app in crew:
            assert await crew.store.backend.members(names.recovery_records_of(app.worker.id)) == []


@pytest.mark.parametrize("turns", range(0, 60, 3))
@in_virtual_time
async def test_a_client_that_leaves_while_it_connects_leaves_nothing(turns):
    async with serving(Desk(), 2) as crew:
        client = crew.client(REVISION)
        answer = client.start(0, "GET", path="/sse")
        for _ in range(turns):
            await asyncio.sleep(0)
        if turns % 2:
            answer.task.cancel()
        answer.disconnect()
        await asyncio.wait((answer.task,))
        await asyncio.sleep(2)
        assert len(crew[0].sessions) == 0
        assert await crew.store.backend.members(names.recovery_records_of(crew[0].worker.id)) == []
        assert await crew.store.backend.count(names.SESSIONS) == 0
        assert crew[0].app.state.listening == 0


@pytest.mark.parametrize("operation", ["put", "add", "count"])
@in_virtual_time
async def test_a_store_that_fails_while_a_client_connects_leaves_nothing(operation):
    async with serving(Desk(), 2) as crew:
        for skipped in range(6):
            crew[0].backend.faults.clear()
            if skipped:
                crew[0].backend.fail(operation, "", times=skipped, seconds=0.0)
            crew[0].backend.fail(operation, "")
            client = crew.client(REVISION)
            answer = client.start(0, "GET", path="/sse")
            await eventually(lambda answer=answer: answer.sent)
            if answer.status == 200:
                answer.disconnect()
            else:
                assert answer.status == 503
                assert answer.headers["retry-after"]
            await answer.done()
            await asyncio.sleep(5)
            assert len(crew[0].sessions) == 0
            assert (
                await crew.store.backend.members(names.recovery_records_of(crew[0].worker.id)) == []
            )


@in_virtual_time
async def test_a_draining_worker_keeps_the_stream_until_its_calls_have_ended():
    desk = Desk()
    async with serving(desk, grace=20.0) as crew:
        client = await OlderClient(crew).open(0)
        await client.post(0, call(1, "wait", name="gate"))
        await eventually(lambda: desk.trail)
        stopping = asyncio.create_task(crew[0].stop())
        await asyncio.sleep(2)
        assert not client.stream.is_over
        desk.gates["gate"].set()
        await eventually(lambda: client.stream.is_over)
        assert text_of(client.messages[-1]) == "gate"
        await stopping


# -- callers and the other form


def by_header(scope):
    user = dict(scope["headers"]).get(b"x-user")
    return None if user is None else Principal(user.decode())


@in_virtual_time
async def test_messages_of_another_caller_are_refused():
    async with serving(Desk(), principal=by_header) as crew:
        client = await OlderClient(crew, user="ada").open(0)
        thief = OlderClient(crew, user="eve")
        thief.place = client.place
        for at in range(3):
            assert (await thief.post(at, call(1, "add", a=1, b=1))).status == 404
        assert text_of(await client.answer(2, call(1, "add", a=1, b=1))) == "2"


@in_virtual_time
async def test_a_query_is_read_up_to_its_limit():
    async with serving(Desk()) as crew:
        client = await OlderClient(crew).open(0)
        place = client.place
        for size, status in ((3_000, 202), (4_100, 404)):
            client.place = place.replace("?", f"?way={'x' * size}&")
            assert (await client.post(1, request(7, "ping"))).status == status


@in_virtual_time
async def test_sessions_of_one_form_are_not_those_of_the_other():
    async with serving(Desk()) as crew:
        older = await OlderClient(crew).open(0)
        newer = await crew.open("2025-06-18")
        wrong = OlderClient(crew)
        wrong.place = f"/messages?session_id={newer.session}"
        for at in range(3):
            assert (await wrong.post(at, call(1, "add", a=1, b=1))).status == 404
        for place in ("/messages", "/messages?session_id=x", f"{older.place}A"):
            wrong.place = place
            assert (await wrong.post(1, call(1, "add", a=1, b=1))).status == 404


@in_virtual_time
async def test_sessions_of_both_forms_share_the_limit():
    async with serving(Desk(), sessions=2) as crew:
        await OlderClient(crew).open(0)
        await crew.open("2025-06-18", at=1)
        refused = crew.client(REVISION).start(2, "GET", path="/sse")
        await refused.done()
        assert refused.status == 503
        assert refused.reason == "2 sessions are open (sessions)"


@in_virtual_time
async def test_a_client_that_does_not_read_its_answers_loses_its_session():
    desk = Desk()
    async with serving(desk, 2, stream_entries=20) as crew:
        client = await OlderClient(crew).open(0)
        crew[0].backend.stall()
        for number in range(60):
            await client.post(1, call(number, "add", a=1, b=1))
        crew[0].backend.move_on()
        await eventually(lambda: client.stream.is_over, seconds=10)
        answered = [each["id"] for each in client.messages if each.get("id") != "open"]
        assert answered == sorted(answered)


@in_virtual_time
async def test_a_record_of_the_older_form_says_so():
    async with serving(Desk()) as crew:
        client = await OlderClient(crew).open(0)
        stored = await crew.store.backend.get(names.session_of(client.sid))
        assert b"is_older_form" in stored.value
