"""What the members of a declared capability allow: modes of elicitation, tools in sampling.

Capabilities are dotted paths, as `capability_paths` returns them; None while they are unknown.
"""

from typing import Any, Final

from accord.protocol.exchange import member

__all__ = ["elicitation_modes", "undeclared_mode", "undeclared_tools"]

_MODES: Final = ("form", "url")


def elicitation_modes(declared: frozenset[str]) -> frozenset[str]:
    """Return the modes in which a client can be asked.

    An empty `elicitation` object means form mode alone (elicitation.capability.at-least-one-mode).

    >>> sorted(elicitation_modes(frozenset({"elicitation", "elicitation.url"})))
    ['url']
    """
    if "elicitation" not in declared:
        return frozenset()
    named = frozenset(mode for mode in _MODES if f"elicitation.{mode}" in declared)
    return named or frozenset({"form"})


def undeclared_mode(params: Any, declared: frozenset[str] | None) -> str | None:
    """Return the mode of an elicitation if the client declared elicitation, but not this mode."""
    mode = member(params, "mode")
    mode = "form" if mode is None else mode  # elicitation.mode.absent-is-form
    if declared is None or "elicitation" not in declared or mode not in _MODES:
        return None
    return None if mode in elicitation_modes(declared) else str(mode)


def undeclared_tools(params: Any, declared: frozenset[str] | None) -> str | None:
    """Return the member that offers tools to a client with sampling, but without sampling.tools."""
    if declared is None or "sampling" not in declared or "sampling.tools" in declared:
        return None
    names = ("tools", "toolChoice")
    return next((name for name in names if member(params, name) is not None), None)
