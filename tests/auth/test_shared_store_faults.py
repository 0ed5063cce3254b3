"""A shared store that fails, at any moment: nothing is lost, and nothing is allowed by it."""

import asyncio
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest

from accord.auth.authorization_server import access_tokens
from accord.auth.authorization_server.models import DEVICE_CODE, StoredGrant, StoredSession
from accord.auth.authorization_server.state import store as shared_store
from accord.auth.authorization_server.state.grants import REVOCATIONS
from accord.auth.authorization_server.state.sign_ins import grant_owner, login_owner
from accord.auth.authorization_server.threads import LoopCalls, StoreLoop
from accord.errors import AuthError, StoreError, StoreUnavailable
from accord.sharing.backends.memory_backend import MemoryBackend
from support.auth_workers import AuthWorkers, LocalWorker
from support.auth_workers import shared_store as open_store
from support.failing_backend import FailingBackend
from support.oauth import Desk, claims_of, loop_thread
from support.waiting import LONG, until_sync

# More than any request needs.
STEPS_MOST = 80


class Workers(AuthWorkers):
    """A worker whose store fails, and one whose store works; they share its content."""

    def __init__(self, stack: ExitStack) -> None:
        self.clock = Clock()
        self.memory = MemoryBackend(clock=self.clock)
        self.failing = FailingBackend(self.memory)
        stores = [
            stack.enter_context(open_store(each, clock=self.clock))
            for each in (self.failing, self.memory)
        ]
        super().__init__([LocalWorker(each) for each in stores])
        self.store = stores[1]

    def failing_at_each_step(self):
        """Let the store of the first worker fail after no step, after one, and so on."""
        for steps in range(STEPS_MOST):
            self.failing.left = steps
            yield steps
            if self.failing.left:
                # All was done, and some steps were left: a failure has come at each of them.
                self.failing.left = None
                assert steps > 2
                return
        raise AssertionError("it takes more steps")


class Clock:
    def __init__(self):
        self.ahead = 0.0

    def __call__(self):
        return time.time() + self.ahead


@pytest.fixture
def workers():
    with ExitStack() as stack:
        yield Workers(stack)


def _try(act, *args, **form):
    """Carry out what may fail; return the answer, or None."""
    try:
        return act(*args, **form)
    except StoreUnavailable:
        return None


# -- a process or its store ends in the middle of a request


def test_a_refresh_that_is_interrupted_at_any_step_can_be_repeated(workers):
    failing, working = (workers.desk(each) for each in workers.workers)
    client = working.client()
    token = working.tokens(client)["refresh_token"]
    for _ in workers.failing_at_each_step():
        answer = _try(failing.refresh, client, token)
        if answer is None:
            answer = working.refresh(client, token)
        assert answer.status == 200, answer.text
        token = answer.json["refresh_token"]


def test_a_code_exchange_that_is_interrupted_at_any_step_issues_tokens_at_most_once(workers):
    failing, working = (workers.desk(each) for each in workers.workers)
    client = working.client()
    for _ in workers.failing_at_each_step():
        left, workers.failing.left = workers.failing.left, None
        code = working.code(client)
        workers.failing.left = left
        answers = [_try(failing.redeem, client, code), working.redeem(client, code)]
        won = [each for each in answers if each is not None and each.status == 200]
        assert len(won) <= 1
        if answers[0] is not None:
            assert answers[1].status == 400


def test_a_revocation_that_is_interrupted_at_any_step_can_be_repeated(workers):
    failing, working = (workers.desk(each) for each in workers.workers)
    client = working.client()
    for _ in workers.failing_at_each_step():
        left, workers.failing.left = workers.failing.left, None
        tokens = working.tokens(client)
        workers.failing.left = left
        form = {"client_id": client, "token": tokens["refresh_token"]}
        if _try(failing.post, "/revoke", **form) is None:
            assert working.post("/revoke", **form).status == 200
        assert claims_of(tokens["access_token"])["grant"] in workers.store.grants.read_revoked()
        assert working.refresh(client, tokens["refresh_token"]).error == "invalid_grant"


def test_the_theft_of_a_refresh_token_is_noticed_although_the_store_fails(workers):
    failing, working = (workers.desk(each) for each in workers.workers)
    client = working.client()
    for _ in workers.failing_at_each_step():
        left, workers.failing.left = workers.failing.left, None
        first = working.tokens(client)
        second = working.refresh(client, first["refresh_token"]).json
        workers.failing.left = left
        answer = _try(failing.refresh, client, first["refresh_token"])
        if answer is None:
            answer = working.refresh(client, first["refresh_token"])
        assert answer.error == "invalid_grant"
        assert claims_of(second["access_token"])["grant"] in workers.store.grants.read_revoked()
        assert working.refresh(client, second["refresh_token"]).error == "invalid_grant"


def test_a_decision_about_a_device_that_is_interrupted_can_be_repeated(workers):
    failing, working = (workers.desk(each) for each in workers.workers)
    client = working.client(grant_types=[DEVICE_CODE])
    working.consent(working.client())
    failing.cookie = working.cookie
    for _ in workers.failing_at_each_step():
        left, workers.failing.left = workers.failing.left, None
        working.address = failing.address = f"192.0.2.{left}"
        given = working.post("/device_authorization", client_id=client).json
        page = working.send("GET", "/device", query=f"user_code={given['user_code']}")
        workers.failing.left = left
        if _try(failing.submit, page, decision="allow") is None:
            page = working.send("GET", "/device", query=f"user_code={given['user_code']}")
            working.submit(page, decision="allow")
        form = {"grant_type": DEVICE_CODE, "device_code": given["device_code"]}
        assert working.token(client_id=client, **form).status == 200


def test_a_decision_about_a_device_counts_although_the_device_asks_at_that_moment(workers):
    one, two = (workers.desk(each) for each in workers.workers)
    one.consent(one.client())
    client = one.client(grant_types=[DEVICE_CODE])
    given = one.post("/device_authorization", client_id=client).json
    page = one.send("GET", "/device", query=f"user_code={given['user_code']}")
    form = {"grant_type": DEVICE_CODE, "device_code": given["device_code"]}
    polls = []

    async def poll():
        polls.append(await asyncio.to_thread(two.token, client_id=client, **form))

    workers.failing.meanwhile, workers.failing.at = poll, "auth:device:"
    assert "connected" in one.submit(page, decision="allow").text
    assert [each.error for each in polls] == ["authorization_pending"]
    assert two.token(client_id=client, **form).status == 200


def test_a_device_that_asks_at_the_moment_of_the_decision_gets_its_tokens(workers):
    one, two = (workers.desk(each) for each in workers.workers)
    two.consent(two.client())
    client = two.client(grant_types=[DEVICE_CODE])
    given = two.post("/device_authorization", client_id=client).json
    page = two.send("GET", "/device", query=f"user_code={given['user_code']}")

    async def decide():
        await asyncio.to_thread(two.submit, page, decision="allow")

    workers.failing.meanwhile, workers.failing.at = decide, "auth:device:"
    form = {"grant_type": DEVICE_CODE, "device_code": given["device_code"]}
    assert one.token(client_id=client, **form).status == 200


def test_the_end_of_a_sign_in_that_is_interrupted_can_be_repeated(workers):
    failing, working = (each.store for each in workers.workers)
    for step in workers.failing_at_each_step():
        left, workers.failing.left = workers.failing.left, None
        now, ends = working.now(), working.now() + 100
        session, login, grant = f"s{step}", f"l{step}", f"g{step}"
        working.grants.add_login(login, "fake:17", ends)
        stored = StoredGrant(
            grant_id=grant, client_id="c", subject="fake:17", scopes=(), resource="r"
        )
        working.grants.add(stored, now=now, expires_at=ends)
        working.sign_ins.add(
            StoredSession(session, "fake", b"x"), login_owner(login), expires_at=ends
        )
        assert working.sign_ins.share(login_owner(login), grant_owner(grant), expires_at=ends)
        workers.failing.left = left
        try:
            failing.grants.end_session(session, now, keep_until=ends)
        except StoreUnavailable:
            working.grants.end_session(session, now, keep_until=ends)
        assert working.sign_ins.find(session) is None
        assert working.grants.find_login(login, now) is None
        assert working.grants.find(grant) is None
        assert grant in working.grants.read_revoked()


def test_a_registration_that_is_interrupted_leaves_nothing_that_counts_for_ever(workers):
    failing = workers.desk(workers.workers[0])
    interrupted = sum(_try(failing.register) is None for _ in workers.failing_at_each_step())
    assert interrupted > 2
    store = workers.store
    while store.clients.forget_idle():
        pass
    assert store.clients.count() == 0


# -- a store that does not answer for a while


def test_while_the_store_is_away_known_revocations_count_for_some_seconds(workers, monkeypatch):
    working = workers.desk(workers.workers[1])
    client = working.client()
    kept, revoked, unseen = (working.tokens(client)["access_token"] for _ in range(3))
    working.post("/revoke", client_id=client, token=revoked)
    worker = workers.workers[0]
    assert worker.verify(kept) == "ada"
    assert worker.verify(revoked) is None
    workers.failing.left = 0
    monkeypatch.setattr(access_tokens, "_REREAD", 0.0)
    assert worker.verify(kept) == "ada"
    assert worker.verify(revoked) is None
    # Its signature is verified by a key that is known, too.
    assert worker.verify(unseen) == "ada"
    monkeypatch.setattr(access_tokens, "_STALE_MOST", 0.0)
    with pytest.raises(AuthError, match="does not answer"):
        worker.verify(kept)
    workers.failing.left = None
    assert worker.verify(kept) == "ada"


def test_keys_that_were_read_too_long_ago_do_not_count(workers, monkeypatch):
    token = workers.desk(workers.workers[1]).tokens(workers.desk().client())["access_token"]
    workers.workers[0].endpoints.keys.jwks(time.time())
    workers.failing.left = 0
    monkeypatch.setattr(shared_store, "_STALE_MOST", -1.0)
    with pytest.raises(AuthError, match="does not answer"):
        workers.workers[0].verify(token)


def test_a_grant_that_was_revoked_here_does_not_count_as_valid_while_the_store_is_away(workers):
    desk, worker = workers.desk(workers.workers[0]), workers.workers[0]
    client = desk.client()
    token = desk.tokens(client)["access_token"]
    assert worker.verify(token) == "ada"
    desk.post("/revoke", client_id=client, token=token)
    worker._verifier._revoked.forget()  # as the server does after each POST
    workers.failing.left = 0
    with pytest.raises(AuthError, match="does not answer"):
        worker.verify(token)


def test_many_requests_ask_a_store_that_does_not_answer_once(workers):
    worker = workers.workers[0]
    token = workers.desk(worker).tokens(workers.desk().client())["access_token"]
    assert worker.verify(token) == "ada"
    verifier = worker._verifier

    async def scenario():
        verifier._revoked.forget()
        workers.failing.counts.clear()
        return await asyncio.gather(*(verifier.verify(token) for _ in range(50)))

    assert len(asyncio.run(scenario())) == 50
    assert workers.failing.counts["get"] == 1


def test_a_record_that_cannot_be_read_is_an_error_of_the_store(workers):
    desk = workers.desk()
    client = desk.client()
    (name,) = (each for each in workers.memory._records if each.startswith("auth:client:"))
    loop_thread().run(workers.memory.put(name, b"{", ttl=100.0))
    with pytest.raises(StoreError, match="cannot be read"):
        desk.authorize(client)


def test_fields_that_a_newer_version_adds_are_ignored(workers):
    desk = workers.desk()
    client = desk.client()
    tokens = desk.tokens(client)
    for name, record in list(workers.memory._records.items()):
        value = record.stored.value
        if value.startswith(b"{"):
            newer = b'{"colour":"blue",' + value[1:]
            loop_thread().run(workers.memory.put(name, newer, ttl=100.0))
    assert desk.refresh(client, tokens["refresh_token"]).status == 200
    assert "<strong>ada</strong>" in desk.authorize(client).text


# -- what is kept


def test_everything_expires(workers):
    desk = workers.desk()
    client = desk.client(grant_types=["authorization_code", "refresh_token", DEVICE_CODE])
    tokens = desk.tokens(client)
    desk.refresh(client, tokens["refresh_token"])
    desk.refresh(client, tokens["refresh_token"])
    desk.post("/device_authorization", client_id=client)
    _fill_session(workers.store)
    kept = loop_thread().run(workers.memory.describe())
    assert kept["records"] > 10
    workers.clock.ahead = 2 * 365 * 86_400.0
    kept = loop_thread().run(workers.memory.describe())
    assert (kept["records"], kept["indexes"], kept["index_members"]) == (0, 0, 0)


def _fill_session(store):
    ends = store.now() + 100
    store.sign_ins.add(StoredSession("s", "fake", b"x"), login_owner("l"), expires_at=ends)
    store.clients.remember_consent(
        StoredGrant(grant_id="g", client_id="c", subject="ada", scopes=("read",), resource="r")
    )


def test_nothing_in_the_store_can_be_used_by_a_reader(workers):
    desk = workers.desk()
    given = desk.register(token_endpoint_auth_method="client_secret_post").json
    client = desk.client()
    code = desk.code(client)
    tokens = desk.redeem(client, code).json
    kept = repr([(name, each.stored.value) for name, each in workers.memory._records.items()])
    secrets = (given["client_secret"], code, *tokens.values(), desk.cookie)
    assert [each for each in secrets if len(str(each)) > 20 and str(each) in kept] == []
    assert client in kept


def test_a_sign_in_ends_with_its_last_use_and_no_later(workers):
    store, now = workers.store, workers.store.now()
    session, login, grant = "s", login_owner("l"), grant_owner("g")
    store.sign_ins.add(StoredSession(session, "fake", b"x"), login, expires_at=now + 100)
    store.sign_ins.share(login, grant, expires_at=now + 10_000)
    store.grants.revoke("g", now, keep_until=now + 10)
    assert store.sign_ins.find_of(grant) is None
    assert store.sign_ins.find_of(login) is not None
    workers.clock.ahead = 200.0
    assert store.sign_ins.find(session) is None


def test_a_full_server_does_not_read_all_clients_for_each_that_registers(workers):
    with ExitStack() as stack:
        store = stack.enter_context(open_store(workers.failing, clock=workers.clock))
        worker = LocalWorker(store, clients_most=30)
        desk = workers.desk(worker)
        desk.tokens(desk.client())
        for _ in range(29):
            desk.client()
        workers.failing.counts.clear()
        for _ in range(25):
            desk.client()
        assert store.clients.count() == 30
        # Some for each request, and each client once or twice.
        assert workers.failing.counts["get"] < 250


def test_revocations_are_read_again_only_if_there_are_new_ones(workers):
    store = workers.workers[0].store
    store.grants.read_revoked()
    workers.failing.counts.clear()
    for _ in range(5):
        store.grants.read_revoked()
    assert "members" not in workers.failing.counts
    workers.store.grants.revoke("g", workers.store.now(), keep_until=workers.store.now() + 10)
    assert store.grants.read_revoked() == {"g"}
    # The content of the store is lost, such as by a failover to a late replica.
    loop_thread().run(workers.memory.delete(REVOCATIONS))
    loop_thread().run(workers.memory.remove("auth:revoked", ["g"]))
    assert store.grants.read_revoked() == frozenset()


def test_the_clock_of_the_store_counts_on_every_machine():
    ahead = MemoryBackend(clock=lambda: time.time() + 300.0)
    with open_store(ahead) as store:
        assert abs(store.now() - time.time() - 300.0) < LONG


def test_a_key_of_forms_that_the_store_has_lost_is_read_again(workers):
    client, *_ = (workers.desk(each).client() for each in workers.workers)
    loop_thread().run(workers.memory.delete("auth:secret:forms"))
    with open_store(workers.memory, clock=workers.clock) as store:
        # It starts after the loss, and makes a new key.
        page = (desk := workers.desk(LocalWorker(store))).authorize(client)
        desk.endpoints = workers.workers[0]
        assert desk.submit(page, name="ada", password="lovelace").status == 403
        # The others read it with their first request of the next minute.
        desk.now += 61
        assert desk.submit(page, name="ada", password="lovelace").status == 303


# -- threads and loops


def test_a_call_on_the_loop_of_the_store_is_an_error_and_does_not_wait_for_itself():
    async def scenario():
        calls = LoopCalls(asyncio.get_running_loop())
        with pytest.raises(RuntimeError, match="to_thread"):
            calls.run(MemoryBackend().now())

    asyncio.run(scenario())


def test_a_call_on_a_loop_that_has_ended_reports_the_store_as_unavailable():
    thread = StoreLoop()
    assert thread.run(MemoryBackend(clock=lambda: 5.0).now()) == 5.0
    thread.close()
    with pytest.raises(StoreUnavailable, match="has ended"):
        thread.run(MemoryBackend().now())


def test_a_call_that_its_loop_gives_up_reports_the_store_as_unavailable():
    thread, begun = StoreLoop(), threading.Event()

    async def wait_for_ever():
        begun.set()
        await asyncio.Event().wait()

    found = []

    def call():
        with pytest.raises(StoreUnavailable, match="has ended"):
            thread.run(wait_for_ever())
        found.append(True)

    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    assert begun.wait(LONG)
    thread.close()
    until_sync(lambda: found)
    caller.join(LONG)


@contextmanager
def _patience(monkeypatch, seconds):
    from accord.auth.authorization_server import threads

    monkeypatch.setattr(threads, "_PATIENCE", seconds)
    yield


def test_a_loop_that_does_not_run_is_reported_within_a_time(monkeypatch):
    loop = asyncio.new_event_loop()
    with _patience(monkeypatch, 0.05), pytest.raises(StoreUnavailable, match="did not run"):
        LoopCalls(loop).run(MemoryBackend().now())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_an_error_of_the_coroutine_itself_is_passed_on():
    async def fail():
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        loop_thread().run(fail())


def test_desks_of_two_stores_do_not_see_each_other():
    one, two = Desk(), Desk()
    assert "not registered" in two.authorize(one.client()).text
