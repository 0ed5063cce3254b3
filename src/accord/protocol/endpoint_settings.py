"""What endpoints of one kind share: as those of all sessions of a server."""

from collections.abc import Sequence
from typing import Final

import msgspec

from accord.errors import UnsupportedRevision
from accord.protocol import codec
from accord.protocol.revisions import REVISIONS, Revision
from accord.protocol.violation import SERVER, Party, Violation
from accord.types._base import JsonObject, RevisionId

NO_ROWS: Final[dict[str, Revision]] = {}
_PAGES_MOST: Final = 16


class EndpointSettings:
    """What the endpoints of all sessions of a server share; see `Endpoint` for the arguments."""

    __slots__ = (
        "check_size",
        "codec",
        "enforce",
        "only_row",
        "pages_within_limits",
        "refuse_own",
        "result_meta",
        "result_meta_text",
        "revisions",
        "role",
        "stateless_rows",
        "surely_fine",
    )

    def __init__(
        self,
        role: Party,
        *,
        revisions: Sequence[RevisionId] | None = None,
        limits: codec.Limits | None = None,
        enforce: bool = True,
        result_meta: JsonObject | None = None,
    ) -> None:
        self.role: Party = role
        self.revisions = tuple(revisions or [row.id for row in REVISIONS.values()])
        self.enforce = enforce
        self.result_meta = result_meta or None
        # Nearly all results have no other, so that it need not be encoded with each of them.
        self.result_meta_text = msgspec.Raw(msgspec.json.encode(result_meta))
        self.refuse_own = _refuse_all if enforce else None
        rows = [REVISIONS[id] for id in self.revisions]
        self.stateless_rows = {str(row.id): row for row in rows if not row.handshake}
        # The revision of requests that name none, if there is no handshake to agree on one.
        is_only = len(self.stateless_rows) == len(rows) and role == SERVER
        self.only_row = rows[0] if is_only else None
        self.codec = codec.codec_for(limits or codec.Limits())
        self.surely_fine = self.codec.surely_fine
        # Pages are encoded once, and are the same bytes for every client.
        self.pages_within_limits: set[bytes] = set()
        self.check_size = self.codec.check_size if enforce else codec.skip_size_check

    def keep_page(self, page: bytes) -> None:
        """Remember a page whose values and levels are within the limits."""
        if len(self.pages_within_limits) >= _PAGES_MOST:
            self.pages_within_limits.clear()
        self.pages_within_limits.add(page)

    def refuse_revision(self, named: object) -> UnsupportedRevision:
        """Return the error for a request of a revision that is not spoken here."""
        return UnsupportedRevision(
            f"revision {named!r:.100} is not supported",
            data={"supported": list(self.revisions), "requested": named},
        )


def _refuse_all(violations: Sequence[Violation]) -> bool:
    return True
