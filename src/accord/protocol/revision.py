"""A revision of the protocol: a row of features, and the methods that live in it.

Code asks a feature (`revision.batching`), never a revision id. A revision is written as what
changed since the one before
(`evolve`); its method indexes are compiled when first asked for.
"""

from enum import Enum
from functools import cached_property
from typing import Any

import msgspec

from accord.protocol.violation import CLIENT, SERVER, Party
from accord.types._base import ALWAYS, Lifetime, RevisionId


class Phase(Enum):
    """How far a conversation has come. Revisions without handshake are ready from the start."""

    OPENING = "opening"
    NEGOTIATING = "negotiating"
    NEGOTIATED = "negotiated"
    READY = "ready"
    CLOSED = "closed"


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """One protocol method: its senders, its lifetime, its params and result, what it needs.

    `needs` is the capability that the answering party must have declared; `offers` the one that the
    sender of a notification must have declared; either holds in its own lifetime. `may_ask` says
    that the answer may be questions instead of a result.
    """

    name: str
    by: tuple[Party, ...]
    params: Any
    result: Any = None
    lifetime: Lifetime = ALWAYS
    needs: str | None = None
    needs_lifetime: Lifetime = ALWAYS
    offers: str | None = None
    may_ask: bool = False
    params_required: bool = False

    def __repr__(self) -> str:
        return f"Method({self.name!r})"

    @property
    def is_request(self) -> bool:
        """Whether an answer is expected."""
        return self.result is not None


class Revision(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A revision of the protocol: its id, its features, its methods."""

    id: RevisionId
    methods: tuple[Method, ...]

    handshake: bool = True
    batching: bool = False
    server_requests: bool = True
    rounds: bool = False
    result_type: bool = False
    cache_hints: bool = False
    priming_event: bool = False
    streamable_http: bool = False
    version_header: bool = False
    not_found_code: int = -32002

    def __repr__(self) -> str:
        return f"Revision({self.id!r})"

    def evolve(self, id: RevisionId, **features: Any) -> "Revision":
        """Describe the next revision by what changes."""
        return msgspec.structs.replace(self, id=id, **features)

    @cached_property
    def requests(self) -> dict[Party, dict[str, Method]]:
        """The request methods of this revision by sender and name."""
        return self._index(is_request=True)

    @cached_property
    def notifications(self) -> dict[Party, dict[str, Method]]:
        """The notifications of this revision by sender and name."""
        return self._index(is_request=False)

    def _index(self, *, is_request: bool) -> dict[Party, dict[str, Method]]:
        return {
            party: {
                method.name: method
                for method in self.methods
                if method.is_request is is_request
                and party in method.by
                and self.id in method.lifetime
                and (self.server_requests or party == CLIENT or not is_request)
            }
            for party in (CLIENT, SERVER)
        }

    def needed_for(self, sender: Party, name: str) -> str | None:
        """The capability that the answering party must have declared for a request."""
        return self._needs[sender].get(name)

    @cached_property
    def _needs(self) -> dict[Party, dict[str, str]]:
        return {
            party: {
                name: method.needs
                for name, method in methods.items()
                if method.needs and self.id in method.needs_lifetime
            }
            for party, methods in self.requests.items()
        }
