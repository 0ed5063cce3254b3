"""Values as texts to paste."""

from typing import Any

from accord_tools.hosts.definition import FileFormat, KeyPath
from accord_tools.hosts.documents.document import open_document


def render_value(value: Any, format: FileFormat) -> str:
    """Return a value as it is written in a format, without a line end after it.

    Raises:
        HostsError: the format has no such value.
    """
    if format == "toml":
        from accord_tools.hosts.documents.toml_text import format_value, without_nulls

        return format_value(without_nulls(value))
    if format == "yaml":
        from accord_tools.hosts.documents.yaml_text import format_yaml

        return format_yaml(value)
    from accord_tools.hosts.documents.json_text import format_json

    return format_json(value)


def render_snippet(keys: KeyPath, value: Any, format: FileFormat) -> str:
    """Return a document with one value in it, to paste into a file.

    Args:
        keys: the path of the value; an index of a list becomes that of its only item.
        value: to show.
        format: of the file.

    Raises:
        HostsError: the format has no such value.
    """
    first = tuple(0 if isinstance(key, int) else key for key in keys)
    return open_document("", format).set(first, value).apply("")
