"""The notation of shapes, and the sentences about objects that do not have theirs."""

from typing import Any

from accord.protocol.rules._rule import Breach, combine
from accord.protocol.rules.shapes import BodyShape, judge_member
from accord.protocol.rules.values import join_words, quote
from accord.protocol.violation import FAIL
from support.tables import cases


def _judge(text: str, holder: Any, place: str = "the task") -> list[str]:
    """The findings as text; those that always fail are marked."""
    found = combine(BodyShape(text).judge(holder, place))
    if found is None or found is True:
        return [str(found)]
    assert isinstance(found, list)
    breaches = [each for each in found if isinstance(each, Breach)]
    assert len(breaches) == len(found)
    return [f"{each.why} (fail)" if each.severity == FAIL else each.why for each in breaches]


@cases(
    ("text", "holder", "findings"),
    [
        ("name: string", {"name": "a"}, ["True"]),
        ("name: string", {}, ["sends the task without name"]),
        ("name: string, size: integer, at: time", {}, ["sends the task without name, size and at"]),
        ("name?: string", {}, ["None"]),
        ("name: any", {"name": None}, ["True"]),
        (
            "name: string",
            {"name": 5},
            ["sends name of the task as the number 5, expected a string (fail)"],
        ),
        (
            "at: time",
            {"at": "noon"},
            ["sends at of the task as the string 'noon', expected a time in ISO 8601"],
        ),
        (
            "role: user|assistant",
            {"role": "judge"},
            ["sends role of the task as the string 'judge', expected user or assistant"],
        ),
        ("error.code: integer", {}, ["None"]),
        ("error.code: integer", {"error": {}}, ["sends error of the task without code"]),
        (
            "error: {code: integer, data?: {*: string}}",
            {"error": {"code": 1, "data": {"k": 2}}},
            ["sends error.data.k of the task as the number 2, expected a string (fail)"],
        ),
        ("tools[].name: string", {"tools": [{"name": "a"}, 5]}, ["True"]),
        ("tools[].name: string", {"tools": [{}]}, ["sends tools[0] of the task without name"]),
        (
            "tools: array, tools[]: object",
            {"tools": [{}, 5]},
            ["sends tools[1] of the task as the number 5, expected an object (fail)"],
        ),
    ],
)
def test_an_object_is_judged_by_its_shape(text: str, holder: Any, findings: list[str]) -> None:
    assert _judge(text, holder) == findings


def test_a_member_of_an_object_in_an_array_is_named_by_its_path() -> None:
    assert _judge("name: string", {"name": None}, "tools[3]") == [
        "sends tools[3].name as null, expected a string (fail)"
    ]


def test_a_shape_of_the_body_speaks_for_the_body_as_a_whole() -> None:
    assert BodyShape("body: {name: string}").is_whole
    assert not BodyShape("name: string").is_whole


def test_a_single_member_is_judged_like_a_shape() -> None:
    assert judge_member({"uri": "a"}, "a link", "uri", "string") is True
    missing = Breach("sends a link without uri", at=("a link",))
    assert judge_member({}, "a link", "uri", "string") == missing
    assert judge_member({}, "a link", "uri", "string", required=False) is None
    why = "sends uri of a link as a boolean, expected a string"
    wrong = Breach(why, severity=FAIL, at=("a link", "uri"))
    assert judge_member({"uri": True}, "a link", "uri", "string") == wrong


def test_values_are_quoted_as_json_writes_them_and_shortened() -> None:
    assert [quote(each) for each in (None, True, 5, "a")] == ["null", "true", "5", "'a'"]
    assert len(quote("a" * 500)) < 100
    assert quote(["a" * 500]).endswith("...")


def test_at_most_five_findings_are_reported() -> None:
    assert combine(["a", True, None, *"bcdefg"]) == ["a", "b", "c", "d", "e"]
    assert len(_judge("tools[].name: string", {"tools": [{}] * 9})) == 5


def test_words_are_joined_as_in_a_sentence() -> None:
    assert [join_words(list(each), "or") for each in ("a", "ab", "abc")] == [
        "a",
        "a or b",
        "a, b or c",
    ]
