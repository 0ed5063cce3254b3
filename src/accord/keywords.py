"""Options given by keyword, held to those that exist.

Where options are passed on as a dictionary, Python itself does not notice a misspelt one.
"""

from collections.abc import Collection


def refuse_unknown(call: str, given: Collection[str], known: Collection[str]) -> None:
    """Refuse keywords that a call does not have.

    Raises:
        TypeError: there is one; the message names the closest that exists.

    >>> refuse_unknown("tool()", ["timeot"], ["name", "timeout"])
    Traceback (most recent call last):
    TypeError: tool() has no keyword 'timeot'; did you mean 'timeout'?
    """
    for name in given:
        if name not in known:
            raise TypeError(f"{call} has no keyword {name!r}; {suggest_keyword(name, known)}")


def suggest_keyword(name: str, known: Collection[str]) -> str:
    """Return which keyword may have been meant by one that does not exist.

    >>> suggest_keyword("outputSchema", ["name", "output_schema"])
    "did you mean 'output_schema'?"
    """
    snake = "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
    if snake in known:
        return f"did you mean {snake!r}?"
    from difflib import get_close_matches  # 3 ms, and most calls are spelt well

    close = get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"it has {', '.join(sorted(known))}" if known else "it has no keywords"
