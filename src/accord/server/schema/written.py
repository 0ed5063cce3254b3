"""JSON Schemas that authors of tools write: checked at registration, listed unchanged."""

from typing import TYPE_CHECKING

from accord.errors import RegistrationError
from accord.types import JsonObject

if TYPE_CHECKING:
    from accord.json_schema.validation import Validate


def compile_written(schema: JsonObject, what: str) -> "Validate":
    """Return the validator of a schema.

    Args:
        schema: in a dialect of `DIALECTS`, 2020-12 by default.
        what: names it in errors.

    Raises:
        RegistrationError: it is invalid, in another dialect, or refers to something outside itself.
        MissingExtra: no validator is installed; the faults above are found without one.
    """
    # Most tools have no written schema, and need neither of these.
    from accord.json_schema.dialects import find_schema_fault
    from accord.json_schema.validation import compile_schema

    fault = find_schema_fault(schema)
    if fault is not None:
        raise RegistrationError(f"{what} {fault}" if fault[:6] == "refers" else f"{what}: {fault}")
    try:
        return compile_schema(schema)
    except ValueError as error:
        raise RegistrationError(f"{what} is invalid: {error}") from None
