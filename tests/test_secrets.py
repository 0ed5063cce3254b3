"""Secrets in recordings are recognised by name, by form and by the text before them."""

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as draw
from msgspec.structs import replace

from accord.secrets.filter import HIDDEN, SecretFilter, find_given, hide_forms
from accord.secrets.masks import TOO_DEEP, Secrets
from accord.secrets.recognition import is_secret_name
from accord.trace import HttpFacts, Record
from support.encodings import assert_hidden, encodings
from support.tables import cases


def record(message=None, raw=None, **headers):
    http = HttpFacts("POST", None, {name.replace("_", "-"): text for name, text in headers.items()})
    body = None if message is None else msgspec.Raw(json.dumps(message).encode())
    return Record(sender="client", message=body, raw=raw, http=http if headers else None)


def masked(message, masks=None):
    return json.loads(bytes((masks or Secrets()).apply(record(message)).message))


@cases("key", ["password", "apiKey", "api_key", "client_secret", "access_token", "Authorization"])
def test_a_member_with_the_name_of_a_secret_is_masked_at_any_depth(key):
    assert masked({"a": [{key: "hush"}]}) == {"a": [{key: "masked-1"}]}
    assert masked({"b": {key: ""}}) == {"b": {key: ""}}


@cases(
    "secret",
    [
        "sk-0123456789abcdefghij",
        "ghp_0123456789abcdefghijABCDEFGHIJ",
        "xoxb-0123456789-abc",
        "AKIA0123456789ABCDEF",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0abc.c2lnbmF0dXJl",
    ],
    ids=["sk", "ghp", "xoxb", "AKIA", "JWT"],
)
def test_a_secret_is_recognised_by_its_form_in_any_text(secret):
    assert masked({"text": f"use {secret}, please"}) == {"text": "use masked-1, please"}
    assert Secrets().apply(record(raw=f"!{secret}")).raw == "!masked-1"


def test_a_secret_in_a_text_that_is_json_is_masked_by_the_name_of_its_member():
    text = json.dumps({"rows": [{"token": "hush"}]})
    masks = Secrets()
    found = masked({"text": text, "structuredContent": {"token": "hush"}}, masks)
    assert json.loads(found["text"]) == {"rows": [{"token": "masked-1"}]}
    assert found["structuredContent"] == {"token": "masked-1"}
    assert masked({"text": '{"rows": "plain"}'}) == {"text": '{"rows": "plain"}'}
    assert masked({"text": '{"token": broken'}) == {"text": '{"token": broken'}


def test_the_same_secret_has_the_same_number_and_another_has_another():
    masks = Secrets()
    assert masked({"token": "one"}, masks) == {"token": "masked-1"}
    assert masked({"token": "two"}, masks) == {"token": "masked-2"}
    assert masked({"token": "one"}, masks) == {"token": "masked-1"}


def test_headers_are_masked_unless_they_are_known_to_be_harmless():
    seen = Secrets().apply(
        record(
            None,
            raw="",
            authorization="Bearer hush",
            x_api_key="hush",
            cookie="hush=1",
            mcp_session_id="hush",
            content_type="application/json",
            mcp_protocol_version="2025-06-18",
        )
    )
    assert seen.http is not None
    assert seen.http.headers == {
        "authorization": "Bearer masked-1",
        "x-api-key": "masked-1",
        "cookie": "masked-2",
        "mcp-session-id": "masked-1",
        "content-type": "application/json",
        "mcp-protocol-version": "2025-06-18",
    }


SECRET_NAMES = [
    "password",
    "passwd",
    "db-password",
    "pwd",
    "PWD",
    "passphrase",
    "passcode",
    "secret",
    "secrets",
    "clientSecret",
    "token",
    "tokens",
    "access_token",
    "refreshTokens",
    "apiKey",
    "APIKEY",
    "x-api-key",
    "private_key",
    "accessKey",
    "ssh-key",
    "credentials",
    "auth",
    "basic_auth",
    "auth_header",
    "Authorization",
    "otp",
    "totp",
    "jwt",
    "bearer",
    "cookie",
    "Set-Cookie",
    "sessionId",
    "connection_string",
    "connectionString",
    "dsn",
    "connStr",
]
PLAIN_NAMES = [
    "progressToken",
    "progress_token",
    "maxTokens",
    "max_tokens",
    "input_tokens",
    "outputTokens",
    "total_tokens",
    "cache_read_input_tokens",
    "completion_tokens",
    "nextCursor",
    "cursor",
    "key",
    "keys",
    "name",
    "author",
    "authority",
    "authorization_endpoint",
    "authorization_servers",
    "token_type",
    "token_endpoint",
    "secretary",
    "passed",
    "session",
    "tokenizer",
    "connection",
    "dsname",
    "laptop",
]


@cases("name", SECRET_NAMES)
def test_the_name_of_a_secret_is_recognised(name):
    assert is_secret_name(name)


@cases("name", PLAIN_NAMES)
def test_an_ordinary_name_is_not_the_name_of_a_secret(name):
    assert not is_secret_name(name)


def test_a_secret_of_any_type_is_masked_with_everything_below_it():
    found = masked(
        {
            "password": 12345,
            "secret": {"v": "a", "deep": [{"n": 1.5}, "b"]},
            "auth": "Bearer abc",
            "otp": 123456,
            "tokens": ["x", {"y": "z"}],
        }
    )
    assert found == {
        "password": "masked-1",
        "secret": {"v": "masked-2", "deep": [{"n": "masked-3"}, "masked-4"]},
        "auth": "masked-5",
        "otp": "masked-6",
        "tokens": ["masked-7", {"y": "masked-8"}],
    }


def test_a_secret_beside_its_name_is_masked():
    pairs = [{"name": "API_KEY", "value": "x"}, {"key": "Authorization", "value": "y"}]
    assert [each["value"] for each in masked({"env": pairs})["env"]] == ["masked-1", "masked-2"]
    assert masked({"env": [{"name": "HOME", "value": "/"}], "token": None})["env"] == [
        {"name": "HOME", "value": "/"}
    ]


FIGURES = {
    "params": {"maxTokens": 100, "_meta": {"progressToken": "abc"}, "cursor": "a-key-of-a-page"},
    "result": {
        "nextCursor": "secret-looking-token",
        "usage": {"max_tokens": 5, "input_tokens": 7, "tokens": 12, "total_tokens": 19},
        "tokens": {"input": 7, "output": 5},
        "hasPassword": True,
        "token": None,
        "keys": ["k"],
    },
}


def test_names_of_the_protocol_and_figures_stay_readable():
    whole = record(FIGURES)
    assert Secrets().apply(whole) is whole
    text = record({"text": json.dumps(FIGURES)})
    assert Secrets().apply(text) is text


PROSE = [
    "write auth=Protected(StaticTokens(...))",
    "say --env TOKEN=VALUE",
    "Enter your password: it must have 8 characters.",
    "Authorization: see the section below; basic functionality and bearer authentication.",
    "max_tokens=100, tokens=12, temperature=0.5",
    "def f(token=None, key=lambda each: each, secret=False): ...",
    "export API_KEY=$API_KEY password=<yours> secret=*** token=${TOKEN}",
    "https://example.com/search?q=token&page=2#key",
    "ssh://git@example.com/repo.git, mail me@example.com",
    "The tokenizer makes 12 tokens of it; npm_config_registry, hf_hub, sk-learn, AIza.",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "the key 'token': a word",
    "The password is case-sensitive, and the token is base64-encoded or utf-8.",
    "Your password is too short: it is 8 characters, 12-16 are better; the secret is out.",
    "The token is https://example.com/token1; the passcode is 6-digit, my pin is on the map.",
    "mapping: 1234, spin: 100 times, pin: 100 things, opinion is 1234, cvc is a code, pin 13",
    "the order 4111111111111112, at 1700000000000 ms, ISBN 9783161484100, call 1234 5678 9012 3456",
    "version 4.1111111111111111, id 41111111-1111-1111-8111-111111111111, 4111111111111111_0",
]


@cases("text", PROSE)
def test_ordinary_text_stays_as_it_is(text):
    whole = record({"text": text})
    assert Secrets().apply(whole) is whole


def test_ordinary_members_and_numbers_stay_as_they_are():
    whole = record(
        {
            "pin": 13,
            "pinned": 1234,
            "spin": 1234,
            "pinCode": 110001,
            "cvcs": "123",
            "card": {"title": "Visa"},
            "cardNumber": "n/a",
            "cards": 4111111111111111,
            "hasPin": True,
            "mapPin": "north",
            "id": 4111111111111111,
            "at": 1700000000000000,
        }
    )
    assert Secrets().apply(whole) is whole


CARDS = [
    "4111 1111 1111 1111",
    "4111-1111-1111-1111",
    "4111111111111111",
    "4222222222222",
    "378282246310005",
    "3782 822463 10005",
    "5555555555554444",
    "2223003122003222",
    "6011111111111117",
    "3530111333300000",
    "30569309025904",
]


@cases("number", CARDS)
def test_the_number_of_a_card_is_masked_in_any_text(number):
    assert masked({"text": f"charge {number}, please"}) == {"text": "charge masked-1, please"}
    assert masked({"text": f"it is {number}."}) == {"text": "it is masked-1."}
    assert masked({"note": [number, f"a\n{number}\tb"]}) == {"note": ["masked-1", "a\nmasked-1\tb"]}


def test_short_codes_and_cards_are_masked_by_the_name_of_their_member():
    whole = {"pin": "1234", "cardPin": 123456, "cvv": 123, "CVC2": "1234", "csc": "999"}
    card = {"number": 5, "card_number": 4111111111111111, "ccNo": "4111111111111111"}
    assert list(masked(whole).values()) == [f"masked-{number}" for number in (1, 2, 3, 1, 4)]
    assert masked({"card": card}) == {
        "card": {"number": 5, "card_number": "masked-1", "ccNo": "masked-1"}
    }
    assert masked({"text": '{"pin": "1234", cvv=123'}) == {
        "text": '{"pin": "masked-2", cvv=masked-1'
    }


FORMS = [
    "github_pat_11ABCDEFG0abcdefghij_KLMNOPQRSTUVWXYZ",
    "AIzaSyA-1234567890abcdefghijklmnopqrstu",
    "sk_live_51HabcdefGHIJ",
    "rk_live_51HabcdefGHIJ",
    "sk_test_51HabcdefGHIJ",
    "hf_AbCdEfGhIjKlMnOpQrStUvWxYz",
    "npm_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "glpat-AbCdEfGhIjKlMnOpQrSt",
    "xapp-1-A0123456789",
    "ya29.a0AfH6SMBabcdefghij",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nMIIE cut off",
]


@cases("secret", FORMS)
def test_a_key_is_recognised_by_its_form(secret):
    assert masked({"text": f"use {secret}"}) == {"text": "use masked-1"}
    assert Secrets().mask_text(f'{{"x": "{secret}') == '{"x": "masked-1'


GIVEN = [
    ("my password is hunter2", "my password is masked-1"),
    ("My password is hunter2. Help!", "My password is masked-1. Help!"),
    ("the passphrase was: Tr0ub4dor&3, then", "the passphrase was: masked-1, then"),
    ("the password is 'swordfish'", "the password is 'masked-1'"),
    ("password is P@ssword", "password is masked-1"),
    ("my pwd is 12345678", "my pwd is masked-1"),
    ("the api key is abc-123-def", "the api key is masked-1"),
    ("my PIN is 1234, the CVV: 123", "my PIN is masked-1, the CVV: masked-2"),
    ("pin=1234&x=1", "pin=masked-1&x=1"),
    ("Authorization: Bearer abc", "Authorization: Bearer masked-1"),
    ("-H 'Authorization: Basic dXNlcg=='", "-H 'Authorization: Basic masked-1'"),
    ("authorization=0123abc", "authorization=masked-1"),
    ("sent Bearer 0123456789abcdef", "sent Bearer masked-1"),
    ("login password=hunter2 ok", "login password=masked-1 ok"),
    ("DB_PASSWORD='two words' run", "DB_PASSWORD='masked-1' run"),
    ('api_key="abc";', 'api_key="masked-1";'),
    ("postgresql://me:hunter2@db/x", "postgresql://me:masked-1@db/x"),
    ("https://0123456789abcdefghij@example.com", "https://masked-1@example.com"),
    ("https://e.example/?a=1&token=abc&b", "https://e.example/?a=1&token=masked-1&b"),
    ("https://e.example/?key=abc&b=2", "https://e.example/?key=masked-1&b=2"),
    ("https://e.example/?sig=abc%3D", "https://e.example/?sig=masked-1"),
    ("{'password': 'hunter2', 'n': 1}", "{'password': 'masked-1', 'n': 1}"),
    ("GET / HTTP/1.1\nCookie: a=b; c=d\nHost: x", "GET / HTTP/1.1\nCookie: masked-1\nHost: x"),
]


@cases(("text", "shown"), GIVEN)
def test_a_secret_is_recognised_by_the_text_before_it(text, shown):
    masks = Secrets()
    assert masked({"text": text}, masks) == {"text": shown}
    assert masked({"text": shown}, masks) == {"text": shown}
    assert Secrets().apply(record(raw=text)).raw == shown


def test_a_name_with_json_escapes_is_recognised():
    body = msgspec.Raw(b'{"\\u0070asswor\\u0064": "hush"}')
    shown = Secrets().apply(Record(sender="client", message=body)).message
    assert json.loads(bytes(shown)) == {"password": "masked-1"}


def test_schemas_and_capabilities_keep_their_shape():
    properties = {
        "password": {"type": "string", "description": "the password", "default": "hush"},
        "tokens": {"type": "integer", "default": 5},
        "auth": {"type": "object", "properties": {"token": {"type": "string"}}},
    }
    message = {
        "capabilities": {"extensions": {"example/oauth-client-credentials": {"mode": "plain"}}},
        "tools": [{"name": "token", "inputSchema": {"type": "object", "properties": properties}}],
        "requestedSchema": {"type": "object", "properties": properties},
        "inputRequests": {"api_key": {"method": "elicitation/create"}},
    }
    expected = json.loads(json.dumps(message).replace('"hush"', '"masked-1"'))
    assert masked(message) == expected


def test_bytes_in_base64_stay_as_they_are():
    image = {
        "type": "image",
        "data": "abc/AIzaSyA1234567890abcdefghijklmnopqrstu",
        "mimeType": "i/p",
    }
    whole = record({"content": [image]})
    assert Secrets().apply(whole) is whole


def test_a_number_that_is_secret_is_not_found_in_dates_and_longer_numbers():
    masks = Secrets()
    masked({"otp": 2025}, masks)
    text = masks.mask_text('{"otp":2025} in 2025-06-18, 12025 and v2025.1')
    assert text == '{"otp":masked-1} in 2025-06-18, 12025 and v2025.1'


# -- facts of HTTP


def facts(**known):
    masks = known.pop("masks", None) or Secrets()
    return masks.apply(Record(sender="client", transport="http", http=HttpFacts(**known))).http


def test_secrets_in_a_query_are_masked_by_name_by_form_and_if_seen_elsewhere():
    masks = Secrets()
    head = facts(headers={"authorization": "Bearer hush-hush"}, masks=masks)
    assert head.headers == {"authorization": "Bearer masked-1"}
    query = "session_id=abc&page=2&key=k1&t=hush-hush&u=ghp_0123456789abcdefghijABCDEFGHIJ&e="
    found = facts(query=query, masks=masks).query
    assert found == "session_id=masked-2&page=2&key=masked-3&t=masked-1&u=masked-4&e="
    assert facts(query=found, masks=masks).query == found


def test_an_escaped_value_of_a_query_has_the_mask_of_the_plain_one():
    masks = Secrets()
    assert facts(query="token=a%2Fb", masks=masks).query == "token=masked-1"
    assert facts(query="access_token=a/b", masks=masks).query == "access_token=masked-1"


def test_a_key_in_a_path_is_masked():
    assert facts(path="/u/8f14e45fceea167a5a36dedd4bea2543/mcp").path == "/u/masked-1/mcp"
    assert facts(path="/.well-known/oauth-protected-resource/mcp").path == (
        "/.well-known/oauth-protected-resource/mcp"
    )


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("/messages?session_id=abc", "/messages?session_id=masked-1"),
        (
            "http://me:pw@127.0.0.1/messages?sessionId=abc",
            "http://127.0.0.1/messages?sessionId=masked-1",
        ),
        ("messages", "messages"),
    ],
)
def test_an_endpoint_event_is_masked_like_the_requests_to_it(place, expected):
    masks = Secrets()
    assert facts(event="endpoint", data=place, masks=masks).data == expected
    query = place.partition("?")[2]
    assert facts(query=query, masks=masks).query == expected.partition("?")[2]


def test_data_of_other_events_is_masked_as_text():
    assert facts(event="log", data='{"password": "hush"}').data == '{"password":"masked-1"}'


def test_headers_that_repeat_the_body_are_masked_as_the_body_is():
    masks = Secrets()
    body = {"params": {"arguments": {"password": "hush", "region": "eu"}}}
    sent = {"mcp-param-password": "hush", "mcp-param-region": "eu", "mcp-name": "=?base64?YWRk?="}
    made = masks.apply(replace(record(body), transport="http", http=HttpFacts(headers=sent)))
    assert json.loads(bytes(made.message))["params"]["arguments"]["password"] == "masked-1"
    assert made.http.headers == {**sent, "mcp-param-password": "masked-1"}
    assert facts(headers={"mcp-param-x": "=?base64?!?="}).headers == {"mcp-param-x": "masked-1"}
    hidden = {"mcp-param-x": "=?base64?aHVzaA==?="}
    assert facts(headers=hidden, masks=masks).headers == {"mcp-param-x": "masked-1"}


def test_a_session_id_of_wrong_characters_has_another_mask():
    assert facts(headers={"mcp-session-id": "a b"}).headers == {
        "mcp-session-id": "masked-1 (not visible ASCII)"
    }
    assert facts(headers={"mcp-session-id": "ab"}).headers == {"mcp-session-id": "masked-1"}


def test_an_event_id_that_is_a_known_secret_is_masked_in_both_directions():
    masks = Secrets()
    facts(headers={"mcp-session-id": "s-1"}, masks=masks)
    assert facts(id="s-1", masks=masks).id == "masked-1"
    assert facts(headers={"last-event-id": "s-1"}, masks=masks).headers == {
        "last-event-id": "masked-1"
    }
    assert facts(id="e-1", masks=masks).id == "e-1"


# -- credentials that are known

TOKEN = "tok/en+of=the~user.4711-secret"


@cases("form", [*encodings(TOKEN)])
def test_a_secret_is_hidden_in_every_encoding(form):
    text = f"it said {encodings(TOKEN)[form]}!"
    shown = SecretFilter([TOKEN]).hide(text)
    assert HIDDEN in shown
    assert shown.startswith("it said ")
    assert_hidden(TOKEN, shown.replace(HIDDEN, " "))


@cases("length", [*range(4, len(TOKEN))])
def test_a_secret_is_hidden_where_a_text_was_cut(length):
    # The token has a dot itself, which may be taken for a part of the cut.
    for cut in ("", "...", "…"):
        shown = SecretFilter([TOKEN]).hide(f"it said {TOKEN[:length]}{cut}")
        assert shown.rstrip(".…") == f"it said {HIDDEN}"
    shown = SecretFilter([TOKEN]).hide(f"...{TOKEN[-length:]} it said")
    assert shown.lstrip(".") == f"{HIDDEN} it said"


def test_parts_of_a_secret_are_hidden_too():
    shown = SecretFilter([TOKEN]).hide(f"one {TOKEN[:15]} two {TOKEN[15:]} three")
    assert shown == f"one {HIDDEN} two {HIDDEN} three"


def test_other_texts_stay_as_they_are():
    text = "answers tools/list with a token of its own"
    assert SecretFilter([TOKEN]).hide(text) == text
    assert SecretFilter([]).hide(text) == text


def test_short_secrets_are_hidden_as_a_whole():
    assert SecretFilter(["hunter2"]).hide("hunter hunter2") == f"hunter {HIDDEN}"


def hide_slowly(secrets, text):
    """Hide secrets without looking first whether there are any."""
    slow = SecretFilter(secrets)
    places: set[int] = set()
    for length, runs in slow._runs.items():
        for at in range(len(text) - length + 1):
            if text[at : at + length] in runs:
                places.update(range(at, at + length))
    marked = "".join("\0" if at in places else letter for at, letter in enumerate(text))
    return slow._hide_stumps(re.sub("\0+", HIDDEN, marked), at_ends=True)


PARTED = ("hunter2-hunter", "äöü-secret/+=", "123456789012345678901234567890", "abcdef")


@given(
    draw.lists(
        draw.one_of(
            draw.sampled_from([*PARTED, "...", "…", " ", "abc", "2-hun", "Ymk="]),
            draw.builds(
                lambda secret, at, length: secret[at : at + length],
                draw.sampled_from(PARTED),
                draw.integers(0, 20),
                draw.integers(1, 20),
            ),
        ),
        max_size=6,
    )
)
def test_looking_first_finds_the_same_secrets(parts):
    text = "".join(parts)
    assert SecretFilter(PARTED).hide(text) == hide_slowly(PARTED, text)


@cases("secret", ['qu"oted\\word', "caf\u00e9-word", "a/b/c/d/e/f/g", "tab\tword-1"])
def test_an_escaped_credential_is_hidden_within_json_of_json(secret):
    for inner in (json.dumps({"a": secret}), json.dumps({"a": secret}, ensure_ascii=False)):
        for text in (inner, inner.replace("/", "\\/")):
            for body in (json.dumps({"raw": text}), json.dumps({"raw": text}, ensure_ascii=False)):
                clean = json.loads(SecretFilter([secret]).hide(body, may_be_cut=False))
                assert json.loads(clean["raw"]) == {"a": HIDDEN}


def test_addresses_that_begin_like_a_secret_one_stay():
    hide = SecretFilter(["https://api.example.com/v1/0123456789"]).hide
    shown = "see https://api.example.com/v1/docs"
    assert hide(shown) == shown
    assert hide("at https://api.example.com/v1/0123456789!") == f"at {HIDDEN}!"


def test_credentials_in_a_message_get_their_numbers_and_leave_it_json():
    secrets = Secrets(['one"with\\signs/in-it', "another-credential"])
    text = json.dumps({"b": 'another-credential and one"with\\signs', "c": ["\\signs/in-it" * 2]})
    made = masked({"another-credential": [text], "a": 'one"with\\signs/in-it'}, secrets)
    assert made.pop("a") == "masked-1"
    assert list(made) == ["masked-2"]
    assert "another-cred" not in str(made)
    assert "signs/in" not in str(made)


def test_a_message_that_is_nested_too_deeply_is_not_shown():
    data = b'{"token":' + b"[" * 5000 + b"]" * 5000 + b"}"
    deep = Record(sender="server", message=msgspec.Raw(data))
    seen = Secrets().apply(deep)
    assert (seen.message, seen.raw) == (None, TOO_DEEP)
    assert Secrets().hide_json(data) == b"null"


def test_a_member_of_json_within_a_text_is_masked_at_any_level():
    text = json.dumps({"password": "hush-1", "user": "me"})
    for _ in range(2):
        assert "hush-1" not in hide_forms(f"it said: {text}")
        assert "me" in hide_forms(f"it said: {text}")
        text = json.dumps(text)


def test_half_a_surrogate_pair_does_not_stop_the_masking():
    data = b'{"token": "hush", "text": "\\ud800"}'
    assert json.loads(Secrets().hide_json(data)) == {"token": "masked-1", "text": "\ud800"}


@cases(
    ("said", "found"),
    [
        ({"url": "https://me:pw%20one@a.example/?k=queried"}, ["pw%20one", "queried", "pw one"]),
        ({"url": "https://a.example/x"}, []),
        ({"headers": {"Accept": "application/json", "X-Key": "in-a-header"}}, ["in-a-header"]),
        ({"headers": {"Authorization": "Bearer tok-en-1"}}, ["tok-en-1"]),
        (
            {"env": {"API_KEY": "hunter2", "HOME": "/home/me", "KEY_PATH": "/etc/keys/x"}},
            ["hunter2"],
        ),
        ({"env": {"PROXY": "http://me:abcdef7@h/"}}, ["http://me:abcdef7@h/"]),
        ({"command": ["x", "--token", "word-1", "API_KEY=word-2", "-v"]}, ["word-1", "word-2"]),
        ({"more": ["short", "postgres://u:pass-w@h/db"]}, ["postgres://u:pass-w@h/db", "pass-w"]),
    ],
)
def test_credentials_are_found_in_what_the_user_gives(said, found):
    assert list(find_given(**said)) == found
