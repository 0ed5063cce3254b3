"""Several workers of one authorization server: whichever gets the next request, it works."""

import jwt
import pytest

from accord.auth.authorization_server.models import DEVICE_CODE
from accord.auth.authorization_server.secrets import digest
from support.auth_workers import KINDS, AuthWorkers, running_workers
from support.oauth import FORM, claims_of
from support.waiting import until_sync

# Longer than the second after which every worker knows of a revocation.
SOON = 20.0


@pytest.fixture(scope="module", params=KINDS)
def workers(request, tmp_path_factory):
    with running_workers(request.param, tmp_path_factory.mktemp("auth")) as found:
        yield found


def test_every_request_of_a_flow_may_reach_another_worker(workers: AuthWorkers):
    desk = workers.desk()
    client = desk.client()
    page = desk.authorize(client)
    assert 'name="password"' in page.text
    page = desk.follow(desk.submit(page, name="ada", password="lovelace"))
    code = desk.submit(page, decision="allow").returned["code"]
    tokens = desk.redeem(client, code).json
    assert [each.verify(tokens["access_token"]) for each in workers.workers] == ["ada"] * len(
        workers.workers
    )
    for _ in range(4):
        answer = desk.refresh(client, tokens["refresh_token"])
        assert answer.status == 200, answer.text
        tokens = answer.json
    assert desk.post("/revoke", client_id=client, token=tokens["refresh_token"]).status == 200
    assert desk.refresh(client, tokens["refresh_token"]).error == "invalid_grant"


def test_a_client_secret_is_known_to_every_worker(workers):
    desk = workers.desk()
    given = desk.register(token_endpoint_auth_method="client_secret_post").json
    code = desk.code(given["client_id"])
    secret = {"client_secret": given["client_secret"]}
    assert desk.redeem(given["client_id"], code, client_secret="wrong").status == 401
    assert desk.redeem(given["client_id"], code, **secret).status == 200


def test_a_login_holds_at_every_worker_until_the_user_leaves(workers):
    desk = workers.desk()
    client = desk.client()
    desk.consent(client)
    for _ in range(3):
        page = desk.authorize(client)
        assert "<strong>ada</strong>" in page.text
    desk.submit(page, step="leave")
    for _ in range(3):
        assert 'name="password"' in desk.authorize(client).text


def test_of_several_that_redeem_a_code_at_once_at_most_one_succeeds(workers):
    desk = workers.desk()
    client = desk.client()
    code = desk.code(client)
    answers = workers.at_once(lambda other: other.redeem(client, code))
    won = [each.json for each in answers if each.status == 200]
    assert len(won) <= 1
    assert {each.error for each in answers if each.status != 200} == {"invalid_grant"}
    # It was stolen: the tokens of the fastest are worth nothing.
    for tokens in won:
        assert desk.refresh(client, tokens["refresh_token"]).error == "invalid_grant"
        for worker in workers.workers:
            _until_refused(worker, tokens["access_token"])


def test_a_code_used_again_at_another_worker_revokes_its_tokens(workers):
    desk = workers.desk()
    client = desk.client()
    code = desk.code(client)
    tokens = desk.redeem(client, code).json
    assert desk.redeem(client, code).error == "invalid_grant"
    assert desk.refresh(client, tokens["refresh_token"]).error == "invalid_grant"
    for worker in workers.workers:
        _until_refused(worker, tokens["access_token"])


def test_of_several_that_refresh_at_once_at_most_one_succeeds_and_the_family_ends(workers):
    desk = workers.desk()
    client = desk.client()
    tokens = desk.tokens(client)
    answers = workers.at_once(lambda other: other.refresh(client, tokens["refresh_token"]))
    won = [each.json for each in answers if each.status == 200]
    assert len(won) <= 1
    assert {each.error for each in answers if each.status != 200} == {"invalid_grant"}
    for family in [tokens, *won]:
        assert desk.refresh(client, family["refresh_token"]).error == "invalid_grant"
        for worker in workers.workers:
            _until_refused(worker, family["access_token"])


def test_a_request_that_began_earlier_and_ends_later_is_a_second_use(workers):
    desk, slow = workers.desk(), workers.desk()
    client = desk.client()
    token = desk.tokens(client)["refresh_token"]
    slow.now = desk.now - 1
    assert desk.refresh(client, token).status == 200
    assert slow.refresh(client, token).error == "invalid_grant"


def test_a_grant_revoked_at_one_worker_is_refused_at_all(workers):
    desk = workers.desk()
    client = desk.client()
    tokens, kept = desk.tokens(client), desk.tokens(client)
    access = tokens["access_token"]
    assert all(each.verify(access) == "ada" for each in workers.workers)
    first = workers.desk(workers.workers[0])
    assert first.post("/revoke", client_id=client, token=access).status == 200
    for worker in workers.workers:
        _until_refused(worker, access)
    assert all(each.verify(kept["access_token"]) == "ada" for each in workers.workers)


def _until_refused(worker, token):
    until_sync(lambda: worker.verify(token) is None, seconds=SOON)


# -- keys


def test_all_workers_publish_and_use_one_key(workers):
    first, *others = (workers.desk(each).send("GET", "/jwks").json for each in workers.workers)
    assert others == [first] * len(others)


def test_workers_that_start_at_once_make_one_key(tmp_path):
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        with running_workers("sqlite processes", folder) as workers:
            documents = workers.at_once(lambda desk: desk.send("GET", "/jwks").json, each=1)
            assert all(each == documents[0] for each in documents)
            assert len(documents[0]["keys"]) == 1


def test_a_new_key_is_used_and_published_by_all_workers_at_once(workers):
    desk = workers.desk()
    client = desk.client()
    old = desk.tokens(client)["access_token"]
    workers.workers[0].rotate_keys()
    desk.now += 1
    for worker in workers.workers:
        new = desk.tokens(client)["access_token"]
        kid = jwt.get_unverified_header(new)["kid"]
        assert kid != jwt.get_unverified_header(old)["kid"]
        published = workers.desk(worker).send("GET", "/jwks").json["keys"]
        assert {kid, jwt.get_unverified_header(old)["kid"]} <= {each["kid"] for each in published}
        for other in workers.workers:
            assert other.verify(new) == other.verify(old) == "ada"


def test_keys_that_are_rotated_at_once_all_stay_valid(workers):
    desk = workers.desk()
    client = desk.client()
    old = desk.tokens(client)["access_token"]
    before = len(desk.send("GET", "/jwks").json["keys"])
    workers.at_once(lambda other: _rotate(workers, other), each=1)
    published = desk.send("GET", "/jwks").json["keys"]
    assert len(published) == before + len(workers.workers)
    assert jwt.get_unverified_header(old)["kid"] in {each["kid"] for each in published}
    assert all(each.verify(old) == "ada" for each in workers.workers)


def _rotate(workers, desk):
    next(each for each in workers.workers if each is desk.endpoints).rotate_keys()


# -- devices


def _device(desk):
    client = desk.client(grant_types=[DEVICE_CODE, "refresh_token"])
    given = desk.post("/device_authorization", client_id=client).json
    return client, given


def _poll(desk, client, given):
    form = {"grant_type": DEVICE_CODE, "device_code": given["device_code"]}
    return desk.token(client_id=client, **form)


def _decide(desk, given, decision):
    query = f"user_code={given['user_code']}"
    page = desk.send("GET", "/device", query=query)
    if 'name="password"' in page.text:
        page = desk.follow(desk.submit(page, name="ada", password="lovelace"))
    return desk.submit(page, decision=decision)


def test_a_device_is_allowed_at_one_worker_and_gets_its_tokens_at_another(workers):
    desk = workers.desk()
    client, given = _device(desk)
    assert _poll(desk, client, given).error == "authorization_pending"
    assert _poll(desk, client, given).error == "slow_down"
    assert "connected" in _decide(desk, given, "allow").text
    tokens = _poll(desk, client, given).json
    assert claims_of(tokens["access_token"])["sub"] == "ada"
    assert _poll(desk, client, given).error == "invalid_grant"
    client, given = _device(desk)
    assert "refused" in _decide(desk, given, "deny").text
    assert _poll(desk, client, given).error == "access_denied"


def test_of_several_polls_of_an_allowed_device_one_gets_tokens(workers):
    desk = workers.desk()
    client, given = _device(desk)
    _decide(desk, given, "allow")
    answers = workers.at_once(lambda other: _poll(other, client, given))
    assert sorted(each.status for each in answers) == [200] + [400] * (len(answers) - 1)


def test_a_decision_is_not_lost_although_the_device_asks_meanwhile(workers):
    desk = workers.desk()
    client, given = _device(desk)
    query = f"user_code={given['user_code']}"
    page = desk.send("GET", "/device", query=query)
    page = desk.follow(desk.submit(page, name="ada", password="lovelace"))
    cookie = desk.cookie

    def ask(other):
        if other.endpoints is not workers.workers[0]:
            return _poll(other, client, given)
        other.cookie = cookie
        return other.submit(page, decision="allow")

    answers = workers.at_once(ask, each=1)
    tokens = [each for each in answers[1:] if each.status == 200]
    tokens += [each for each in [_poll(desk, client, given)] if each.status == 200]
    assert len(tokens) == 1


# -- limits on guessing


def test_wrong_passwords_are_counted_for_all_workers(workers):
    desk = workers.desk()
    page = desk.authorize(desk.client())
    statuses = [desk.submit(page, name="charles", password="wrong").status for _ in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    assert desk.submit(page, name="charles", password="lovelace").status == 429
    elsewhere = workers.desk()
    page = elsewhere.authorize(elsewhere.client())
    assert elsewhere.submit(page, name="charles", password="lovelace").status == 303


def test_many_workers_do_not_check_more_passwords_at_once_than_one(workers):
    desk = workers.desk()
    page = desk.authorize(desk.client())

    def guess(other):
        other.cookie, other.address = desk.cookie, desk.address
        return other.submit(page, name="nemo", password="wrong").status

    statuses = workers.at_once(guess, each=6)
    assert statuses.count(401) == 10
    assert statuses.count(429) == len(statuses) - 10


def test_a_correct_password_begins_anew_at_all_workers(workers):
    desk = workers.desk()
    client = desk.client()
    page = desk.authorize(client)
    for _ in range(9):
        assert desk.submit(page, name="grace", password="wrong").status == 401
    assert desk.submit(page, name="grace", password="lovelace").status == 303
    # A browser that the user has used has attempts of its own, at all workers.
    page = desk.submit(desk.authorize(client), step="leave")
    page = desk.authorize(client)
    statuses = [desk.submit(page, name="grace", password="wrong").status for _ in range(11)]
    assert statuses == [401] * 10 + [429]


def test_failures_at_the_token_endpoint_are_counted_for_all_workers(workers):
    desk = workers.desk()
    client = desk.client()
    tokens = desk.tokens(client)
    for _ in range(30):
        # What succeeds does not count.
        tokens = desk.refresh(client, tokens["refresh_token"]).json
    statuses = [desk.refresh(client, "guess").status for _ in range(62)]
    assert statuses == [400] * 60 + [429] * 2
    assert desk.refresh(client, tokens["refresh_token"]).status == 429


def test_registrations_are_counted_for_all_workers(workers):
    desk = workers.desk()
    assert [desk.register().status for _ in range(61)] == [201] * 60 + [429]


def test_guesses_of_user_codes_are_counted_for_all_workers(workers):
    desk = workers.desk()
    desk.consent(desk.client())

    def guess():
        page = desk.send("GET", "/device")
        return desk.submit(page, user_code="BBBB-BBBB").status

    statuses = [guess() for _ in range(12)]
    assert statuses[-1] == 429
    assert statuses == sorted(statuses)


def test_a_form_of_one_worker_is_accepted_by_another_and_of_a_stranger_by_none(workers):
    desk = workers.desk()
    page = desk.authorize(desk.client())
    body = f"csrf={digest('x')}&step=login&name=ada&password=lovelace".encode()
    query = page.action.partition("?")[2]
    for _ in range(2):
        stale = desk.send("POST", "/authorize", query=query, body=body, content_type=FORM)
        assert stale.status == 403
