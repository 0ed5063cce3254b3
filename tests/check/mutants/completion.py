"""Servers that complete wrongly."""

from typing import Any

from check.mutants.foundation import unbreakable
from check.mutants.spoiling import answer, refusal, undeclared

COMPLETE = "completion/complete"

undeclared("completion.capability.declared", "completions")


@answer("completion.result.values", COMPLETE)
def suggests_numbers(result: dict[str, Any]) -> None:
    result["completion"]["values"] = [1, 2]


@answer("completion.result.max-100", COMPLETE)
def suggests_too_much(result: dict[str, Any]) -> None:
    result["completion"]["values"] = [f"value {number}" for number in range(101)]


@answer("completion.result.total-and-has-more", COMPLETE)
def counts_in_words(result: dict[str, Any]) -> None:
    result["completion"]["total"] = "many"


refusal("completion.errors.codes", COMPLETE, -32602)

unbreakable("only the server can say which values are relevant", "completion.server.care")
