"""The requirements as rules, one module per area of the specification.

Importing this package registers the state rules, which endpoints obey. The deep rules of the other
modules are registered by `complete()`, which monitors call.
"""

from functools import cache
from importlib import import_module

from accord.protocol.rules import cancellation, capabilities, lifecycle, progress, rpc
from accord.protocol.rules._rule import RULES, Breach, Index, Rule, check, enforced_rules, state
from accord.types._base import RevisionId

__all__ = ["Breach", "Index", "Rule", "check", "complete", "enforced_rules", "state"]

_STATE = (cancellation, capabilities, lifecycle, progress, rpc)
_DEEP = (
    "caching",
    "cancelled_notices",
    "completion",
    "content",
    "elicitation",
    "elicitation_url",
    "errors",
    "extensions",
    "handshake",
    "http",
    "icons",
    "logging",
    "messages",
    "meta",
    "pagination",
    "ping",
    "practice",
    "progress_reports",
    "prompts",
    "resources",
    "roots",
    "rounds",
    "sampling",
    "stateless",
    "subscriptions",
    "task_extension",
    "tasks",
    "tool_headers",
    "tools",
    "trace_context",
)


@cache
def complete(revision: RevisionId) -> Index:
    """Return every rule that the catalogue says holds in a revision: what monitors judge by."""
    from accord.protocol.catalogue import catalogue

    for name in _DEEP:
        import_module(f"{__name__}.{name}")
    rows = catalogue()
    return Index(rule for rule in RULES if rows[rule.requirement].holds_in(revision))
