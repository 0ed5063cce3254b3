"""The rows of the log: what they say, what belongs together, and what they keep or break."""

import pytest

from accord.client.server_spec import ServerSpec
from accord.trace import HttpFacts
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.log.logged_conversation import current_call
from accord_tools.inspector.log.message_log import InspectedLog
from inspector.logged import answer, ask, call, make_session, message, opened, rows_of
from support.running import on_a_loop


@on_a_loop
async def test_a_request_and_its_answer_are_a_pair_with_the_time_between():
    session = make_session()
    conversation = opened(session)
    conversation.observe("client", call())
    conversation.observe("server", answer())

    asked, came = (await rows_of(session))[3:]

    assert (asked["kind"], asked["method"], asked["brief"], asked["pair"]) == (
        "request",
        "tools/call",
        "add",
        5,
    )
    assert (came["kind"], came["method"], came["brief"], came["pair"]) == (
        "result",
        "tools/call",
        "3",
        4,
    )
    assert asked["took"] == came["took"] is not None


@on_a_loop
async def test_the_opening_is_row_one_and_is_judged_when_its_revision_is_known():
    session = make_session()
    opened(session)

    rows = await rows_of(session)

    assert [row["n"] for row in rows] == [1, 2, 3]
    assert rows[0]["method"] == "initialize"
    assert rows[0]["brief"] == "2025-06-18, client a client 1"
    assert rows[1]["brief"] == "2025-06-18, server a server 2"
    assert all(row["kept"] for row in rows)


@on_a_loop
async def test_a_late_verdict_belongs_to_the_row_of_its_message():
    session = make_session()
    conversation = session.part(InspectedLog).conversation("main")
    conversation.observe("client", message(id=1, method="tools/list"))

    assert (await rows_of(session, severity=True)) == []

    conversation.close()

    assert [row["n"] for row in await rows_of(session, severity=True)] == [1]
    detail = await ask(session, "log.detail", n=1)
    assert "lifecycle.initialize.first" in [each["requirement"] for each in detail["breaches"]]


@on_a_loop
async def test_a_breach_names_clause_place_mend_and_the_other_rows_that_break_it():
    session = make_session()
    conversation = opened(session)
    for id in (1, 2):
        conversation.observe("client", call(id))
        conversation.observe("server", message(id=id, result={"content": [{"type": "text"}]}))

    detail = await ask(session, "log.detail", n=5)
    (breach,) = detail["breaches"]

    assert breach["severity"] == "fail"
    assert breach["place"].startswith("/result/content/0")
    assert breach["clause"]
    assert breach["mend"]
    assert breach["party"] == "server"
    assert breach["others"] == [7]
    assert breach["requirement"] not in [each["requirement"] for each in detail["kept"]]
    broken = await rows_of(session, requirement=breach["requirement"])
    assert [row["n"] for row in broken] == [5, 7]


@on_a_loop
async def test_kept_clauses_have_their_text_and_party():
    session = make_session()
    opened(session).observe("client", call())

    detail = await ask(session, "log.detail", n=4)

    by_id = {each["requirement"]: each for each in detail["kept"]}
    assert by_id["jsonrpc.request.id-unique"]["level"] == "MUST"
    assert by_id["jsonrpc.request.id-unique"]["clause"]
    assert detail["row"]["kept"] == len(by_id)


@on_a_loop
async def test_rows_of_a_call_are_tied_by_id_and_progress_token():
    session = make_session()
    conversation = opened(session)
    token = current_call.set("call-7")
    conversation.observe("client", call(1, _meta={"progressToken": "p"}))
    current_call.reset(token)
    conversation.observe("client", call(2))
    progress = {"progressToken": "p", "progress": 1, "total": 4, "message": "on the way"}
    conversation.observe("server", message(method="notifications/progress", params=progress))
    conversation.observe("server", answer(2))
    conversation.observe("server", answer(1))

    rows = await rows_of(session, call="call-7")

    assert [row["n"] for row in rows] == [4, 6, 8]
    assert rows[1]["brief"] == "1 of 4: on the way"
    assert (await ask(session, "log.detail", n=6))["related"] == [4, 6, 8]
    assert [row["n"] for row in await rows_of(session, related=5)] == [5, 7]
    assert session.part(InspectedLog).rows_of_call("call-7", 10) == [4, 6, 8]


@on_a_loop
async def test_a_cancellation_belongs_to_its_request():
    session = make_session()
    conversation = opened(session)
    conversation.observe("client", call(1))
    params = {"requestId": 1, "reason": "too slow"}
    conversation.observe("client", message(method="notifications/cancelled", params=params))

    rows = await rows_of(session, related=4)

    assert [row["n"] for row in rows] == [4, 5]
    assert rows[1]["brief"] == "request 1: too slow"
    assert conversation.unanswered_count == 0
    conversation.observe("server", answer(1))
    assert [row["pair"] for row in await rows_of(session, related=4)] == [6, None, 4]


@on_a_loop
async def test_a_question_of_the_server_on_the_stream_of_a_call_belongs_to_the_call():
    session = make_session()
    conversation = opened(session, "http")
    posted = HttpFacts(method="POST", exchange="post-9", path="/mcp")
    token = current_call.set("call-1")
    conversation.observe("client", call(1), http=posted)
    current_call.reset(token)
    event = HttpFacts(method="POST", status=200, exchange="post-9", event="message")
    asked = {"messages": [], "maxTokens": 5}
    question = message(id="q", method="sampling/createMessage", params=asked)
    conversation.observe("server", question, http=event)
    said = message(id="q", error={"code": -1, "message": "declined by the user"})
    conversation.observe("client", said, http=HttpFacts(method="POST", exchange="post-10"))
    accepted = HttpFacts(method="POST", status=202, exchange="post-10", size=0)
    conversation.observe("server", None, http=accepted)

    rows = await rows_of(session, call="call-1")

    assert [row["n"] for row in rows] == [4, 5, 6, 7]
    assert rows[2]["brief"] == "-1 declined by the user"
    assert (rows[3]["kind"], rows[3]["status"]) == ("http", 202)


@on_a_loop
async def test_batches_malformed_text_and_stderr_have_rows():
    session = make_session()
    conversation = opened(session)
    both = b"[%s,%s]" % (call(1), message(method="notifications/x"))
    conversation.observe("client", both)
    conversation.observe("server", b"Listening on port 80\n")
    session.part(InspectedLog).add_stderr("Traceback: something broke")

    rows = (await rows_of(session))[3:]

    assert [row["kind"] for row in rows] == ["batch", "text", "stderr"]
    assert rows[0]["brief"] == "2 messages: tools/call, notifications/x"
    assert rows[1]["severity"] == "fail"
    assert rows[2]["from"] == "stderr"
    shown = await rows_of(session, with_stderr=False)
    assert [row["kind"] for row in shown][3:] == ["batch", "text"]
    assert (await ask(session, "log.detail", n=5))["text"] == "Listening on port 80\n"


@on_a_loop
async def test_each_conversation_is_judged_on_its_own():
    session = make_session()
    opened(session).observe("client", call(1))
    opened(session, name="raw-1").observe("client", call(1))

    rows = await rows_of(session)

    assert [row["conversation"] for row in rows] == ["main"] * 4 + ["raw-1"] * 4
    assert (await rows_of(session, severity=True)) == []
    assert [row["n"] for row in await rows_of(session, conversation="raw-1")] == [5, 6, 7, 8]


@on_a_loop
async def test_a_new_connection_may_use_the_same_ids_again():
    session = make_session()
    opened(session).observe("client", call(1))
    opened(session).observe("client", call(1))

    assert (await ask(session, "log.summary"))["counters"]["fail"] == 0


@on_a_loop
async def test_secrets_are_masked_until_they_are_asked_for():
    session = make_session()
    conversation = opened(session, "http")
    http = HttpFacts(method="POST", headers={"authorization": "Bearer abc123def456ghi"})
    conversation.observe("client", call(1, arguments={"password": "hunter2"}), http=http)

    hidden = await ask(session, "log.detail", n=4)
    shown = await ask(session, "log.detail", n=4, reveal=True)

    assert hidden["is_masked"]
    assert not shown["is_masked"]
    assert "hunter2" not in hidden["text"]
    assert "hunter2" in shown["text"]
    assert ["authorization", "Bearer abc123def456ghi"] in shown["http"]["lines"]
    assert "abc123" not in str(hidden)
    assert (await rows_of(session, text="hunter2")) == []


@on_a_loop
async def test_secrets_stay_masked_if_the_inspector_was_started_so():
    session = make_session(shows_secrets=False)
    opened(session).observe("client", call(1, arguments={"password": "hunter2"}))

    with pytest.raises(ActionRefused, match="secrets are not shown"):
        await ask(session, "log.detail", n=4, reveal=True)

    entry = session.part(InspectedLog).get(4)
    assert entry is not None
    assert entry.original is None
    assert b"hunter2" not in entry.body


@on_a_loop
async def test_texts_of_breaches_have_no_secrets():
    session = make_session()
    conversation = opened(session)
    token = "ghp_" + "a1B2" * 9
    conversation.observe("client", message(id=1, method="tools/call", params={"name": token}))
    conversation.observe("client", message(id=1, method=token, params={"apiKey": token}))

    for number in (4, 5):
        detail = await ask(session, "log.detail", n=number)
        assert token not in str(detail)
    assert (await ask(session, "log.summary"))["breaches"]
    assert token not in str(await ask(session, "log.summary"))


@on_a_loop
async def test_credentials_of_the_user_are_masked_wherever_a_server_repeats_them():
    target = ServerSpec(name="it", command=["srv"], env={"WEATHER_API_KEY": 'ope"nsesame'})
    session = make_session(target=target)
    log = session.part(InspectedLog)
    log.add_stderr('starting with ope"nsesame')
    conversation = opened(session)
    conversation.observe("client", call(1))
    conversation.observe("server", answer(1, 'I am ope"nsesame'))
    conversation.observe("server", b'key: ope"nsesame')
    log.add_stderr('again ope"nsesame')

    for number in range(1, log.next_number):
        assert "nsesame" not in str(await ask(session, "log.detail", n=number))
    assert "nsesame" in (await ask(session, "log.detail", n=6, reveal=True))["text"]
    assert "nsesame" not in str(await rows_of(session))


@on_a_loop
async def test_a_huge_message_is_cut_in_the_details():
    session = make_session()
    conversation = opened(session)
    conversation.observe("client", call(1))
    conversation.observe("server", answer(1, "x" * 3_000_000))

    detail = await ask(session, "log.detail", n=5)

    assert detail["is_cut"]
    assert len(detail["text"]) == 2 * 1024 * 1024
    assert detail["row"]["size"] > 3_000_000


@on_a_loop
async def test_a_deeply_nested_message_does_not_end_the_log():
    session = make_session()
    conversation = opened(session)
    deep = b"[" * 800 + b'"password"' + b"]" * 800
    conversation.observe("server", b'{"jsonrpc":"2.0","id":9,"result":{"x":%s}}' % deep)
    conversation.observe("client", call(1))

    assert [row["n"] for row in await rows_of(session)] == [1, 2, 3, 4, 5]


@on_a_loop
async def test_a_row_that_does_not_exist_is_refused():
    session = make_session()
    opened(session)

    with pytest.raises(ActionRefused, match="row 9 does not exist"):
        await ask(session, "log.detail", n=9)


@on_a_loop
async def test_a_cleared_log_goes_on_with_the_next_number():
    session = make_session()
    conversation = opened(session)
    conversation.observe("server", b"not JSON")

    await ask(session, "log.clear")
    conversation.observe("client", call(1))
    answered = await ask(session, "log.rows", start=0, count=10)

    assert [row["n"] for row in answered["rows"]] == [5]
    assert answered["first_kept"] == 5
    assert answered["counters"]["fail"] == 0
    assert answered["rows"][0]["severity"] is None


@on_a_loop
async def test_a_message_that_http_refuses_shows_its_answer():
    session = make_session()
    talk = session.part(InspectedLog).conversation("main", "http")
    talk.observe("client", call(), http=HttpFacts(method="POST", exchange="post-1"))
    refused = HttpFacts(method="POST", status=401, exchange="post-1")
    talk.observe("server", None, http=refused)
    talk.observe("client", None, http=HttpFacts(method="GET", exchange="get-2"))
    talk.observe("server", None, http=HttpFacts(method="GET", status=405, exchange="get-2"))
    rows = await rows_of(session, with_http=False)
    assert [(row["kind"], row["status"]) for row in rows] == [("request", None), ("refusal", 401)]
    assert (await ask(session, "log.summary"))["counters"]["messages"] == 1
    assert [row["n"] for row in await rows_of(session, related=1)] == [1, 2]


@on_a_loop
async def test_rows_are_found_by_method_and_kind_at_once_and_counted_within_bounds():
    session = make_session()
    talk = opened(session)
    talk.observe("client", call(1))
    talk.observe("server", answer(1))
    talk.observe("client", message(method="notifications/cancelled", params={"requestId": 1}))
    rows = await rows_of(session, method="tools/call", kinds=["request"])
    assert [row["method"] for row in rows] == ["tools/call"]
    assert await rows_of(session, method="tools/call", kinds=["notification"]) == []
    with pytest.raises(ActionRefused, match="count is -1, expected 0 to") as refused:
        await rows_of(session, count=-1)
    assert refused.value.field == "count"


@on_a_loop
async def test_many_filters_in_turn_find_what_the_first_one_finds():
    session = make_session()
    talk = opened(session)
    for id in range(1, 41):
        talk.observe("client", call(id, name=f"tool-{id:02}"))
    for id in (*range(1, 41), 1):
        (row,) = await rows_of(session, text=f"tool-{id:02}")
        assert row["id"] == str(id)
