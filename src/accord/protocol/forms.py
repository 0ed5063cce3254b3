"""Fields of forms that ask for secrets, which the client would see: pages are for those."""

import re
from typing import Final

from accord.types._base import JsonObject

_WORD_BREAKS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_SECRETS: Final = re.compile(
    r"(?:^|_)(?:password|passwd|passphrase|passcode|pin|pin_code|otp|secret|(?:api|secret|private|"
    r"access|ssh)_?key|apikey|token|credentials?|card_?number|credit_?card|cvv|cvc)$"
)
_CHOICES: Final = ("enum", "enumNames", "oneOf", "anyOf")


def asks_for_secret(name: str, schema: JsonObject) -> bool:
    """Tell whether the name or title of a field is that of a secret (elicitation.form.no-secrets).

    >>> asks_for_secret("apiKey", {"type": "string"})
    True
    """
    is_free = schema.get("type") in ("string", "integer", "number")
    if not is_free or any(keyword in schema for keyword in _CHOICES):
        return False
    title = schema.get("title")
    names = [name, title if isinstance(title, str) else ""]
    return any(_SECRETS.search(_to_snake_case(text)) for text in names)


def _to_snake_case(text: str) -> str:
    return "_".join(filter(None, _WORD_BREAKS.split(text))).lower()
