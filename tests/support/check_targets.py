"""Servers under check, in the words of a test."""

from collections.abc import Sequence
from typing import Any

from accord.client.server_spec import ServerSpec
from accord_tools.check.probing.target import ServerTarget

_REACHED = ("env", "inherits", "cwd", "headers", "server")


def check_target(
    name: str, *, command: Sequence[str] = (), url: str = "", form: Any = "http", **settings: Any
) -> ServerTarget:
    """Return a server under check; `form` is that of HTTP at its URL, None to be found out."""
    reached = {each: settings.pop(each) for each in _REACHED if each in settings}
    form = form if url else None
    spec = ServerSpec(name=name, command=tuple(command), url=url, transport=form, **reached)
    return ServerTarget(spec=spec, **settings)
