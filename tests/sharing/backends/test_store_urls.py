"""Stores by URL: which backend it is, what it is set to, and what is refused."""

from pathlib import Path

import pytest

from accord.errors import ConfigurationError
from accord.sharing.backends.memory_backend import MemoryBackend
from accord.sharing.backends.redis_backend import RedisBackend
from accord.sharing.backends.sqlite_backend import SqliteBackend
from accord.sharing.backends.urls import Address, open_backend, parse_redis_url
from support.certificates import self_signed
from support.tables import cases
from support.waiting import in_loop

PASSWORD = "tr0ub4dor"


@pytest.mark.parametrize("url", ["memory:", "memory://"])
def test_memory_needs_nothing_else(url):
    assert isinstance(open_backend(url), MemoryBackend)


@in_loop
async def test_three_slashes_are_a_relative_path_and_four_an_absolute_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for url, path in [
        ("sqlite:///state.db", tmp_path / "state.db"),
        ("sqlite:///a%20name.db", tmp_path / "a name.db"),
        (f"sqlite:///{tmp_path}/absolute.db?timeout=3", tmp_path / "absolute.db"),
    ]:
        backend = open_backend(url)
        assert isinstance(backend, SqliteBackend)
        assert not path.exists()  # nothing is opened yet
        await backend.open()
        await backend.put("r", b"x", ttl=60)
        await backend.close()
        assert path.exists()


@in_loop
async def test_the_namespace_of_the_url_wins_over_the_argument(tmp_path):
    url = f"sqlite:///{tmp_path}/state.db"
    one, same, other = (
        open_backend(f"{url}?namespace=one", namespace="two"),
        open_backend(url, namespace="one"),
        open_backend(url),
    )
    for backend in (one, same, other):
        await backend.open()
    await one.put("r", b"x", ttl=60)
    assert await same.get("r") is not None
    assert await other.get("r") is None
    for backend in (one, same, other):
        await backend.close()


def test_options_of_a_redis_url_win_over_arguments():
    backend = open_backend("redis://h/?namespace=prod&timeout=0.5", namespace="test")
    assert isinstance(backend, RedisBackend)
    assert backend.namespace == "prod"
    assert backend._timeout == 0.5
    assert open_backend("redis://h", namespace="test").namespace == "test"


@cases(
    ("url", "kind", "addresses"),
    [
        ("redis://host", "single", [("host", 6379)]),
        ("redis://host:7000/3", "single", [("host", 7000)]),
        ("redis://[::1]:7000", "single", [("::1", 7000)]),
        ("rediss://10.0.0.1", "single", [("10.0.0.1", 6379)]),
        ("redis+unix:///run/valkey.sock?db=3", "unix", [("/run/valkey.sock", 0)]),
        ("redis+cluster://a:1,b,[::2]:3", "cluster", [("a", 1), ("b", 6379), ("::2", 3)]),
        ("rediss+cluster://a", "cluster", [("a", 6379)]),
        ("redis+sentinel://a,b:2/main?db=3", "sentinel", [("a", 26379), ("b", 2)]),
        ("rediss+sentinel://a/main", "sentinel", [("a", 26379)]),
    ],
)
def test_forms_of_redis_urls(url, kind, addresses):
    target = parse_redis_url(url)
    assert target.kind == kind
    assert target.addresses == tuple(Address(*each) for each in addresses)
    assert target.url == url
    assert target.master == ("main" if kind == "sentinel" else "")
    assert (target.tls is not None) == url.startswith("rediss")
    assert open_backend(url).is_remote == (kind != "unix")


@cases(
    ("url", "db"),
    [
        ("redis://host/3", 3),
        ("redis://host/", 0),
        ("redis://host?db=4", 4),
        ("redis+unix:///run/valkey.sock?db=5", 5),
        ("redis+sentinel://a/main?db=6", 6),
    ],
)
def test_the_database_is_in_the_path_or_an_option(url, db):
    assert parse_redis_url(url).db == db


@cases(
    ("url", "shown"),
    [
        (f"redis://:{PASSWORD}@host/1", "redis://host/1"),
        (f"redis://app:{PASSWORD}@host:1", "redis://app@host:1"),
        (f"redis://app:x%40{PASSWORD}@host", "redis://app@host"),
        (f"rediss+cluster://app:{PASSWORD}@a,b", "rediss+cluster://app@a,b"),
        (f"redis+sentinel://app:{PASSWORD}@a/m?db=1", "redis+sentinel://app@a/m?db=1"),
        (f"redis+unix://app:{PASSWORD}@/run/s", "redis+unix://app@/run/s"),
    ],
)
def test_a_url_is_shown_without_its_password(url, shown):
    backend = open_backend(url)
    assert backend.url == shown
    target = parse_redis_url(url)
    assert PASSWORD not in repr(target)
    assert PASSWORD in target.credentials.read()[-1].decode()


def test_the_password_may_come_from_a_file_or_a_variable(tmp_path, monkeypatch):
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    monkeypatch.setenv("STORE_PASSWORD", PASSWORD)
    for option in (f"password_file={file}", "password_variable=STORE_PASSWORD"):
        target = parse_redis_url(f"redis://app@host?{option}")
        assert target.credentials.read() == (b"app", PASSWORD.encode())
        sentinels = parse_redis_url(
            f"redis+sentinel://host/main?sentinel_username=watch&sentinel_{option}"
        )
        assert sentinels.credentials.read() == ()
        assert sentinels.sentinel_credentials.read() == (b"watch", PASSWORD.encode())
    file.write_text("changed")
    assert parse_redis_url(f"redis://host?password_file={file}").credentials.read() == (b"changed",)


WRONG = [
    ("", "a text without a scheme is not the URL of a store; expected memory:, sqlite:///"),
    ("state.db", "a text without a scheme"),
    ("postgres://u:{}@h", "'postgres:' is not the URL of a store; expected memory:"),
    ("memory:here", "the store in memory has no place"),
    ("memory:?timeout=1", "unknown option 'timeout' in a memory: URL; it takes no options"),
    ("sqlite:", "sqlite:///relative.db or sqlite:////absolute/path.db"),
    ("sqlite://state.db", "sqlite:///relative.db or sqlite:////absolute/path.db"),
    ("sqlite:///", "sqlite:///relative.db or sqlite:////absolute/path.db"),
    ("sqlite:///folder/", "sqlite:///relative.db or sqlite:////absolute/path.db"),
    ("sqlite:///:memory:", "SQLite in memory cannot be shared"),
    ("sqlite:///s.db?mode=ro", "unknown option 'mode' in a sqlite: URL; it takes namespace, tim"),
    ("sqlite:///s.db?timeout=soon", "a number of seconds above 0, not 'soon'"),
    ("sqlite:///s.db?timeout=0", "a number of seconds above 0, not '0'"),
    ("sqlite:///s.db?timeout=inf", "a number of seconds above 0, not 'inf'"),
    ("sqlite:///s.db?timeout=1&timeout=2", "the option 'timeout' is twice in a sqlite: URL"),
    ("sqlite:///s.db?namespace=", "the option 'namespace' of a sqlite: URL has no value"),
    ("sqlite:///s.db?namespace=a:b", "invalid namespace 'a:b'"),
    ("redis://h?namespace=a{{b}}", "invalid namespace 'a{b}'"),
    ("redis://h?timeout=-1", "a number of seconds above 0, not '-1'"),
    ("redis+tls://h", "begins with one of redis://, rediss://"),
    ("redis:h", "begins with one of redis://, rediss://"),
    ("redis://", "host:port"),
    ("redis://:{}@", "host:port"),
    ("redis://h:99999", "host:port"),
    ("redis://h:0", "host:port"),
    ("redis://h:port", "host:port"),
    ("redis://h1,h2", "several hosts need redis+cluster:// or redis+sentinel://"),
    ("redis://h/one", "the database of a Redis URL is a number"),
    ("redis://h/1?db=1", "the number of the database is given twice"),
    ("redis://h?password={}", "unknown option 'password' in a redis: URL; it takes namespace"),
    ("redis://h?ssl_ca_certs=x", "unknown option 'ssl_ca_certs' in a redis: URL"),
    ("redis://u@h", "a user of a Redis URL needs a password"),
    ("redis://u:{}/x@h", "%2F for /"),
    ("redis://u:{}#x@h", "%23 for #"),
    ("redis://u:first?{}@h", "%3F for ?"),
    ("redis://u@h?password_variable=X", "password_variable names X, which is not set"),
    ("redis://h?password_file=/none/x", "password_file /none/x cannot be read: No such file"),
    ("rediss://h?ssl_ca_certs=/none/ca", "ssl_ca_certs /none/ca cannot be read"),
    ("rediss://h?ssl_certfile=/none/ca", "ssl_certfile /none/ca cannot be read"),
    ("rediss://h?ssl_cert_reqs=maybe", "ssl_cert_reqs is required or none"),
    ("rediss://h?ssl_check_hostname=no", "ssl_check_hostname is true or false"),
    ("redis+unix://h/x", "redis+unix:///path/of/the/socket"),
    ("redis+unix:///", "redis+unix:///path/of/the/socket"),
    ("redis+cluster://h/1", "a cluster has no numbers of databases"),
    ("redis+cluster://h?db=1", "unknown option 'db'"),
    ("redis+cluster://h,,g", "host:port"),
    ("redis+sentinel://h", "ends with the name of the master"),
    ("redis+sentinel://h/a/b", "ends with the name of the master"),
]


@cases(("url", "message"), WRONG)
def test_a_wrong_url_is_refused_with_what_is_expected(url, message, monkeypatch):
    monkeypatch.delenv("X", raising=False)
    with pytest.raises(ConfigurationError) as caught:
        open_backend(url.format(PASSWORD))
    assert message in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_two_passwords_are_refused(tmp_path):
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    with pytest.raises(ConfigurationError, match="give one password: in the URL, by password_file"):
        open_backend(f"redis://:{PASSWORD}@h?password_file={file}")


def test_tls_is_set_by_options(tmp_path):
    certificate, key = self_signed(tmp_path)
    files = f"ssl_ca_certs={certificate}&ssl_certfile={certificate}&ssl_keyfile={key}"
    strict = parse_redis_url(f"rediss://h?{files}").tls
    assert strict is not None
    assert strict.check_hostname
    assert strict.cert_store_stats()["x509"] == 1
    unnamed = parse_redis_url("rediss://h?ssl_check_hostname=false").tls
    assert unnamed is not None
    assert (unnamed.check_hostname, unnamed.verify_mode.name) == (False, "CERT_REQUIRED")
    unchecked = parse_redis_url("rediss://h?ssl_cert_reqs=none").tls
    assert unchecked is not None
    assert (unchecked.check_hostname, unchecked.verify_mode.name) == (False, "CERT_NONE")


@cases("timeout", [0, -1, float("inf"), float("nan")])
def test_a_timeout_that_is_not_a_time_is_refused(timeout):
    with pytest.raises(ConfigurationError, match="a number of seconds above 0"):
        RedisBackend("redis://h", timeout=timeout)


def test_a_missing_key_file_is_a_mistake_of_configuration(tmp_path):
    certificate, _ = self_signed(tmp_path)
    missing = Path("/none/key")
    with pytest.raises(ConfigurationError, match=f"ssl_certfile {certificate} cannot be read"):
        open_backend(f"rediss://h?ssl_certfile={certificate}&ssl_keyfile={missing}")
