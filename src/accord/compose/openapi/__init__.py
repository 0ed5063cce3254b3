"""OpenAPI documents as sources of tools: `server.mount(openapi("petstore.json"))`."""

from typing import TYPE_CHECKING, Unpack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accord.compose.openapi.document import DocumentSource
    from accord.compose.openapi.security import AuthOption
    from accord.compose.openapi.source import OpenApiOptions, OpenApiSource

__all__ = ["openapi"]


def openapi(
    document: "DocumentSource",
    *,
    base_url: str | None = None,
    auth: "AuthOption" = None,
    headers: "Mapping[str, str] | None" = None,
    **options: "Unpack[OpenApiOptions]",
) -> "OpenApiSource":
    """Return the operations of an API as tools, to be mounted on a server.

    Args:
        document: a file of OpenAPI 3.0 or 3.1 in JSON or YAML, or the document as a dictionary.
        base_url: of the server, for all operations; by default what the document says.
        auth: a bearer token, a pair of user and password, a value for each security scheme, or a
            function that returns one of these for each call, with or without the context.
        headers: those of every request; they are not arguments.
        options: see `OpenApiOptions`.

    Raises:
        RegistrationError: the document cannot be used, or an option does not fit it.
    """
    from accord.compose.openapi.source import OpenApiSource

    return OpenApiSource(document, base_url=base_url, auth=auth, headers=headers, options=options)
