"""Devices without a browser: a person enters a code elsewhere."""

import re

import pytest

from support.oauth import ADA, RESOURCE, Desk, claims_of

KIND = "urn:ietf:params:oauth:grant-type:device_code"


class Television:
    """A device that waits."""

    def __init__(self, desk: Desk, **form: str) -> None:
        self.desk = desk
        self.client = desk.client(grant_types=[KIND, "refresh_token"], redirect_uris=[])
        asked = {"scope": "read"} | form
        self.instructions = desk.post("/device_authorization", client_id=self.client, **asked).json

    def poll(self):
        code = self.instructions["device_code"]
        return self.desk.token(grant_type=KIND, client_id=self.client, device_code=code)


def enter(desk: Desk, user_code: str | None = None):
    query = "" if user_code is None else f"user_code={user_code}"
    page = desk.send("GET", "/device", query=query)
    if 'name="password"' in page.text:
        page = desk.follow(desk.submit(page, name="ada", password="lovelace"))
    return page


@pytest.fixture
def desk():
    return Desk()


def test_a_device_gets_tokens_when_a_person_allows_it(desk):
    device = Television(desk)
    assert re.fullmatch(r"[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}", code(device))
    assert device.instructions["verification_uri"] == "https://auth.example/device"
    assert device.instructions["verification_uri_complete"].endswith(
        f"/device?user_code={code(device)}"
    )
    assert (device.instructions["expires_in"], device.instructions["interval"]) == (600, 5)
    assert device.poll().error == "authorization_pending"
    page = desk.submit(enter(desk), user_code=code(device).lower().replace("-", " "))
    assert "Read your notes" in page.text
    assert code(device) in page.text
    done = desk.submit(page, decision="allow")
    assert "connected" in done.text
    desk.now += 6
    answer = device.poll()
    assert answer.status == 200
    claims = claims_of(answer.json["access_token"])
    assert (claims["sub"], claims["aud"], claims["scope"]) == ("ada", RESOURCE, "read")
    assert desk.refresh(device.client, answer.json["refresh_token"]).status == 200
    assert device.poll().error == "invalid_grant"


def code(device: Television) -> str:
    found: str = device.instructions["user_code"]
    return found


def test_the_link_of_a_device_still_asks_the_person(desk):
    device = Television(desk)
    page = enter(desk, code(device))
    assert ">Allow</button>" in page.text
    assert device.poll().error == "authorization_pending"


def test_another_user_can_log_in_for_a_device(desk):
    page = enter(desk, code(Television(desk)))
    before = desk.cookie
    page = desk.follow(desk.submit(page, step="leave"))
    assert 'name="password"' in page.text
    desk.cookie = before
    assert 'name="password"' in desk.send("GET", "/device").text


def test_a_denied_device_gets_access_denied(desk):
    device = Television(desk)
    desk.submit(enter(desk, code(device)), decision="deny")
    assert device.poll().error == "access_denied"
    assert device.poll().error == "invalid_grant"


def test_a_device_that_asks_too_often_is_slowed_down(desk):
    device = Television(desk)
    assert device.poll().error == "authorization_pending"
    assert device.poll().error == "slow_down"
    desk.now += 6
    assert device.poll().error == "slow_down"
    desk.now += 20
    assert device.poll().error == "authorization_pending"


def test_a_device_that_keeps_to_the_interval_is_not_slowed_down(desk):
    device = Television(desk)
    for _ in range(3):
        assert device.poll().error == "authorization_pending"
        desk.now += device.instructions["interval"]


def test_a_device_does_not_wait_for_ever(desk):
    device = Television(desk)
    desk.now += 600
    assert device.poll().error in ("expired_token", "invalid_grant")
    assert "No device waits" in enter(desk, code(device)).text


def test_a_code_is_entered_once(desk):
    device = Television(desk)
    page = enter(desk, code(device))
    desk.submit(page, decision="allow")
    assert "No device waits" in desk.submit(page, decision="deny").text
    assert device.poll().status == 200


def test_a_device_code_of_another_client_is_worth_nothing(desk):
    device, other = Television(desk), Television(desk)
    desk.submit(enter(desk, code(device)), decision="allow")
    device.client, owner = other.client, device.client
    assert device.poll().error == "invalid_grant"
    device.client = owner
    assert device.poll().status == 200


def test_guessing_codes_is_slowed_down(desk):
    device = Television(desk)
    page = enter(desk)
    for _ in range(10):
        assert desk.submit(page, user_code="BBBB-BBBB").status == 400
    assert desk.submit(page, user_code=code(device)).status == 429


def test_guesses_of_one_person_turn_away_no_other_behind_the_same_address():
    desk = Desk(users={"ada": ADA, "eve": ADA})
    device = Television(desk)
    page = desk.send("GET", "/device")
    page = desk.follow(desk.submit(page, name="eve", password="lovelace"))
    statuses = [desk.submit(page, user_code="BBBB-BBBB").status for _ in range(11)]
    assert statuses == [400] * 10 + [429]
    desk.cookie = None
    assert enter(desk, code(device)).status == 200


def test_a_device_asks_for_what_there_is(desk):
    device = Television(desk, scope="fly")
    assert device.instructions["error"] == "invalid_scope"
    device = Television(desk, resource="https://other.example")
    assert device.instructions["error"] == "invalid_target"
    plain = desk.client()
    assert desk.post("/device_authorization", client_id=plain).error == "unauthorized_client"


def test_the_page_takes_forms_of_our_own_only(desk):
    page = enter(desk)
    assert desk.submit(page, csrf="0" * 64, user_code="x").status == 403
    assert desk.send("GET", "/device", query="user_code=a&user_code=b").status == 400
    assert desk.send("POST", "/device", content_type="text/plain").status == 400


def test_one_address_has_no_more_than_so_many_devices_wait(desk):
    device = Television(desk)
    form = {"client_id": device.client, "scope": "read"}
    statuses = [desk.post("/device_authorization", **form).status for _ in range(60)]
    assert statuses == [200] * 59 + [429]


def test_only_so_many_devices_wait_at_once(desk):
    device = Television(desk)
    form = {"client_id": device.client, "scope": "read"}
    for number in range(999):
        desk.address = f"192.0.2.{number // 50}"
        assert desk.post("/device_authorization", **form).status == 200
    desk.address = "192.0.2.99"
    answer = desk.post("/device_authorization", **form)
    assert (answer.status, answer.error) == (503, "temporarily_unavailable")
