"""What people see and do: login, consent, and what others cannot make them do."""

import re
from urllib.parse import urlsplit

import pytest

from accord.auth.authorization_server.known import KnownClient
from support.oauth import FORM, RETURN, Desk, request_query


@pytest.fixture
def desk():
    return Desk()


def test_the_consent_page_says_who_asks_for_what_where_and_where_one_ends_up(desk):
    page = desk.consent(desk.client(), scope="read write")
    assert page.status == 200
    for told in (
        "Notes",
        "Nobody has verified it",
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


def test_without_scopes_the_page_says_that_everything_is_allowed():
    desk = Desk(scopes={})
    assert "everything that the server offers" in desk.consent(desk.client(), scope=None).text


def test_without_a_scope_of_those_that_there_are_the_page_says_so():
    desk = Desk(default_scopes=())
    page = desk.consent(desk.client(), scope=None)
    assert "needs no permission of its own" in page.text
    assert "<code></code>" not in page.text


def test_what_programs_say_about_themselves_is_text_and_nothing_else(desk):
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


def test_a_wrong_password_is_not_told_from_a_wrong_name(desk):
    page = desk.authorize(desk.client())
    wrong = desk.submit(page, name="ada", password="byron")
    nobody = desk.submit(page, name="eve", password="lovelace")
    assert wrong.status == nobody.status == 401
    assert "do not fit" in wrong.text
    assert wrong.text.replace('value="ada"', "") == nobody.text.replace('value="eve"', "")
    assert desk.submit(wrong, name="ada", password="lovelace").status == 303


def test_guessing_a_password_is_slowed_down(desk):
    page = desk.authorize(desk.client())
    for number in range(10):
        desk.address = f"192.0.2.{number}"
        assert desk.submit(page, name="ada", password="guess").status == 401
    answer = desk.submit(page, name="ada", password="lovelace")
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) > 0
    desk.now += 301
    assert desk.submit(page, name="ada", password="lovelace").status == 303


def test_trying_many_names_from_one_address_is_slowed_down(desk):
    page = desk.authorize(desk.client())
    statuses = [desk.submit(page, name=f"n{n}", password="x").status for n in range(21)]
    assert statuses == [401] * 20 + [429]


def test_a_login_lasts_for_a_while_and_is_kept_as_a_hash(desk):
    client = desk.client()
    desk.consent(client)
    assert desk.cookie is not None
    assert desk.store.login(desk.cookie, desk.now) is None
    assert "Allow" in desk.authorize(client).text
    desk.now += 3601
    assert 'name="password"' in desk.authorize(client).text


def test_a_login_gives_the_browser_a_new_name(desk):
    page = desk.authorize(desk.client())
    before = desk.cookie
    desk.submit(page, name="ada", password="lovelace")
    assert desk.cookie != before


def test_somebody_else_may_log_in_instead(desk):
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


def test_nobody_allows_anything_before_they_are_known(desk):
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
    desk = Desk(users={}, person="ada")
    page = desk.authorize(desk.client())
    assert ">Allow</button>" in page.text
    assert "somebody else" not in page.text
    assert "code" in desk.submit(page, decision="allow").returned


def test_where_nobody_is_asked_programs_return_to_this_computer_alone():
    far = KnownClient(client_id="far", redirect_uris=("https://app.example/cb",))
    desk = Desk(users={}, person="ada", auto_approve=True, clients={"far": far.client})
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
