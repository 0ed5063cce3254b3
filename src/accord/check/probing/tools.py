"""Which tools may be called by a stranger: those that say they only read, and look like it."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

__all__ = ["is_safe", "why_not"]


def _in(line: str) -> frozenset[str]:
    return frozenset(line.split())


# Words in a name that promise reading, and words that promise harm. A name with both is harmful.
_READS: Final = _in(
    "add calculate check compute convert count describe diff divide echo eval evaluate fetch find"
    " format get greet has hello help info is lint list look lookup multiply parse ping query read"
    " resolve search show status subtract sum time translate validate version view weather"
    " whoami"
)
_HARMS: Final = _in(
    "append apply assign book buy cancel charge clear close commit configure create deactivate"
    " delete deploy destroy disable drop edit enable erase exec execute grant insert"
    " install kill merge modify move overwrite pay post publish purge push put reboot remove"
    " rename replace reset restart restore revoke rm rollback run send set shell shutdown spawn"
    " start stop submit terminate transfer trigger truncate uninstall unlink update upload"
    " upsert wipe write"
)


def is_safe(
    tool: Mapping[str, Any], *, allow_writes: bool = False, chosen: Collection[str] = ()
) -> bool:
    """Tell whether a check may call a tool."""
    return why_not(tool, allow_writes=allow_writes, chosen=chosen) is None


def why_not(
    tool: Mapping[str, Any], *, allow_writes: bool = False, chosen: Collection[str] = ()
) -> str | None:
    """Say why a tool is not called; None where it may be.

    Args:
        tool: as the server lists it.
        allow_writes: whether tools that change something may be called, short of destroying it.
        chosen: tools that the user named: these are called, and no others.
    """
    name = str(tool.get("name"))
    if chosen:
        return None if name in chosen else "it was not chosen"
    notes = tool.get("annotations")
    notes = notes if isinstance(notes, dict) else {}
    words = _words(name)
    if notes.get("destructiveHint") is True and notes.get("readOnlyHint") is not True:
        return "it says that it may destroy something; choose it with --tool"
    if words & _HARMS and not allow_writes:
        return f"its name speaks of a change ({min(words & _HARMS)}); choose it with --tool"
    if words & {"delete", "destroy", "drop", "erase", "purge", "rm", "wipe", "truncate"}:
        return "its name speaks of destruction; choose it with --tool"
    if notes.get("readOnlyHint") is True or allow_writes:
        return None
    if notes.get("readOnlyHint") is False:
        return "it says that it changes something; allow it with --allow-writes"
    if words & _READS:
        return None
    return "nothing says that it only reads; allow it with --allow-writes or --tool"


def _words(name: str) -> set[str]:
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return {word.lower() for word in re.split(r"[^A-Za-z0-9]+", spaced) if word}
