"""JSON Schema behind one function: a library compiles each schema once and fetches nothing."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from accord.errors import MissingExtra
from accord.protocol.memory import Bounded

Validate = Callable[[Any], str | None]

_KEPT: Final[Bounded[bytes, "Validate | str"]] = Bounded(1_000)


def compile_schema(schema: Any) -> Validate:
    """Return a function that says what is wrong with an instance, None where nothing is.

    A schema without `$schema` is read as 2020-12.

    Raises:
        ValueError: the schema itself is invalid, or refers to something outside itself.
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
        validator = jsonschema_rs.validator_for(schema, retriever=_refuse_to_fetch)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        return _first_line(error)

    def validate(instance: Any) -> str | None:
        try:
            error = next(validator.iter_errors(instance), None)
        except ValueError as beyond:
            return f"cannot be validated: {_first_line(beyond).lower()}"
        if error is None:
            return None
        path = "".join(f"/{part}" for part in error.instance_path)
        return f"at {path or 'the top'}: {_first_line(error.message)}"

    return validate


def _refuse_to_fetch(uri: str) -> Any:
    raise ValueError(f"refers to {uri}, which is not part of it")


def _first_line(error: object) -> str:
    return str(error).strip().split("\n", 1)[0][:300]
