"""Cookies of the client: kept for the host, the path and the time that they were set for."""

import pytest

from accord.http.client.heads import CookieJar, parse_address


def at(host="a.example", path="/app/mcp", is_safe=False):
    return parse_address(f"http{'s' * is_safe}://{host}{path}")


def jar(*texts, now=lambda: 1_000.0, **where):
    kept = CookieJar(now)
    for text in texts:
        kept.note(text, at(**where))
    return kept


def sent(kept, **where):
    return kept.header(at(**where))


def test_a_cookie_is_sent_back():
    assert sent(jar("lb=1; HttpOnly", "s = x=y")) == "lb=1; s=x=y"


def test_a_cookie_that_is_set_again_is_replaced():
    assert sent(jar("lb=1", "lb=2")) == "lb=2"


@pytest.mark.parametrize(
    ("attribute", "path", "is_sent"),
    [
        ("", "/app/other", True),
        ("", "/app", True),
        ("", "/application", False),
        ("", "/", False),
        ("; Path=/", "/anything", True),
        ("; Path=/app/", "/app/x", True),
        ("; Path=/app/", "/app", False),
        ("; Path=relative", "/app/x", True),
    ],
)
def test_a_cookie_is_sent_to_its_path_alone(attribute, path, is_sent):
    assert bool(sent(jar("lb=1" + attribute), path=path)) is is_sent


def test_cookies_of_longer_paths_come_first():
    assert sent(jar("a=1; Path=/", "b=2; Path=/app/mcp", "c=3; Path=/app")) == "b=2; c=3; a=1"


@pytest.mark.parametrize("domain", ["", "; Domain=a.example", "; Domain=.example"])
def test_a_cookie_goes_to_the_host_that_set_it_alone(domain):
    kept = jar("lb=1" + domain)
    assert sent(kept) == "lb=1"
    for host in ("b.a.example", "example", "b.example", "xa.example"):
        assert sent(kept, host=host) == ""


def test_a_cookie_for_another_domain_is_refused():
    assert sent(jar("lb=1; Domain=b.example", "s=1; Domain=le")) == ""


def test_a_secure_cookie_travels_over_tls_alone():
    kept = jar("lb=1; Secure", is_safe=True)
    assert sent(kept) == ""
    assert sent(kept, is_safe=True) == "lb=1"


def test_a_secure_cookie_is_not_taken_over_plain_http():
    assert sent(jar("lb=1; secure"), is_safe=True) == ""


@pytest.mark.parametrize(
    ("attribute", "lasts"),
    [
        ("Max-Age=10", 10),
        ("Max-Age=10; Expires=Thu, 01 Jan 1970 00:00:00 GMT", 10),
        ("Expires=Thu, 01 Jan 1970 00:17:00 GMT", 20),
        ("Expires=whenever", None),
        ("Max-Age=soon", None),
        ("Max-Age=" + "9" * 5_000, None),
    ],
)
def test_a_cookie_is_dropped_when_it_expires(attribute, lasts):
    times = [1_000.0]
    kept = jar(f"lb=1; {attribute}", "s=2", now=lambda: times[0])
    times[0] += (lasts or 10_000) - 1
    assert sent(kept) == "lb=1; s=2"
    times[0] += 2
    assert sent(kept) == ("lb=1; s=2" if lasts is None else "s=2")


@pytest.mark.parametrize(
    "attribute", ["Max-Age=0", "Max-Age=-1", "Expires=Thu, 01 Jan 1970 00:00:00 GMT"]
)
def test_a_cookie_that_has_expired_already_removes_the_one_before(attribute):
    assert sent(jar("lb=1", f"lb=; {attribute}")) == ""


@pytest.mark.parametrize(
    "text", ["", ";", "noequals", "=value", "a=\x01", "a=\xe4", "a=" + "x" * 4_096]
)
def test_a_cookie_that_cannot_stand_in_a_header_is_refused(text):
    assert sent(jar(text)) == ""


def test_a_cookie_with_an_endless_path_is_refused():
    assert not CookieJar().note("a=1; Path=/" + "x" * 5_000, at())


def test_cookies_are_bounded_in_number_the_oldest_make_room():
    kept = jar(*[f"c{n}=v" for n in range(200)])
    assert sent(kept).split("; ") == [f"c{n}=v" for n in range(150, 200)]


def test_cookies_are_bounded_in_bytes():
    kept = jar(*[f"c{n}={'x' * 1_000}" for n in range(200)])
    assert 1_000 < len(sent(kept)) <= 8 * 1_024
