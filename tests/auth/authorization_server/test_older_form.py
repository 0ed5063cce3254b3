"""A file that version 0.2 wrote: what it keeps goes on, in the new form, and nothing is lost."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from accord.auth.authorization_server.models import DEVICE_CODE, StoredSession, StoredSignIn
from accord.auth.authorization_server.store_source import open_file
from accord.errors import AuthError
from support.oauth import RESOURCE, Answer, Desk

DUMP = (Path(__file__).parent / "older_form.sql").read_text()
# What the writer of the file knew: tokens, codes, secrets, cookies.
KNOWN: dict[str, Any] = json.loads(DUMP.splitlines()[1].removeprefix("-- "))
LONG = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "auth.db"
    found.touch(mode=0o600)
    with closing(sqlite3.connect(found)) as db:
        db.executescript(DUMP)
    return found


def open_later(path: Path) -> Any:
    """Open the file some seconds after it was written."""
    return open_file(str(path), client_ttl=180 * 86_400.0, clock=lambda: KNOWN["at"] + 10.0)


@pytest.fixture
def desk(path: Path) -> Iterator[Desk]:
    found = Desk(store=open_later(path), remember_consent=True)
    yield found
    found.store.close()


def grant_of(desk: Desk, token: str) -> Any:
    return (desk.endpoints.keys.read(token, desk.now) or {})["grant"]


def test_a_refresh_token_is_used_once_and_its_reuse_is_noticed(desk: Desk):
    answer = desk.refresh(KNOWN["client"], KNOWN["unused"])
    assert answer.status == 200
    assert desk.refresh(KNOWN["client"], KNOWN["unused"]).error == "invalid_grant"
    assert desk.refresh(KNOWN["client"], answer.json["refresh_token"]).error == "invalid_grant"


def test_a_refresh_token_that_was_used_before_is_noticed_and_ends_its_family(desk: Desk):
    assert desk.refresh(KNOWN["client"], KNOWN["used"]).error == "invalid_grant"
    assert desk.refresh(KNOWN["client"], KNOWN["after_used"]).error == "invalid_grant"


def test_revoked_grants_stay_revoked_and_others_valid(desk: Desk):
    revoked = desk.store.grants.read_revoked()
    assert revoked == {grant_of(desk, KNOWN["revoked"])}
    assert desk.store.grants.find(grant_of(desk, KNOWN["revoked"])) is None
    assert desk.store.grants.find(grant_of(desk, KNOWN["access"])) is not None


def test_both_keys_verify_the_newer_one_signs(desk: Desk):
    old, new = (
        desk.endpoints.keys.read(KNOWN[name], desk.now) for name in ("access", "newer_access")
    )
    assert old is not None
    assert new is not None
    before = [each["kid"] for each in desk.send("GET", "/jwks").json["keys"]]
    assert len(before) == 2
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(DUMP)
        rows = db.execute("SELECT id FROM keys ORDER BY created_at DESC").fetchall()
    assert before == [id for (id,) in rows]


def test_a_code_is_redeemed_once_and_a_redeemed_one_revokes_its_tokens(desk: Desk):
    assert desk.redeem(KNOWN["client"], KNOWN["code"]).status == 200
    assert desk.redeem(KNOWN["client"], KNOWN["code"]).error == "invalid_grant"
    assert desk.redeem(KNOWN["client"], KNOWN["redeemed_code"]).error == "invalid_grant"
    assert grant_of(desk, KNOWN["newer_access"]) in desk.store.grants.read_revoked()


def test_a_device_that_waits_gets_its_tokens(desk: Desk):
    desk.cookie = KNOWN["cookie"]
    page = desk.send("GET", "/device", query=f"user_code={KNOWN['user_code']}")
    assert "connected" in desk.submit(page, decision="allow").text
    form = {"grant_type": DEVICE_CODE, "device_code": KNOWN["device_code"]}
    assert desk.token(client_id=KNOWN["device_client"], **form).status == 200


def test_a_login_and_a_consent_are_remembered(desk: Desk):
    desk.cookie = KNOWN["cookie"]
    assert "code" in desk.authorize(KNOWN["client"]).returned


def test_a_client_with_a_secret_has_it_further(desk: Desk):
    desk.cookie = KNOWN["cookie"]
    code = desk.code(KNOWN["secret_client"])
    wrong = desk.redeem(KNOWN["secret_client"], code, client_secret="wrong")
    right = desk.redeem(KNOWN["secret_client"], code, client_secret=KNOWN["client_secret"])
    assert (wrong.status, right.status) == (401, 200)


def test_the_form_of_a_page_is_accepted_and_guesses_count_on(desk: Desk):
    form = KNOWN["form"]
    page = Answer.__new__(Answer)
    hidden = "".join(f'type="hidden" name="{k}" value="{v}"' for k, v in form["hidden"].items())
    page.text = f'<form method="post" action="{form["action"]}">{hidden}</form>'
    desk.cookie, desk.address = form["cookie"], "192.0.2.9"
    # Not 403, as with another key: the attempts of before are at the limit.
    assert desk.submit(page, name="ada", password="lovelace").status == 429
    desk.address = "192.0.2.10"
    desk.now += 61
    assert desk.submit(page, name="ada", password="lovelace").status == 303


def test_sign_ins_and_sessions_with_identity_providers_go_on(desk: Desk):
    sign_ins, now = desk.store.sign_ins, KNOWN["at"]
    sign_in = StoredSignIn(
        browser="browser", provider="fake", expires_at=now + 300, body=b"\0sealed"
    )
    assert sign_ins.take("sign-in", "browser") == sign_in
    session = StoredSession("s", "fake", b"\xffsealed")
    assert sign_ins.find_of("login l") == session
    assert sign_ins.find_of(f"grant {grant_of(desk, KNOWN['access'])}") == session
    assert desk.store.grants.find_login("l", desk.now) == "fake:17"
    # It is being renewed.
    assert not sign_ins.claim("s", now + 20, 30.0)
    assert sign_ins.claim("s", now + 40, 30.0)


def test_a_client_expires_as_before_and_counts(desk: Desk):
    assert desk.store.clients.count() == 3
    assert desk.store.clients.find(KNOWN["client"]) is not None
    assert desk.store.clients.forget_idle()
    assert desk.store.clients.find(KNOWN["client"]) is not None  # it has grants
    assert desk.store.clients.consented_scopes("ada", KNOWN["client"], RESOURCE) == {"read"}


# -- the file


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as db:
        return {name for (name,) in db.execute("SELECT name FROM sqlite_master")}


def test_the_file_of_before_is_kept_under_another_name(desk: Desk, path: Path):
    copy = path.with_name("auth.db.before-0.3")
    assert copy.stat().st_mode & 0o777 == 0o600
    assert "refresh_tokens" in tables(copy)
    assert "refresh_tokens" not in tables(path)
    with closing(sqlite3.connect(copy)) as db, closing(sqlite3.connect(":memory:")) as before:
        before.executescript(DUMP)
        rows = {each for each in db.iterdump() if each.startswith("INSERT")}
        assert rows >= {each for each in before.iterdump() if each.startswith("INSERT")}


def test_a_file_is_taken_over_once(desk: Desk, path: Path):
    assert desk.refresh(KNOWN["client"], KNOWN["unused"]).status == 200
    desk.store.close()
    again = Desk(store=open_later(path))
    assert again.refresh(KNOWN["client"], KNOWN["unused"]).error == "invalid_grant"
    again.store.close()
    assert [each.name for each in path.parent.glob("*.before*")] == ["auth.db.before-0.3"]


def test_of_workers_that_open_a_file_at_once_one_takes_it_over(path: Path):
    with ThreadPoolExecutor(8) as pool:
        stores = [*pool.map(open_later, [path] * 8)]
    answers = [Desk(store=each).refresh(KNOWN["client"], KNOWN["unused"]) for each in stores]
    assert [each.status for each in answers] == [200] + [400] * 7
    for each in stores:
        each.close()
    assert [each.name for each in path.parent.glob("*.before*")] == ["auth.db.before-0.3"]


KILLED = """
import os, signal, sys
from accord.auth.authorization_server import store_source

take_over = store_source.take_over

def take_over_and_die(read, store):
    take_over(read, store)
    os.kill(os.getpid(), signal.SIGKILL)

store_source.take_over = take_over_and_die
store_source.open_file(sys.argv[1], client_ttl=1e6, clock=lambda: float(sys.argv[2]))
"""


def test_a_process_that_is_killed_meanwhile_leaves_the_old_form(path: Path):
    command = [sys.executable, "-c", KILLED, str(path), str(KNOWN["at"])]
    assert subprocess.run(command, check=False, timeout=LONG).returncode == -9
    with closing(sqlite3.connect(path)) as db, closing(sqlite3.connect(":memory:")) as before:
        before.executescript(DUMP)
        for table in ("refresh_tokens", "grants", "clients", "keys"):
            rows = [each.execute(f"SELECT * FROM {table}").fetchall() for each in (db, before)]
            assert rows[0] == rows[1]
    desk = Desk(store=open_later(path))
    assert desk.refresh(KNOWN["client"], KNOWN["unused"]).status == 200
    desk.store.close()


def test_a_file_that_cannot_be_read_is_left_as_it_is(path: Path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE grants SET body = X'7B'")
        db.commit()
    with pytest.raises(AuthError, match="cannot be used"):
        open_later(path)
    assert "refresh_tokens" in tables(path)
