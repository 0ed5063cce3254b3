"""Which tools a check may call: those that are known to read, or that the user allows."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final


def _in(line: str) -> frozenset[str]:
    return frozenset(line.split())


# The first word of a name promises reading only if it is one of these.
_READS: Final = _in("count describe find get list lookup read search show view")
# Any other word that may change something breaks that promise: get_and_lock, list_for_sale.
# Nouns that are spelled like verbs are here as well (get_update): a refusal costs coverage, a
# call may cost data.
_CHANGES: Final = _in(
    "accept ack acknowledge activate add alter and append apply approve archive assign attach ban"
    " block book buy call cancel change charge checkout claim cleanup clear clone close commit"
    " configure confirm consume convert copy create deactivate decrement deduct delete deny deploy"
    " dequeue destroy detach disable discard dispatch do drop edit emit enable enqueue erase eval"
    " evaluate exec execute expire export fire fix flush force format generate grant import"
    " increment init insert install invalidate invite invoke kill launch load lock login logout"
    " make mark merge migrate modify move mutate mute new next notify open or overwrite patch"
    " pause pay perform pop post print provision publish pull purchase purge push put reboot"
    " rebuild redeem refresh refund register reject reload remove rename renew reopen replace"
    " reply rerun reserve reset resolve restart restore resume retry revert revoke rm rollback"
    " rotate run sale save sell send set share shell shutdown sign spawn spend start stop store"
    " submit subscribe swap switch sync take terminate then toggle touch trade transfer trash"
    " trigger truncate uninstall unlink unlock unset unsubscribe update upgrade upload upsert vote"
    " wipe withdraw write"
)
_DESTROYS: Final = _in("delete destroy drop erase purge remove rm trash truncate uninstall wipe")
# snake_case, kebab-case, camelCase, PascalCase, dots, digits, and acronyms before a word.
_WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_ALLOW: Final = "allow it with --tool or --allow-writes"
_CHOOSE: Final = "choose it with --tool"


def refuse_tool(
    tool: Mapping[str, Any],
    *,
    allow_writes: bool = False,
    chosen: Collection[str] = (),
    is_remote: bool = False,
) -> str | None:
    """Return why a tool is not called; None where it may be.

    What a tool says of itself decides first. Without an annotation its name decides, and only for
    a server that the check launches: what stands behind a URL may be in use.

    Args:
        tool: as the server lists it.
        allow_writes: whether tools that change something may be called, short of destroying it.
        chosen: tools that the user named: these are called, and no others.
        is_remote: whether the server was there before the check, behind a URL.
    """
    name = str(tool.get("name"))
    if chosen:
        return None if name in chosen else "it was not chosen"
    notes = tool.get("annotations")
    notes = notes if isinstance(notes, dict) else {}
    reads, destroys = notes.get("readOnlyHint"), notes.get("destructiveHint")
    # A tool with both hints contradicts itself, so the dangerous one counts.
    if destroys not in (None, False):
        return f"it says that it may destroy something (destructiveHint); {_CHOOSE}"
    if reads is True:
        return None
    is_destructive = destroys is None and not _DESTROYS.isdisjoint(split_name(name))
    if allow_writes:
        return f"its name speaks of destruction; {_CHOOSE}" if is_destructive else None
    if reads is not None:
        why = "it says that it changes something (readOnlyHint: false)"
    elif is_remote:
        why = "over a URL only tools that say they read (readOnlyHint: true) are called"
    elif (broken := _broken_promise(name)) is not None:
        why = broken
    else:
        return None
    return f"{why}; {_CHOOSE if is_destructive else _ALLOW}"


def split_name(name: str) -> list[str]:
    """Return the words of a name in lower case.

    >>> words_of("getHTTPResponse2_and-lock")
    ['get', 'http', 'response', '2', 'and', 'lock']
    """
    return [word.lower() for word in _WORD.findall(name)]


def _broken_promise(name: str) -> str | None:
    """Return why the name of a tool does not promise that it only reads; None where it does."""
    words = split_name(name)
    # Letters that are not ASCII make words that the lists do not know.
    if not name.isascii() or not words or words[0] not in _READS:
        return "nothing says that it only reads, neither readOnlyHint nor its name"
    changing = next((word for word in words[1:] if word in _CHANGES), None)
    return None if changing is None else f"a word of its name ({changing}) may mean a change"
