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
            from difflib import get_close_matches  # 3 ms, and most calls are spelt well

            close = get_close_matches(name, known, n=1, cutoff=0.6)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(sorted(known))}"
            raise TypeError(f"{call} has no keyword {name!r}; {hint}")
