"""WWW-Authenticate as servers and proxies write it."""

import pytest

from accord.bindings.http_responses import bearer_challenge, parse_challenges


@pytest.mark.requirement("auth.challenge.client-parses")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Bearer", [("bearer", {})]),
        (
            'Bearer realm="a, b", resource_metadata="https://h.example/x", scope="a b"',
            [
                (
                    "bearer",
                    {"realm": "a, b", "resource_metadata": "https://h.example/x", "scope": "a b"},
                )
            ],
        ),
        (
            'Basic realm="x", bearer ERROR=invalid_token',
            [("basic", {"realm": "x"}), ("bearer", {"error": "invalid_token"})],
        ),
        ("Negotiate abc==, Bearer scope=a", [("negotiate", {}), ("bearer", {"scope": "a"})]),
        ("Negotiate abc, Bearer scope=a", [("negotiate", {}), ("bearer", {"scope": "a"})]),
        (r'Bearer realm="say \"x\""', [("bearer", {"realm": 'say "x"'})]),
        ('Bearer scope = "a" , error="b"', [("bearer", {"scope": "a", "error": "b"})]),
        ("Basic, Bearer", [("basic", {}), ("bearer", {})]),
        ('Bearer scope="a", scope="b"', [("bearer", {"scope": "a"})]),
        ("", []),
        (",,,", []),
        ('="', []),
        ('="x", Bearer scope=a', [("bearer", {"scope": "a"})]),
        ('Bearer scope="unterminated', [("bearer", {})]),
    ],
    ids=str,
)
def test_challenges_are_read(value, expected):
    found = [(each.scheme, dict(each.params)) for each in parse_challenges([value])]
    assert found == expected


def test_of_several_headers_the_bearer_challenge_that_says_most_is_found():
    found = bearer_challenge(["Basic", "Bearer", 'Bearer scope="a b a", error="x"'])
    assert found is not None
    assert found.scopes == ("a", "b")
    assert found.error == "x"
    assert bearer_challenge(["Basic"]) is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("Bearer", ((), "", None)),
        ('Bearer scope="", error="", resource_metadata=""', ((), "", None)),
        ("Bearer resource_metadata=https://h.example/x", ((), "", "https://h.example/x")),
    ],
    ids=["nothing", "nothing in quotes", "metadata"],
)
def test_missing_parts_of_a_challenge_are_empty(value, said):
    found = bearer_challenge([value])
    assert found is not None
    assert (found.scopes, found.error, found.resource_metadata) == said


def test_a_header_made_to_be_slow_is_read_in_no_time():
    for value in ('Bearer a="' + "\\" * 100_000, "a=" * 50_000, "Bearer " + " ,=" * 30_000):
        parse_challenges([value])
