"""Texts of YAML, read by PyYAML."""

from typing import Any

from accord.hosts.definition import HostsError


def import_yaml() -> Any:
    """Return the module of PyYAML.

    Raises:
        HostsError: it is not installed.
    """
    try:
        import yaml
    except ImportError:
        raise HostsError(
            "files of YAML need PyYAML, which is not installed: pip install 'accord[cli]'"
        ) from None
    return yaml


def load_yaml(text: str) -> Any:
    """Return the value of a text.

    Raises:
        ValueError: it is not YAML, or has tags that only one program knows.
    """
    yaml = import_yaml()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(text, loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
