"""Names, descriptions and hints of the tools that operations become."""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from accord.compose.openapi.document import ApiOperation
from accord.errors import RegistrationError
from accord.types import ToolAnnotations

ToolNames: TypeAlias = Mapping[str, str] | Callable[[ApiOperation], str | None]
"""Names of tools by `operationId` or by `GET /path`; or a function that returns one, or None."""

_LONGEST_NAME: Final = 64
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_DESCRIPTION: Final = 4_000
_READING: Final = ("GET", "HEAD", "OPTIONS", "TRACE")


class NameGiver:
    """Gives each operation a name that hosts allow and that no other one has.

    Args:
        chosen: the author's names.

    Raises:
        RegistrationError: a chosen name is not one that hosts allow, or is given twice.
    """

    def __init__(self, chosen: ToolNames | None) -> None:
        self._chosen = chosen
        self._taken: set[str] = set()
        mapping = chosen if isinstance(chosen, Mapping) else {}
        self._reserved = frozenset(mapping.values())
        self._unused = set(mapping)

    def check_unused(self) -> None:
        """Refuse names that were chosen for operations that do not exist.

        Raises:
            RegistrationError: there are some.
        """
        if self._unused:
            unknown = ", ".join(map(repr, sorted(self._unused)))
            raise RegistrationError(f"names: the document has no operation {unknown[:200]}")

    def name(self, operation: ApiOperation) -> str:
        """Return the name of an operation."""
        chosen = self._choose(operation)
        if chosen is not None:
            if chosen != clean_name(chosen) or chosen in self._taken:
                why = "is taken" if chosen in self._taken else "is not a name of a tool"
                raise RegistrationError(
                    f"names: {chosen!r} for {operation.label} {why}; use 1 to 64 letters, digits, "
                    "_ and -"
                )
            self._taken.add(chosen)
            return chosen
        base = name = clean_name(operation.id or f"{operation.method.lower()}_{operation.path}")
        number = 1
        while name in self._taken or name in self._reserved:
            number += 1
            name = f"{base[: _LONGEST_NAME - 1 - len(str(number))]}_{number}"
        self._taken.add(name)
        return name

    def _choose(self, operation: ApiOperation) -> str | None:
        if self._chosen is None:
            return None
        if callable(self._chosen):
            return self._chosen(operation)
        self._unused -= {operation.id, operation.label}
        return self._chosen.get(operation.id) or self._chosen.get(operation.label)


def clean_name(text: str) -> str:
    """Return a text as a name that hosts allow.

    >>> clean_name("repos/get-content"), clean_name("get_/pets/{petId}")
    ('repos_get-content', 'get_pets_petId')
    """
    return re.sub("__+", "_", _NOT_IN_NAMES.sub("_", text)).strip("_")[:_LONGEST_NAME] or "call"


def describe(operation: ApiOperation) -> str:
    """Return the description of a tool, from the summary and description of its operation."""
    parts = [operation.summary, operation.description]
    if operation.summary and operation.summary in operation.description:
        parts = [operation.description]
    text = "\n\n".join(each for each in parts if each) or operation.label
    if operation.is_deprecated:
        text = f"Deprecated. {text}"
    return text if len(text) <= _DESCRIPTION else text[: _DESCRIPTION - 3].rstrip() + "..."


def hints(operation: ApiOperation) -> ToolAnnotations:
    """Return what the method of an operation says about it (RFC 9110, section 9.2)."""
    method = operation.method
    if method in _READING:
        return ToolAnnotations(read_only_hint=True, open_world_hint=True)
    return ToolAnnotations(
        read_only_hint=False,
        destructive_hint=True if method == "DELETE" else None,
        idempotent_hint=True if method in ("PUT", "DELETE") else None,
        open_world_hint=True,
    )
