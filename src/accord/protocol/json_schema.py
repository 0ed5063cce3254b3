"""JSON Schema behind one function: a library compiles each schema once and fetches nothing.

The library cannot be interrupted. What it would not finish in about a second is refused before.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from accord.errors import MissingExtra
from accord.protocol.party import Bounded
from accord.protocol.schema_cost import Cost, SchemaRefused

Validate = Callable[[Any], str | None]

UNDECIDED: Final = "cannot be validated: "
"""How the answer of a validator begins where it does not know."""

# Steps that a pattern with references or conditions may take on one text, some 30 ns each.
_BACKTRACKING: Final = 10_000

_KEPT: Final[Bounded[bytes, "Validate | str"]] = Bounded(1_000)


def compile_schema(schema: Any) -> Validate:
    """Return a function that says what is wrong with an instance, None where nothing is.

    A schema without `$schema` is read as 2020-12. An instance that would take too long, or nests
    too deep, gets an answer that begins with `UNDECIDED`.

    Raises:
        ValueError: the schema itself is invalid, refers to something outside itself, or would make
            validation take too long whatever the instance.
        MissingExtra: no validator is installed.
    """
    key = msgspec.json.encode(schema, order="deterministic")
    found = _KEPT.get(key)
    if found is None:
        found = _KEPT[key] = _compile(schema)
    if callable(found):
        return found
    raise ValueError(found)


def _compile(schema: Any) -> "Validate | str":
    try:
        import jsonschema_rs
    except ImportError:
        raise MissingExtra("schema", needed_for="validating against JSON Schema") from None
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

    def validate(instance: Any) -> str | None:
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


def _refuse_to_fetch(uri: str) -> Any:
    raise ValueError(f"refers to {uri}, which is not part of it")


def _first_line(error: object) -> str:
    return str(error).strip().split("\n", 1)[0][:300]
