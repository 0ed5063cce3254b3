"""Resources: their descriptions, contents and change notices."""

from typing import Annotated

from accord.types._base import Item, since
from accord.types.content import Annotations, Icon, ResourceContents
from accord.types.messages import CacheableResult, PageResult, Params, RetryParams

__all__ = [
    "ListResourceTemplatesResult",
    "ListResourcesResult",
    "ReadResourceParams",
    "ReadResourceResult",
    "Resource",
    "ResourceTemplate",
    "ResourceUpdatedParams",
]


class Resource(Item):
    """A resource as a server lists it."""

    uri: str
    name: str
    title: Annotated[str | None, since("2025-06-18")] = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: Annotated[list[Icon] | None, since("2025-11-25")] = None


class ResourceTemplate(Item):
    """A family of resources, named by a URI template."""

    uri_template: str
    name: str
    title: Annotated[str | None, since("2025-06-18")] = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: Annotated[list[Icon] | None, since("2025-11-25")] = None


class ListResourcesResult(PageResult):
    """One page of resources."""

    resources: list[Resource]


class ListResourceTemplatesResult(PageResult):
    """One page of resource templates."""

    resource_templates: list[ResourceTemplate]


class ReadResourceParams(RetryParams):
    """Read a resource."""

    uri: str


class ReadResourceResult(CacheableResult):
    """What the resource holds; a folder may hold several."""

    contents: list[ResourceContents]


class ResourceUpdatedParams(Params):
    """Tell that a resource changed."""

    uri: str
