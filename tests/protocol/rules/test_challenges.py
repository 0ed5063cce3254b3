"""Challenges in recordings: their parameters, and what reading a hostile one takes."""

import pytest

from accord.protocol.rules.http.exchanges import bearer_challenge
from accord.trace import HttpFacts
from support.tables import cases


def read(text):
    return bearer_challenge(HttpFacts(status=401, headers={"www-authenticate": text}))


@cases(
    ("text", "found"),
    [
        ("Basic realm=x", None),
        ("Bearer", {}),
        ('Bearer realm="a b", error=invalid_token', {"realm": "a b", "error": "invalid_token"}),
        ('Basic realm=x, Bearer Scope="a", ERROR = "b"', {"scope": "a", "error": "b"}),
        ("Bearer a=1, a=2", {"a": "1"}),
        ('Bearer a="x\\"y",b=2', {"a": 'x\\"y', "b": "2"}),
        ('Bearer a="x"b=2', {"a": "x", "b": "2"}),
        ("Bearer x.resource_metadata=https://a/?b=c", {"resource_metadata": "https://a/?b=c"}),
        ('Bearer a="unended', {}),
        ("Bearer a=", {}),
        ("Bearer aaa bbb", {}),
    ],
)
def test_the_parameters_of_a_challenge_are_read(text, found):
    assert read(text) == found


PARTS = ["a", "a ", "a=", 'a="', 'a="\\', "a=\\", "= ", " ", ",", '"', "a-", '\\"', '="', "\u00e9"]


# Where time grows with the square of the length, these take an hour.
@pytest.mark.timeout(60)
@cases("part", PARTS)
@cases("start", ["Bearer ", 'Bearer a="', "Bearer a="])
def test_a_challenge_of_a_megabyte_is_read_in_time_that_grows_with_its_length(start, part):
    found = read(start + part * (1_000_000 // len(part)))
    assert found is not None
