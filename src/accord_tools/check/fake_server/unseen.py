"""Requirements that no message of a client can show, or that concern no client, with the reason."""

from collections.abc import Mapping
from typing import Final

from accord.protocol.catalogue import Requirement
from accord.protocol.revisions import REVISIONS
from accord.types import RevisionId

_SCHEMAS: Final = "no message shows what a client makes of a schema"
_ICONS: Final = "it takes a person to see how a client shows icons"
_FORMS: Final = "it takes a person to see how a client shows a form"
UNSEEN: Final[Mapping[str, str]] = {
    "caching.client.page-refetch-by-cursor": "no message shows which pages a client kept",
    "caching.client.private-not-shared": "it takes two authorizations in one process to see this",
    "caching.client.snapshot-from-start": "no message shows if a client needs a consistent list",
    "elicitation.client.decline-and-cancel": _FORMS,
    "elicitation.form.prefill-defaults": _FORMS,
    "icons.client.png-jpeg": _ICONS,
    "icons.client.svg-webp": _ICONS,
    "icons.consumer.content-sniffed": _ICONS,
    "icons.consumer.resource-limits": _ICONS,
    "sampling.error.user-rejected": "no message shows whether a user or a client refused",
    "sampling.meta-preserved": "no message shows what a client hands to its model",
    "schema.bounds": _SCHEMAS,
    "schema.dialect.default-2020-12": _SCHEMAS,
    "schema.dialect.supports-2020-12": _SCHEMAS,
    "schema.dialect.unsupported-reported": _SCHEMAS,
    "schema.dialect.validated-as-declared": _SCHEMAS,
    "schema.ref.unresolved-rejected": _SCHEMAS,
    "tasks.cancel.attempt-stop": "no message shows whether a client stops its work",
    "tools.errors.execution-errors-to-model": "no message shows what a client tells its model",
    "tools.name.case-sensitive": "a client takes names as the server lists them",
    "tools.schema.client-follows-ref-rules": _SCHEMAS,
}
"""What takes a look inside the client."""

_ONE_SERVER: Final = "a client has one server on each connection"
_NO_QUESTIONS: Final = "the tasks of a client ask the server nothing"
_ONLY_SERVERS: Final = "only servers send this"
NOT_OF_CLIENTS: Final[Mapping[str, str]] = {
    "errors.reserved-range.specified-meaning": _ONLY_SERVERS,
    "sampling.message.role-and-content": _ONLY_SERVERS,
    "sampling.tool-choice.values": _ONLY_SERVERS,
    "schema.wire-schemas-valid": _ONLY_SERVERS,
    "tasks.errors.tool-error-is-failed": "a client has no tools",
    "tasks.input.leaves-status": _NO_QUESTIONS,
    "tasks.input.related-task": _NO_QUESTIONS,
    "tasks.input.status-set": _NO_QUESTIONS,
    "tasks.security.bound-to-context": _ONE_SERVER,
    "tasks.security.foreign-rejected": _ONE_SERVER,
    "tasks.security.list-own-only": _ONE_SERVER,
    "tasks.security.no-list-unidentified": _ONE_SERVER,
    "tools.x-mcp-header.safe-integers": _ONLY_SERVERS,
}
"""What binds both parties by its words, and only servers in fact."""

# What a party does with the requests of the other one, and with their progress.
_RECEIVING: Final = (
    "jsonrpc.response.",
    "jsonrpc.error.",
    "jsonrpc.request.answered",
    "cancellation.receiver.",
    "cancellation.races",
    "cancellation.invalid-ignored",
    "progress.notification.",
    "progress.value.",
    "progress.stops-",
    "progress.rate-limited",
    "errors.",
)


def why_not_of_clients(row: Requirement, revision: RevisionId) -> str | None:
    """Return why a requirement concerns no client of a revision; None if it may."""
    if row.id in NOT_OF_CLIENTS:
        return NOT_OF_CLIENTS[row.id]
    if not REVISIONS[revision].server_requests and row.id.startswith(_RECEIVING):
        return "a client of this revision gets no requests"
    return None
