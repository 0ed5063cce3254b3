"""Texts of YAML, read by PyYAML."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from accord.errors import MissingExtra
from accord_tools.hosts.definition import HostsError

_LARGE: Final = 500_000


@contextmanager
def pause_collection(text: str) -> Iterator[None]:
    """Switch the garbage collector off while a large text is read.

    It would look at a million new objects again and again, which takes four times as long.
    """
    if len(text) < _LARGE or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def import_yaml() -> Any:
    """Return the module of PyYAML.

    Raises:
        HostsError: it is not installed.
    """
    try:
        import yaml
    except ImportError:
        raise HostsError(str(MissingExtra("yaml", needed_for="a file of YAML"))) from None
    return yaml


def load_yaml(text: str) -> Any:
    """Return the value of a text.

    Raises:
        ValueError: it is not YAML, or has tags that only one program knows.
    """
    yaml = import_yaml()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        with pause_collection(text):
            return yaml.load(text, loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
