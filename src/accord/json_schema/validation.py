"""Validation against JSON Schema; each schema is compiled once, and nothing is fetched.

The library that validates cannot be interrupted. What would take it more than about a second is
refused before.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NoReturn

import msgspec

from accord.errors import MissingExtra
from accord.json_schema.cost import Cost, SchemaRefused

Validate = Callable[[object], str | None]

UNDECIDED: Final = "cannot be validated: "
"""How the answer of a validator begins if it could not decide."""

# Steps that a pattern with references or conditions may take on one text, some 30 ns each.
_BACKTRACKING: Final = 10_000


def compile_schema(schema: object) -> Validate:
    """Return a function that says why an instance is invalid; None if it is valid.

    A schema without `$schema` is read as 2020-12. An instance that would take too long, or nests
    too deep, gets an answer that begins with `UNDECIDED`.

    Raises:
        ValueError: the schema itself is invalid, refers to something outside itself, or would make
            validation take too long whatever the instance.
        MissingExtra: no validator is installed.
    """
    found = _compile(msgspec.json.encode(schema, order="deterministic"))
    if callable(found):
        return found
    raise ValueError(found)


@lru_cache(maxsize=1_000)
def _compile(encoded: bytes) -> Validate | str:
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

    return validate


def _refuse_to_fetch(uri: str) -> NoReturn:
    raise ValueError(f"refers to {uri}, which is not part of it")


def _first_line(error: object) -> str:
    return str(error).strip().split("\n", 1)[0][:300]
