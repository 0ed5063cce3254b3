"""The operations of each store: what they promise, also if another process is faster."""

import asyncio
import time
from contextlib import contextmanager

import msgspec
import pytest

from accord.auth.authorization_server.models import (
    AuthorizationCode,
    DeviceRequest,
    RegisteredClient,
    StoredGrant,
    StoredKey,
    StoredSession,
    StoredSignIn,
)
from accord.sharing.backends.memory_backend import MemoryBackend
from support.auth_workers import shared_store
from support.failing_backend import FailingBackend
from support.oauth import file_store

NOW = time.time()
LATER = NOW + 1000
GRANT = StoredGrant(grant_id="g", client_id="c", subject="ada", scopes=("read",), resource="r")
CODE = AuthorizationCode(grant=GRANT, redirect_uri="u", challenge="x", expires_at=LATER)
DEVICE = DeviceRequest(grant=GRANT, user_code="BCDFGHJK", expires_at=LATER, interval=5.0)
SIGN_IN = StoredSignIn(browser="b", provider="fake", expires_at=LATER, body=b"\x00sealed")
SESSION = StoredSession("s", "fake", b"\xffsealed")


def key(id, algorithm="ES256", created_at=NOW):
    return StoredKey(id, algorithm, b"pem", created_at)


def client(id, created_at=NOW):
    return RegisteredClient(client_id=id, created_at=created_at)


class Pair:
    """Two processes that share a store; `race` lets the second one act within the first's."""

    def __init__(self, one, two, race):
        self.one = one
        self.two = two
        self.race = race


@contextmanager
def sqlite_pair(folder):
    one, two = file_store(folder / "auth.db"), file_store(folder / "auth.db")

    def race(act, other):
        # Its transactions exclude each other, so the second process is first.
        faster = other(two)
        return act(one), faster

    yield Pair(one, two, race)
    one.close()
    two.close()


@contextmanager
def shared_pair(folder):
    memory = MemoryBackend()
    failing = FailingBackend(memory)
    with shared_store(failing) as one, shared_store(memory) as two:

        def race(act, other):
            found = []

            async def meanwhile():
                found.append(await asyncio.to_thread(other, two))

            failing.meanwhile = meanwhile
            slower = act(one)
            assert found, "it was not interrupted"
            return slower, found[0]

        yield Pair(one, two, race)


@pytest.fixture(params=[sqlite_pair, shared_pair], ids=["sqlite", "shared"])
def stores(request, tmp_path):
    with request.param(tmp_path) as found:
        yield found


# -- of two processes at once, one succeeds


def test_a_code_is_used_by_one_of_two_processes(stores):
    stores.one.grants.add_code("h", CODE)
    assert stores.two.grants.find_code("h") == CODE
    won = stores.race(
        lambda it: it.grants.use_code("h", NOW), lambda it: it.grants.use_code("h", NOW)
    )
    assert sorted(won) == [False, True]
    assert not stores.two.grants.use_code("h", NOW)
    assert not stores.one.grants.use_code("unknown", NOW)


def test_a_refresh_token_is_used_by_one_of_two_processes(stores):
    stores.one.grants.add_refresh_token("h", "g", LATER)
    won = stores.race(
        lambda it: it.grants.use_refresh_token("h", NOW),
        lambda it: it.grants.use_refresh_token("h", NOW + 1),
    )
    # The first use returns None, the second one when that was.
    assert won == (NOW + 1, None)
    assert stores.two.grants.use_refresh_token("h", NOW + 2) == NOW + 1
    assert stores.one.grants.find_refresh_token("h").used_at == NOW + 1
    assert stores.one.grants.use_refresh_token("unknown", NOW) == 0.0


def test_a_device_is_removed_by_one_of_two_processes(stores):
    stores.one.grants.add_device("h", DEVICE)
    won = stores.race(
        lambda it: it.grants.remove_device("h"), lambda it: it.grants.remove_device("h")
    )
    assert won == (False, True)
    assert stores.one.grants.find_device_of(DEVICE.user_code) is None
    assert stores.one.grants.count_devices() == 0
    # The user code is free for another device.
    assert stores.one.grants.add_device("i", DEVICE)


def test_the_state_of_a_device_that_has_changed_is_not_replaced(stores):
    stores.one.grants.add_device("h", DEVICE)
    allowed = msgspec.structs.replace(DEVICE, state="allowed")
    polled = msgspec.structs.replace(DEVICE, polled_at=NOW)
    won = stores.race(
        lambda it: it.grants.change_device("h", DEVICE, polled),
        lambda it: it.grants.change_device("h", DEVICE, allowed),
    )
    assert won == (False, True)
    assert stores.one.grants.find_device("h") == allowed
    assert not stores.one.grants.change_device("unknown", DEVICE, polled)


def test_a_user_code_is_given_to_one_device(stores):
    won = stores.race(
        lambda it: it.grants.add_device("h", DEVICE), lambda it: it.grants.add_device("i", DEVICE)
    )
    assert won == (False, True)
    assert stores.one.grants.find_device_of(DEVICE.user_code) == "i"


def test_a_sign_in_is_taken_by_one_of_two_processes_and_by_its_browser_alone(stores):
    stores.one.sign_ins.begin("h", SIGN_IN, most=10)
    assert stores.two.sign_ins.take("h", "another") is None
    won = stores.race(lambda it: it.sign_ins.take("h", "b"), lambda it: it.sign_ins.take("h", "b"))
    assert won == (None, SIGN_IN)


def test_a_renewal_is_claimed_by_one_of_two_processes(stores):
    stores.one.sign_ins.add(SESSION, "login l", expires_at=LATER)
    won = stores.race(
        lambda it: it.sign_ins.claim("s", NOW, 30.0), lambda it: it.sign_ins.claim("s", NOW, 30.0)
    )
    assert won == (False, True)
    assert not stores.one.sign_ins.claim("s", NOW + 29, 30.0)
    assert stores.one.sign_ins.claim("s", NOW + 30, 30.0)
    stores.two.sign_ins.release("s")
    assert stores.two.sign_ins.claim("s", NOW, 30.0)
    stores.two.sign_ins.renew("s", b"new")
    assert stores.one.sign_ins.find("s") == StoredSession("s", "fake", b"new")
    assert stores.one.sign_ins.claim("s", NOW, 30.0)
    assert not stores.one.sign_ins.claim("unknown", NOW, 30.0)


def test_of_two_new_keys_one_is_stored(stores):
    won = stores.race(
        lambda it: it.add_key(key("a"), replaces=None),
        lambda it: it.add_key(key("b"), replaces=None),
    )
    assert won == (False, True)
    assert stores.one.add_key(key("c", created_at=NOW + 1), replaces="b")
    assert stores.two.add_key(key("d", algorithm="RS256"), replaces=None)
    assert not stores.two.add_key(key("e"), replaces="b")
    found = {each.key_id: each.retired_at for each in stores.one.signing_keys()}
    assert found == {"c": None, "d": None, "b": NOW + 1}


def test_of_two_new_secrets_one_is_stored(stores):
    won = stores.race(lambda it: it.secret("n", "a"), lambda it: it.secret("n", "b"))
    assert won == ("b", "b")
    assert stores.one.secret("other", "c") == "c"


def test_a_grant_that_is_revoked_meanwhile_is_not_extended(stores):
    stores.one.grants.add(GRANT, now=NOW, expires_at=LATER)
    extended, _ = stores.race(
        lambda it: it.grants.extend(GRANT, now=NOW, expires_at=LATER + 100),
        lambda it: it.grants.revoke("g", NOW, keep_until=LATER),
    )
    assert extended is False
    assert stores.one.grants.find("g") is None
    assert stores.one.grants.read_revoked() == stores.two.grants.read_revoked() == {"g"}


def test_an_attempt_is_counted_although_another_process_counts_one_at_once(stores):
    counters = [each.attempts("x", limit=2, window=60.0) for each in (stores.one, stores.two)]
    won = stores.race(
        lambda _: counters[0].reserve("k", NOW), lambda _: counters[1].reserve("k", NOW)
    )
    assert won == (0.0, 0.0)
    assert [each.reserve("k", NOW + 10) for each in counters] == [50.0, 50.0]


# -- what each of them keeps


def test_attempts_are_counted_released_and_forgotten_for_both_processes(stores):
    one, two = (each.attempts("x", limit=2, window=60.0) for each in (stores.one, stores.two))
    other = stores.one.attempts("y", limit=2, window=60.0)
    assert one.reserve("k", NOW) == two.reserve("k", NOW + 1) == 0.0
    assert one.reserve("k", NOW + 2) == pytest.approx(58.0)
    assert two.wait_for("k", NOW + 2) == pytest.approx(58.0)
    assert other.reserve("k", NOW) == one.reserve("another", NOW) == 0.0
    assert one.wait_for("another", NOW, more=1) == pytest.approx(60.0)
    two.release("k", NOW)
    two.release("k", NOW + 5)
    two.release("unknown", NOW)
    assert one.wait_for("k", NOW + 2) == 0.0
    assert one.reserve("k", NOW + 2) == 0.0
    assert one.reserve("k", NOW + 2) > 0.0
    two.forget("k")
    assert one.reserve("k", NOW + 2) == one.reserve("k", NOW + 3) == 0.0
    # The window slides.
    assert two.reserve("k", NOW + 62) == 0.0


def test_a_session_is_deleted_with_its_last_use(stores):
    stores.one.sign_ins.add(SESSION, "login l", expires_at=LATER)
    assert stores.two.sign_ins.share("login l", "grant g", expires_at=LATER)
    assert not stores.two.sign_ins.share("login unknown", "grant h", expires_at=LATER)
    assert (
        stores.one.sign_ins.find_of("grant g") == stores.one.sign_ins.find_of("login l") == SESSION
    )
    stores.one.grants.remove_login("l")
    assert stores.two.sign_ins.find_of("login l") is None
    assert stores.two.sign_ins.find_of("grant g") == SESSION
    stores.two.grants.revoke("g", NOW, keep_until=LATER)
    assert stores.one.sign_ins.find("s") is None


def test_the_end_of_a_session_logs_its_browsers_out_and_revokes_its_grants(stores):
    stores.one.grants.add(GRANT, now=NOW, expires_at=LATER)
    stores.one.grants.add_login("l", "fake:17", LATER)
    stores.one.sign_ins.add(SESSION, "login l", expires_at=LATER)
    stores.one.sign_ins.share("login l", "grant g", expires_at=LATER)
    assert stores.two.grants.find_login("l", NOW) == "fake:17"
    stores.two.grants.end_session("s", NOW, keep_until=LATER)
    assert (
        stores.one.sign_ins.find("s")
        is stores.one.grants.find_login("l", NOW)
        is stores.one.grants.find("g")
        is None
    )
    assert stores.one.grants.read_revoked() == {"g"}


def test_too_many_sign_ins_crowd_others_out(stores):
    for number in range(120):
        stores.one.sign_ins.begin(f"h{number}", SIGN_IN, most=110)
    left = [stores.two.sign_ins.take(f"h{number}", "b") for number in range(120)]
    assert 0 < sum(each is not None for each in left) <= 110
    assert left[-1] == SIGN_IN


def test_an_expired_login_does_not_count(stores):
    stores.one.grants.add_login("l", "ada", LATER)
    assert stores.two.grants.find_login("l", LATER - 1) == "ada"
    assert stores.two.grants.find_login("l", LATER) is None


def test_a_client_is_updated_only_if_it_is_stored(stores):
    assert not stores.one.clients.update(client("c"))
    stores.one.clients.add(client("c"))
    named = msgspec.structs.replace(client("c"), name="Notes")
    assert stores.two.clients.update(named)
    assert stores.one.clients.find("c") == named
    assert stores.one.clients.count() == 1


def test_the_client_without_a_grant_for_longest_goes_first_and_its_consents_with_it(stores):
    for number, name in enumerate(("a", "b", "c", "d")):
        stores.one.clients.add(client(name, created_at=NOW + number))
    used = msgspec.structs.replace(GRANT, client_id="a")
    stores.one.grants.add(used, now=NOW + 10, expires_at=LATER)
    stores.one.clients.remember_consent(msgspec.structs.replace(GRANT, client_id="b"))
    assert stores.two.clients.consented_scopes("ada", "b", "r") == {"read"}
    assert not stores.one.clients.forget_idle(never_used_before=NOW)
    assert stores.two.clients.forget_idle(never_used_before=NOW + 2)
    assert stores.one.clients.find("b") is None
    assert stores.one.clients.consented_scopes("ada", "b", "r") is None
    for name in ("c", "d"):
        assert stores.one.clients.forget_idle()
        assert stores.two.clients.find(name) is None
    assert not stores.two.clients.forget_idle()
    assert stores.one.clients.find("a") is not None
    assert stores.one.clients.count() == 1


def test_consents_of_one_user_client_and_resource_are_not_those_of_another(stores):
    stores.one.clients.remember_consent(GRANT)
    for subject, client_id, resource in (("bob", "c", "r"), ("ada", "d", "r"), ("ada", "c", "s")):
        assert stores.two.clients.consented_scopes(subject, client_id, resource) is None
    assert stores.two.clients.consented_scopes("ada", "c", "r") == {"read"}


def test_keys_that_were_retired_long_ago_are_swept(stores):
    for number, name in enumerate("abc"):
        before = None if number == 0 else "abc"[number - 1]
        assert stores.one.add_key(key(name, created_at=NOW + number), replaces=before)
    stores.two.sweep(keys_before=NOW + 2)
    assert [each.key_id for each in stores.one.signing_keys()] == ["c", "b"]
