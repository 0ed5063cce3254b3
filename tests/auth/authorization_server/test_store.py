"""The store: survives a restart, is shared between processes, shows nothing to others."""

import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from accord.auth.authorization_server.login import Logins
from accord.auth.authorization_server.models import AuthorizationServerSettings, OAuthRefusal
from accord.auth.authorization_server.secrets import (
    hash_like,
    hash_password,
    is_hash,
    is_password,
)
from accord.auth.authorization_server.store_source import check_file as check_store
from accord.errors import AuthError
from support.oauth import ADA, Desk, file_store


def test_all_that_matters_survives_a_restart(tmp_path):
    path = str(tmp_path / "auth.db")
    first = Desk(store=file_store(path))
    client = first.client()
    tokens = first.tokens(client)
    first.store.close()
    second = Desk(store=file_store(path))
    assert second.refresh(client, tokens["refresh_token"]).status == 200
    assert second.send("GET", "/jwks").json["keys"] != []


def test_the_file_is_for_its_owner_alone(tmp_path):
    path = tmp_path / "auth.db"
    file_store(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    file_store(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_in_the_file_can_be_used_by_a_reader(tmp_path):
    path = tmp_path / "auth.db"
    desk = Desk(store=file_store(path))
    told = desk.register(token_endpoint_auth_method="client_secret_post").json
    client = desk.client()
    code = desk.code(client)
    tokens = desk.redeem(client, code).json
    cookie = desk.cookie
    desk.store.close()
    kept = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    secrets = (told["client_secret"], code, tokens["refresh_token"], tokens["access_token"], cookie)
    assert [secret for secret in secrets if secret.encode() in kept] == []
    assert client.encode() in kept


def test_of_eight_that_refresh_at_once_one_succeeds(tmp_path):
    path = str(tmp_path / "auth.db")
    first = Desk(store=file_store(path))
    client = first.client()
    token = first.tokens(client)["refresh_token"]
    desks = [Desk(store=file_store(path)) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda desk: desk.refresh(client, token), desks))
    assert sorted(answer.status for answer in answers) == [200] + [400] * 7


def test_of_eight_that_redeem_a_code_at_once_at_most_one_succeeds(tmp_path):
    path = str(tmp_path / "auth.db")
    first = Desk(store=file_store(path))
    client = first.client()
    code = first.code(client)
    desks = [Desk(store=file_store(path)) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda desk: desk.redeem(client, code), desks))
    assert sorted(answer.status for answer in answers) == [200] + [400] * 7
    assert len(first.store.grants.read_revoked()) == 1


def test_a_store_that_another_process_is_writing_to_is_opened_after_it(tmp_path):
    path = str(tmp_path / "auth.db")
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        # As a process that has just made the file does.
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.2, lambda: other.execute("ROLLBACK"))
        release.start()
        store = file_store(path)
        release.join()
    assert store.clients.count() == 0
    store.close()


def test_a_refusal_keeps_what_was_done_and_a_failure_does_not(tmp_path):
    store = file_store(tmp_path / "auth.db")

    def do(name: str, error: Exception) -> None:
        with store.transaction():
            store.secret(name, "1")
            raise error

    with pytest.raises(OAuthRefusal):
        do("kept", OAuthRefusal("x", "y"))
    with pytest.raises(ZeroDivisionError):
        do("lost", ZeroDivisionError())
    assert store.secret("kept", "2") == "1"
    assert store.secret("lost", "2") == "2"


def _damaged(path):
    file_store(path).close()
    content = bytearray(path.read_bytes())
    # Behind the header of the file: its pages are not tables any more.
    content[100:4096] = b"x" * 3996
    path.write_bytes(content)


def _of_another_program(path):
    path.touch(mode=0o600)
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE films (title TEXT)")


UNUSABLE = {
    "another program": (_of_another_program, "another program"),
    "garbage": (lambda path: path.write_bytes(b"not a database" * 100), "not a database"),
    "damaged": (_damaged, "malformed|damaged"),
    "a folder": (lambda path: path.mkdir(), "directory|not a file"),
    "no folder": (lambda path: path.parent.rmdir(), "does not exist|No such file"),
    "a file for a folder": (
        lambda path: (path.parent.rmdir(), path.parent.write_text("")),
        "does not exist|Not a directory",
    ),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_an_unusable_store_is_reported_with_its_path_and_left_as_it_is(kind, tmp_path):
    path = tmp_path / "folder" / "auth.db"
    path.parent.mkdir()
    spoil, why = UNUSABLE[kind]
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    for use in (check_store, file_store):
        with pytest.raises(AuthError, match=why) as caught:
            use(str(path))
        assert str(path) in str(caught.value)
        assert "store=" in str(caught.value)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_store_that_can_be_used_is_checked_without_making_or_changing_it(tmp_path):
    path = tmp_path / "auth.db"
    check_store(str(path))
    assert list(tmp_path.iterdir()) == []
    check_store(":memory:")
    store = file_store(path)
    store.secret("a", "1")
    check_store(str(path))
    assert store.secret("a", "2") == "1"
    store.close()
    check_store(str(path))


def test_a_password_is_known_by_its_hash():
    kept = hash_password("lovelace")
    assert kept.startswith("scrypt$ln=14,r=8,p=5$")
    assert "lovelace" not in kept
    assert is_password("lovelace", kept)
    assert not is_password("Lovelace", ADA)
    assert hash_like(ADA, "lovelace") != hash_like(ADA, "lovelace")


def test_a_hash_that_does_not_say_what_it_took_is_of_earlier():
    earlier = "scrypt$MDEyMzQ1Njc4OWFiY2RlZg==$gD8IXXHpabjWAMLyLJhnuG0U29ZDOOfkM9wHxKgNrYc="
    assert is_hash(earlier)
    assert is_password("lovelace", earlier)
    assert not is_password("Lovelace", earlier)
    assert not is_hash(earlier.replace("$", "$ln=20,r=8,p=1$", 1))
    assert not is_hash(earlier.replace("MDE", "M_E"))


def test_an_unknown_user_takes_as_long_as_a_known_one():
    assert hash_like(ADA, "x").startswith("scrypt$ln=1,r=8,p=1$")
    assert Logins(
        file_store(), AuthorizationServerSettings(users={"ada": ADA})
    )._unknown_user_hash.startswith("scrypt$ln=1,r=8,p=1$")
