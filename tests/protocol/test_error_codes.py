"""The codes of errors that differ between revisions."""

import pytest

from accord.protocol.endpoint import translate_code
from accord.protocol.revisions import REVISIONS
from support.tables import cases

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


@cases("revision", HANDSHAKE)
@cases("code", [-32002, -32050, -32603, -31050, 5])
def test_handshake_revisions_have_the_codes_as_they_are(revision: str, code: int) -> None:
    assert translate_code(code, REVISIONS[revision]) == code  # type: ignore[index]


@pytest.mark.requirement("errors.reserved-range.only-defined-codes")
@cases(
    ("code", "expected"),
    [
        (-32002, -32602),  # a resource that is not found
        (-32050, -32603),  # reserved, and not defined
        (-32020, -32020),  # defined
        (-32021, -32021),
        (-32022, -32022),
        (-32601, -32601),
        (-31050, -31050),
        (5, 5),
    ],
)
def test_the_revision_without_handshakes_has_codes_of_its_own(code: int, expected: int) -> None:
    assert translate_code(code, REVISIONS["2026-07-28"]) == expected
