"""Credentials of the user leave no answer to the page, wherever a server has repeated them.

The log masks messages by itself. Here the same credentials leave what was made of messages: titles,
descriptions, results, errors. What the page sends back, such as the name of a tool, stays.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.secrets.filter import SecretFilter
from accord_tools.inspector.log.message_log import InspectedLog
from accord_tools.inspector.target_access import current_target, find_secrets

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession

# Members that the page sends back as they are.
_SENT_BACK: Final = frozenset(
    {
        "arguments",
        "call",
        "const",
        "default",
        "id",
        "ids",
        "name",
        "redirect_uri",
        "sign_in_url",
        "uri",
        "url",
        "value",
        "values",
    }
)
# Their whole answer goes into a field of the page.
_FILLING: Final = frozenset({"forms.example", "forms.expand"})
# Nothing of their answer is sent back.
_SHOWING: Final = frozenset({"session.get"})


class AnswerMasks:
    """Hides some credentials in answers.

    Args:
        secrets: the credentials, the longest first.
        kept: names of members that stay as they are.
    """

    def __init__(self, secrets: tuple[str, ...], kept: frozenset[str] = _SENT_BACK) -> None:
        self._kept = kept
        self._filter = SecretFilter(secrets)

    def hide(self, text: str) -> str:
        """Return a text without the credentials."""
        return self._filter.hide(text, may_be_cut=False)

    def apply(self, body: bytes) -> bytes:
        """Return an encoded answer without the credentials."""
        if not self._filter.may_be_in(body.decode(errors="replace")):
            return body
        try:
            answer = msgspec.json.decode(body)
            clean = self._value(answer)
            if isinstance(clean, dict) and clean != answer and "is_masked" in clean:
                clean["is_masked"] = True  # the page offers to show them
            return msgspec.json.encode(clean)
        except (ValueError, RecursionError):  # half of a surrogate pair, in a text of a server
            return self.hide(body.decode()).encode()

    def _value(self, value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {inner: self._value(each, inner) for inner, each in value.items()}
        if isinstance(value, list):
            return [self._value(each, name) for each in value]
        if not isinstance(value, str) or name in self._kept:
            return value
        return self.hide(value)


_masks_of: Final = lru_cache(32)(AnswerMasks)


def answer_masks(
    session: "InspectedSession", action: str = "", *, is_revealed: bool = False
) -> AnswerMasks:
    """Return the masks for the answer to an action.

    Args:
        session: that the action is about.
        action: its name.
        is_revealed: whether the page asks for masked values; the options may forbid it.
    """
    if action in _FILLING or (is_revealed and session.options.shows_secrets):
        return _masks_of(())
    secrets = session.part(InspectedLog).secrets
    if session.kind == "live" and session.target.url:
        secrets = find_secrets(current_target(session))
    return _masks_of(tuple(secrets), frozenset() if action in _SHOWING else _SENT_BACK)
