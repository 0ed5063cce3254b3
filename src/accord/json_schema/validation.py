"""Validation against JSON Schema; each schema is compiled once, and nothing is fetched.

The library that validates cannot be interrupted. What would take it more than about a second is
refused before.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from accord.errors import MissingExtra
from accord.json_schema.cost import Cost, SchemaRefused

Validate = Callable[[object], str | None]
ListErrors = Callable[[object], list[Any] | None]

UNDECIDED: Final = "cannot be validated: "
"""How the answer of a validator begins if it could not decide."""

# Steps that a pattern with references or conditions may take on one text, some 30 ns each.
_BACKTRACKING: Final = 10_000
# Each error takes 10 µs and a kilobyte, and each visit may find one.
_MOST_VISITS_FOR_LISTS: Final = 20_000


class _Compiled(NamedTuple):
    validate: Validate
    list_errors: ListErrors


def compile_schema(schema: object) -> Validate:
    """Return a function that says why an instance is invalid; None if it is valid.

    A schema without `$schema` is read as 2020-12. An instance that would take too long, or nests
    too deep, gets an answer that begins with `UNDECIDED`.

    Raises:
        ValueError: the schema itself is invalid, refers to something outside itself, or would make
            validation take too long whatever the instance.
        MissingExtra: no validator is installed.
    """
    return _look_up(schema).validate


def compile_for_lists(schema: object) -> ListErrors:
    """Return a function that lists all errors of an instance, as the library describes them.

    It returns None if the list would take too long or cannot be made; the function that
    `compile_schema` returns may then find the first.

    Raises:
        ValueError: as `compile_schema` does.
        MissingExtra: no validator is installed.
    """
    return _look_up(schema).list_errors


def _look_up(schema: object) -> _Compiled:
    found = _compile(msgspec.json.encode(schema, order="deterministic"))
    if isinstance(found, str):
        raise ValueError(found)  # noqa: TRY004 - it is the value that is wrong
    return found


@lru_cache(maxsize=1_000)
def _compile(encoded: bytes) -> _Compiled | str:
    """Return the validator of a schema, or why it has none; both are cached."""
    try:
        import jsonschema_rs
    except ImportError:
        raise MissingExtra("schema", needed_for="validating against JSON Schema") from None
    schema = msgspec.json.decode(encoded)
    try:
        cost = Cost(schema)
        patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKING)
        validator = jsonschema_rs.validator_for(
            schema, retriever=_refuse_to_fetch, pattern_options=patterns
        )
    except SchemaRefused as error:
        return f"it is refused: {error}"
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        return _first_line(error)

    def validate(instance: object) -> str | None:
        excess = cost.excess(instance)
        if excess is not None:
            return UNDECIDED + excess
        try:
            # The first error is enough: a list of all costs a kilobyte for each.
            validator.validate(instance)
        except jsonschema_rs.ValidationError as error:
            path = "".join(f"/{part}" for part in error.instance_path)
            return f"at {path or 'the top'}: {_first_line(error.message)}"
        except ValueError as beyond:
            return UNDECIDED + _first_line(beyond).lower()
        return None

    def list_errors(instance: object) -> list[Any] | None:
        if cost.excess(instance, most=_MOST_VISITS_FOR_LISTS) is not None:
            return None
        try:
            return list(validator.iter_errors(instance))
        except ValueError:
            return None

    return _Compiled(validate, list_errors)


def _refuse_to_fetch(uri: str) -> NoReturn:
    raise ValueError(f"refers to {uri}, which is not part of it")


def _first_line(error: object) -> str:
    return str(error).strip().split("\n", 1)[0][:300]
