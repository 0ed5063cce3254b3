"""JSON Schema behind one function: a library compiles each schema once and fetches nothing.

The library cannot be interrupted. What it would not finish in about a second is refused before.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NoReturn

import msgspec

from accord.errors import MissingExtra
from accord.json_schema.cost import Cost
from accord.json_schema.graph import SchemaRefused

Validate = Callable[[object], str | None]

UNDECIDED: Final = "cannot be validated: "
"""How the answer of a validator begins where it does not know."""

# Steps that a pattern with references or conditions may take on one text, some 30 ns each.
_BACKTRACKING: Final = 10_000


def compile_schema(schema: object) -> Validate:
    """Return a function that says what is wrong with an instance, None where nothing is.

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
    """Return the validator of a schema, or why there is none; errors are kept as well."""
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
