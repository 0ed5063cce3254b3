"""Servers that complete wrongly."""

from typing import Any

from check.faults import named
from check.mutants.foundation import Message, mutant, params_of, unbreakable
from check.mutants.spoiling import ABSENT, NULL, SECOND, answer, refusal, undeclared, wrong

COMPLETE = "completion/complete"

undeclared("completion.capability.declared", "completions")


wrong("completion.result.values", COMPLETE, "completion.values", [1, 2])
wrong(
    "completion.result.max-100",
    COMPLETE,
    "completion.values",
    [f"value {number}" for number in range(101)],
)
wrong("completion.result.total-and-has-more", COMPLETE, "completion.total", "many")


refusal("completion.errors.codes", COMPLETE, -32602)

unbreakable("only the server can say which values are relevant", "completion.server.care")

# -- the same rows, broken in other ways

wrong("completion.capability.declared", "initialize", "capabilities.completions", None, also=NULL)


@answer("completion.capability.declared", "initialize")
def declares_completion_in_the_singular(result: dict[str, Any]) -> None:
    result["capabilities"]["completion"] = result["capabilities"].pop("completions")


wrong("completion.result.values", COMPLETE, "completion.values", ABSENT)
wrong("completion.result.values", COMPLETE, "completion", ["Peru", "Japan"])
wrong("completion.result.values", COMPLETE, "completion.values", [{"value": "Peru"}], SECOND)
wrong("completion.result.values", COMPLETE, "completion", ABSENT)
wrong("completion.result.max-100", COMPLETE, "completion.values", ["v"] * 5000, SECOND)
MANY = {"values": [str(number) for number in range(101)], "hasMore": True, "total": 101}
wrong("completion.result.max-100", COMPLETE, "completion", MANY)
wrong("completion.result.total-and-has-more", COMPLETE, "completion.hasMore", "no")
wrong("completion.result.total-and-has-more", COMPLETE, "completion.total", None, SECOND)
wrong("completion.result.total-and-has-more", COMPLETE, "completion.total", 1.5)


def answering(name: str, type_: str, code: int | None) -> None:
    """Register a server that answers an unknown reference with another code, or a result."""

    def change(message: Message, request: Message) -> Message:
        reference = params_of(request).get("ref") or {}
        if reference.get("type") == type_ and "error" in message:
            if code is None:
                del message["error"]
                message["result"] = {"completion": {"values": []}}
            else:
                message["error"]["code"] = code
        return message

    mutant("completion.errors.codes")(named(name, change))


answering("suggests_nothing_for_a_reference_of_an_unknown_type", "ref/accord-check", None)
answering("calls_an_unknown_type_an_unknown_method", "ref/accord-check", -32601)
answering("calls_an_unknown_prompt_a_missing_resource", "ref/prompt", -32002)
answering("suggests_nothing_for_an_unknown_prompt", "ref/prompt", None)


# -- without a handshake

LIMIT = "completion.values-max-100"
NEW = "2026-07-28"
wrong(LIMIT, COMPLETE, "completion.values", [f"value {each}" for each in range(101)], revision=NEW)
wrong(LIMIT, COMPLETE, "completion", MANY, revision=NEW)
wrong(LIMIT, COMPLETE, "completion.values", ["v"] * 5000, SECOND, revision=NEW)
