"""Declared capabilities as dotted paths, and what their members allow.

None stands for capabilities that are still unknown.
"""

from functools import lru_cache
from typing import Final

import msgspec

from accord.protocol.exchange import member

_MODES: Final = ("form", "url")


def capability_paths(capabilities: object) -> frozenset[str]:
    """Flatten capabilities to dotted paths; an object or `true` declares, nothing else does."""
    if isinstance(capabilities, frozenset):
        return capabilities
    if isinstance(capabilities, msgspec.Struct):
        capabilities = msgspec.to_builtins(capabilities)
    found: set[str] = set()
    _collect(capabilities, "", found, 0)
    return _share(frozenset(found))


@lru_cache(maxsize=1024)
def _share(paths: frozenset[str]) -> frozenset[str]:
    """Let sessions with the same capabilities share one set: it is most of what a session costs."""
    return paths


def _collect(value: object, prefix: str, found: set[str], depth: int) -> None:
    # Capabilities nest four deep at most (tasks.requests.tools.call); what lies below is settings.
    if not isinstance(value, dict) or depth > 4:
        return
    for key, inner in value.items():
        if inner is True or isinstance(inner, dict):
            path = f"{prefix}{key}"
            found.add(path)
            _collect(inner, f"{path}.", found, depth + 1)


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


def undeclared_mode(params: object, declared: frozenset[str] | None) -> str | None:
    """Return the mode of an elicitation if the client declared elicitation, but not this mode."""
    mode = member(params, "mode")
    mode = "form" if mode is None else mode  # elicitation.mode.absent-is-form
    if declared is None or "elicitation" not in declared or mode not in _MODES:
        return None
    return None if mode in elicitation_modes(declared) else str(mode)


def undeclared_tools(params: object, declared: frozenset[str] | None) -> str | None:
    """Return the member that offers tools to a client with sampling, but without sampling.tools."""
    if declared is None or "sampling" not in declared or "sampling.tools" in declared:
        return None
    names = ("tools", "toolChoice")
    return next((name for name in names if member(params, name) is not None), None)
