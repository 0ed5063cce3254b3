"""What people see and do: login, consent, and what others cannot make them do."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from urllib.parse import urlencode, urlsplit

import pytest

from accord.auth.authorization_server.clients import KnownClient
from accord.auth.authorization_server.pages import ConsentQuestion, PageForm, consent_page
from accord.auth.authorization_server.secrets import hash_password
from support.oauth import ADA, FORM, RETURN, Desk, request_query
from support.tables import cases

# At its usual price, so that many are checked at once.
SLOW_ADA = hash_password("lovelace")


@pytest.fixture
def desk():
    return Desk()


def test_the_consent_page_names_program_scopes_server_and_redirect(desk):
    page = desk.consent(desk.client(), scope="read write")
    assert page.status == 200
    for told in (
        "Notes",
        "It is not verified",
        "https://auth.example/mcp",
        "Read your notes",
        "<code>write</code>",
        RETURN,
        "a program on this computer",
        "<strong>ada</strong>",
        ">Allow</button>",
        ">Deny</button>",
    ):
        assert told in page.text


def test_another_site_is_shown_by_its_name(desk):
    client = desk.client(redirect_uris=["https://app.example/cb?x=1"])
    page = desk.consent(client, redirect_uri=None)
    assert "<strong>app.example</strong>" in page.text


def test_a_user_whose_name_ends_with_a_dot_gets_no_second_one():
    question = ConsentQuestion(
        name="Notes", returns_to=RETURN, scopes={}, server="x", user="Example Inc.", may_leave=False
    )
    page = consent_page(PageForm("/x", "token", "cookie"), question)
    assert "<strong>Example Inc.</strong></div>" in page.body.decode()


def test_without_scopes_the_page_says_that_everything_is_allowed():
    desk = Desk(scopes={})
    assert "everything that the server offers" in desk.consent(desk.client(), scope=None).text


def test_without_a_scope_of_those_that_there_are_the_page_says_so():
    desk = Desk(default_scopes=())
    page = desk.consent(desk.client(), scope=None)
    assert "needs no permission of its own" in page.text
    assert "<code></code>" not in page.text


def test_names_of_programs_are_escaped_on_the_consent_page(desk):
    name = "<script>alert('x')</script>&quot;"
    client = desk.client(client_name=name, redirect_uris=["https://a.example/cb?a='b'&c=d"])
    page = desk.consent(client, redirect_uri=None, state='"><script>')
    assert "<script" not in page.text
    assert "&lt;script&gt;" in page.text
    assert "&amp;quot;" in page.text


@pytest.mark.parametrize("show", [Desk.authorize, Desk.consent], ids=["login", "consent"])
def test_pages_cannot_be_framed_cached_scripted_or_read_by_others(desk, show):
    page = show(desk, desk.client())
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in page.headers


def test_every_field_has_a_label_and_a_place_in_the_order(desk):
    page = desk.authorize(desk.client())
    fields = re.findall(r'<input id="([^"]+)"', page.text)
    labels = re.findall(r'<label for="([^"]+)"', page.text)
    assert fields == labels == ["name", "password"]
    assert "tabindex" not in page.text
    assert '<html lang="en">' in page.text
    assert 'name="viewport"' in page.text


@pytest.mark.parametrize(
    ("uri", "leads"),
    [
        ("http://127.0.0.1:3000/callback", "'self' https: http://127.0.0.1:3000"),
        ("http://[::1]:3000/callback", "'self' https: http:"),
        ("https://app.example/callback", "'self' https:"),
    ],
)
def test_the_form_may_lead_back_to_the_program(desk, uri, leads):
    page = desk.consent(desk.client(redirect_uris=[uri]), redirect_uri=uri)
    assert page.headers["content-security-policy"].endswith(f"form-action {leads}")


def test_the_cookie_is_for_the_browser_alone(desk):
    cookie = desk.authorize(desk.client()).headers["set-cookie"]
    assert cookie.startswith("__Host-accord-")
    for part in ("HttpOnly", "SameSite=Lax", "Secure", "Path=/"):
        assert part in cookie


def test_a_cookie_that_we_did_not_make_is_replaced(desk):
    desk.cookie = "short"
    desk.authorize(desk.client())
    assert desk.cookie != "short"


def test_a_wrong_password_and_a_wrong_name_get_the_same_answer(desk):
    page = desk.authorize(desk.client())
    wrong = desk.submit(page, name="ada", password="byron")
    nobody = desk.submit(page, name="eve", password="lovelace")
    assert wrong.status == nobody.status == 401
    assert "Wrong name or password" in wrong.text
    assert wrong.text.replace('value="ada"', "") == nobody.text.replace('value="eve"', "")
    assert desk.submit(wrong, name="ada", password="lovelace").status == 303


def wrong_passwords(desk, page, addresses, times):
    """Try wrong passwords of ada in a browser that never logged in; return the statuses."""
    known, desk.known = desk.known, None
    statuses = []
    for number in range(addresses):
        desk.address = f"198.51.100.{number}"
        statuses += [desk.submit(page, name="ada", password="guess").status for _ in range(times)]
    desk.known, desk.address = known, "192.0.2.1"
    return statuses


def test_guessing_a_password_from_one_address_ends_after_ten(desk):
    page = desk.authorize(desk.client())
    assert wrong_passwords(desk, page, addresses=1, times=12) == [401] * 10 + [429] * 2
    desk.address = "198.51.100.0"
    answer = desk.submit(page, name="ada", password="lovelace")
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) > 0
    desk.now += 301
    assert desk.submit(page, name="ada", password="lovelace").status == 303


def test_wrong_passwords_do_not_lock_out_the_user_elsewhere(desk):
    page = desk.authorize(desk.client())
    assert set(wrong_passwords(desk, page, addresses=1, times=30)) == {401, 429}
    assert desk.submit(page, name="ada", password="lovelace").status == 303


def test_guesses_from_many_addresses_are_bounded_and_delay_strangers_alone(desk):
    client = desk.client()
    desk.consent(client)
    login = desk.known
    desk.cookie = None
    page = desk.authorize(client)
    statuses = wrong_passwords(desk, page, addresses=50, times=10)
    assert statuses.count(401) == 20
    # A browser that is new here waits some seconds, one that has logged in before does not.
    desk.known = None
    answer = desk.submit(page, name="ada", password="lovelace")
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) <= 61
    desk.known = login
    desk.address = "198.51.100.0"
    assert desk.submit(page, name="ada", password="lovelace").status == 303
    desk.known, desk.cookie, desk.address = None, None, "203.0.113.1"
    desk.now += 61
    page = desk.authorize(client)
    assert desk.submit(page, name="ada", password="lovelace").status == 303


def test_a_browser_that_logged_in_before_has_a_limit_of_its_own(desk):
    client = desk.client()
    desk.consent(client)
    desk.cookie = None
    page = desk.authorize(client)
    statuses = [desk.submit(page, name="ada", password="guess").status for _ in range(11)]
    assert statuses == [401] * 10 + [429]


@cases("kind", ["forged", "of another person", "of the future", "old", "garbage"])
def test_only_a_browser_that_logged_in_before_is_let_past_the_limit(kind):
    desk = Desk(users={"ada": ADA, "eve": ADA})
    client = desk.client()
    page = desk.authorize(client)
    name = "eve" if kind == "of another person" else "ada"
    if kind == "of the future":
        desk.now += 1_000
    desk.submit(page, name=name, password="lovelace")
    since, browser, _ = desk.known.split(".")
    if kind == "forged":
        desk.known = f"{since}.{browser}.{'0' * 64}"
    elif kind == "garbage":
        desk.known = "x"
    elif kind == "of the future":
        desk.now -= 1_000
    elif kind == "old":
        desk.now += 91 * 86_400
    desk.cookie = None
    page = desk.authorize(client)
    wrong_passwords(desk, page, addresses=2, times=10)
    assert desk.submit(page, name="ada", password="lovelace").status == 429


def test_logins_at_the_same_time_are_counted_before_they_are_checked():
    desk = Desk(users={"ada": SLOW_ADA})
    page = desk.authorize(desk.client())
    start = Barrier(40, timeout=30)

    def guess(number):
        start.wait()
        return desk.submit(page, name="ada", password=f"guess {number}").status

    with ThreadPoolExecutor(40) as threads:
        statuses = Counter(threads.map(guess, range(40)))
    assert statuses == {401: 10, 429: 30}


def test_a_proxy_that_hides_its_clients_is_logged_once(desk, caplog):
    page = desk.authorize(desk.client())
    parts = urlsplit(page.action)
    body = urlencode(page.hidden | {"name": "ada", "password": "guess"}).encode()
    for _ in range(13):
        given = {"content_type": FORM, "x_forwarded_for": "203.0.113.9"}
        desk.send("POST", parts.path, query=parts.query, body=body, **given)
    told = [each for each in caplog.messages if "FORWARDED_ALLOW_IPS" in each]
    assert len(told) == 1
    assert desk.address in told[0]


def test_trying_many_names_from_one_address_is_slowed_down(desk):
    page = desk.authorize(desk.client())
    statuses = [desk.submit(page, name=f"n{n}", password="x").status for n in range(21)]
    assert statuses == [401] * 20 + [429]


def test_a_login_lasts_for_a_while_and_is_kept_as_a_hash(desk):
    client = desk.client()
    desk.consent(client)
    assert desk.cookie is not None
    assert desk.store.grants.find_login(desk.cookie, desk.now) is None
    assert "Allow" in desk.authorize(client).text
    desk.now += 3601
    assert 'name="password"' in desk.authorize(client).text


def test_a_login_gives_the_browser_a_new_name(desk):
    page = desk.authorize(desk.client())
    before = desk.cookie
    desk.submit(page, name="ada", password="lovelace")
    assert desk.cookie != before


def test_another_user_may_log_in_instead(desk):
    client = desk.client()
    page = desk.consent(client)
    parts = urlsplit(page.action)
    token = page.hidden["csrf"]
    body = f"step=leave&csrf={token}".encode()
    answer = desk.send("POST", parts.path, query=parts.query, body=body, content_type=FORM)
    assert 'name="password"' in desk.follow(answer).text


def test_a_form_that_did_not_come_from_our_page_does_nothing(desk):
    client = desk.client()
    page = desk.consent(client)
    query = urlsplit(page.action).query
    for body in (
        b"step=consent&decision=allow",
        b"step=consent&decision=allow&csrf=" + b"0" * 64,
    ):
        answer = desk.send("POST", "/authorize", query=query, body=body, content_type=FORM)
        assert answer.status == 403
        assert "location" not in answer.headers


def test_a_form_is_for_one_request_and_one_browser(desk):
    mine, other = desk.client(), desk.client(client_name="Other")
    page = desk.consent(mine)
    body = f"step=consent&decision=allow&csrf={page.hidden['csrf']}".encode()
    answer = desk.send(
        "POST", "/authorize", query=request_query(other), body=body, content_type=FORM
    )
    assert answer.status == 403
    desk.cookie = "x" * 43
    assert desk.submit(page, decision="allow").status == 403
    desk.cookie = None
    assert desk.submit(page, decision="allow").status == 403


def test_consent_before_login_is_ignored(desk):
    page = desk.authorize(desk.client())
    answer = desk.submit(page, step="consent", decision="allow")
    assert "code" not in answer.returned
    assert 'name="password"' in desk.follow(answer).text


def test_consent_is_asked_for_every_time_unless_it_is_to_be_remembered(desk):
    client = desk.client()
    desk.tokens(client)
    assert ">Allow</button>" in desk.authorize(client).text


def test_consent_can_be_remembered_for_the_same_person_client_and_scopes():
    desk = Desk(remember_consent=True)
    client = desk.client()
    desk.allow(client, scope="read")
    assert "code" in desk.authorize(client, scope="read").returned
    assert "code" in desk.authorize(client, scope="read", prompt="none").returned
    assert ">Allow</button>" in desk.authorize(client, scope="read write").text
    assert ">Allow</button>" in desk.authorize(desk.client(), scope="read").text
    answer = desk.authorize(client, scope="write", prompt="none")
    assert answer.returned["error"] == "consent_required"
    later = Desk(store=desk.store, remember_consent=False)
    later.cookie = desk.cookie
    assert ">Allow</button>" in later.authorize(client, scope="read").text


def test_a_person_without_a_password_is_still_asked():
    desk = Desk(users={}, single_user="ada")
    page = desk.authorize(desk.client())
    assert ">Allow</button>" in page.text
    assert "another user" not in page.text
    assert "code" in desk.submit(page, decision="allow").returned


def test_auto_approve_redirects_only_to_loopback():
    far = KnownClient(client_id="far", redirect_uris=("https://app.example/cb",))
    desk = Desk(users={}, single_user="ada", auto_approve=True, clients={"far": far.client})
    assert "code" in desk.authorize(desk.client()).returned
    answer = desk.authorize("far", redirect_uri=None)
    assert answer.status == 400
    assert "location" not in answer.headers


def test_the_developers_own_login_is_asked_and_led_back_to():
    desk = Desk(users={}, is_external=True, login_url="https://auth.example/login?a=1")
    answer = desk.authorize(desk.client())
    assert answer.location.startswith("https://auth.example/login?a=1&next=https%3A%2F%2Fauth")
    desk = Desk(users={}, is_external=True)
    answer = desk.authorize(desk.client())
    assert answer.status == 401
    assert "not logged in" in answer.text
