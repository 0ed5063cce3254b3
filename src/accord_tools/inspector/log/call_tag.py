"""The call of the page that the running task works for, and the rule that answers for it."""

from contextvars import ContextVar
from typing import Final

from accord.protocol.party import Bounded

# Calls whose next message carries a standing answer.
_CALLS_MOST: Final = 1_000

current_call: Final[ContextVar[str | None]] = ContextVar("accord_current_call", default=None)
"""The id of a call; messages of the client that are sent in its context belong to it."""

_answering_rule: Final[ContextVar[str]] = ContextVar("accord_answering_rule", default="")


class RuleAnswers:
    """Which standing answers travel with the next messages.

    The answer to a request of the server is sent in the context that asked for it. Where questions
    come as results of a call, they are asked in other contexts than that of its next request.
    """

    def __init__(self) -> None:
        self._by_call: Bounded[str, str] = Bounded(_CALLS_MOST)

    def note(self, rule: str) -> None:
        """Note that a question of the current context is answered by a rule."""
        call = current_call.get()
        if call is None:
            _answering_rule.set(rule)
        else:
            self._by_call[call] = rule

    def take(self) -> str:
        """Return the rule that a message of the current context carries, once; empty without."""
        rule, call = _answering_rule.get(), current_call.get()
        if rule:
            _answering_rule.set("")
            return rule
        return "" if call is None else self._by_call.pop(call, "")
