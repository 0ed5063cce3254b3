"""Facts about a target that several parts need: its secrets, and how it is shown without them."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from accord.check.probing.secret_filter import display_target
from accord.check.probing.target import ServerTarget
from accord.inspector.definition import InspectTarget
from accord.testing.masking import Masks, has_secret_form, is_secret_name, is_stand_in
from accord.transports.process import environment

HIDDEN_VALUE: Final = "..."
"""Stands for a secret in a shown command."""


def server_target(target: InspectTarget) -> ServerTarget:
    """Return a target as the checks take it."""
    return ServerTarget(
        name=target.title,
        command=tuple(target.command),
        url=target.url,
        form=target.transport,
        headers=dict(target.headers),
        # The same variables as the connection of the page.
        env=environment(target.env),
        inherits=False,
        cwd=target.cwd,
    )


def find_secrets(target: InspectTarget) -> tuple[str, ...]:
    """Return the credentials that the user gave for a target, the longest first."""
    bearer = target.auth if isinstance(target.auth, str) and target.auth != "oauth" else ""
    found = {*server_target(target).secrets, *_secret_arguments(target.command)}
    if len(bearer) >= _SHORTEST:
        found.add(bearer)
    return tuple(sorted(found, key=len, reverse=True))


# A shorter text stands in other texts by chance.
_SHORTEST: Final = 6


def _secret_arguments(command: Sequence[str]) -> list[str]:
    shown = mask_command(command)
    found = []
    for given, clean in zip(command, shown, strict=True):
        if given != clean:
            value = given.partition("=")[2] if given.startswith("-") and "=" in given else given
            if len(value) >= _SHORTEST:
                found.append(value)
    return found


def mask_command(command: Sequence[str]) -> list[str]:
    """Return the words of a command without secrets.

    >>> mask_command(["srv", "--api-key", "abc123xyz", "--port=1", "--token=s3cret99"])
    ['srv', '--api-key', '...', '--port=1', '--token=...']
    """
    shown: list[str] = []
    before = ""
    for word in command:
        name, equals, value = word.partition("=")
        if before.startswith("-") and is_secret_name(before.lstrip("-")) and word[:1] != "-":
            shown.append(HIDDEN_VALUE)
        elif equals and is_secret_name(name.lstrip("-")) and not is_stand_in(value):
            shown.append(f"{name}={HIDDEN_VALUE}")
        elif urlsplit(word).scheme in ("http", "https"):
            shown.append(display_target(word))
        elif has_secret_form(word):
            shown.append(Masks().mask_text(word) if equals else HIDDEN_VALUE)
        else:
            shown.append(word)
        before = word
    return shown


def display_command(command: Sequence[str]) -> str:
    """Return the words of a command, each on a line, without secrets."""
    return "\n".join(mask_command(command))
