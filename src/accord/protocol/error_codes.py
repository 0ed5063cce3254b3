"""The codes of errors that differ between revisions."""

from typing import Final

from accord.protocol.revisions import Revision

_NOT_FOUND: Final = -32002
_INTERNAL_ERROR: Final = -32603
_UNDEFINED: Final = frozenset(range(-32099, -32019)) - {-32020, -32021, -32022}


def translate_code(code: int, revision: Revision) -> int:
    """Return the code that a revision has for an error.

    >>> from accord.protocol.revisions import REVISIONS
    >>> translate_code(-32002, REVISIONS["2026-07-28"])
    -32602
    """
    if code == _NOT_FOUND:
        return revision.not_found_code
    # errors.reserved-range.only-defined-codes: handlers may raise any code.
    return _INTERNAL_ERROR if revision.reserved_codes and code in _UNDEFINED else code
