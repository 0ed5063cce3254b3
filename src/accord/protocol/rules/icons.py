"""Deep rules of icons, wherever they are shown."""

from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import REQUEST, RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.parts import implementations, parts
from accord.protocol.rules.values import describe, first_few
from accord.protocol.syntax import scheme_of

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_SCHEMES: Final = frozenset({"http", "https", "data"})


@check("icons.src-required", kind=(REQUEST, RESULT))
def icon_has_a_source(step: Step, conversation: "Conversation") -> Outcome:
    holders = [*parts(step), *implementations(step)]
    found: list[str] = []
    tested = 0
    for place, holder in holders:
        if isinstance(holder, dict) and "icons" in holder:
            icons = holder["icons"]
            if not isinstance(icons, list):
                found.append(f"sends {place}.icons that is {describe(icons)}, expected an array")
                continue
            tested += len(icons)
            found += _without_source(icons, f"{place}.icons")
    return first_few(found) if tested or found else None


def _without_source(icons: list[Any], place: str) -> list[str]:
    found = []
    for index, icon in enumerate(icons):
        src = icon.get("src") if isinstance(icon, dict) else None
        if not isinstance(src, str):
            found.append(f"sends {place}[{index}] without a src")
        elif scheme_of(src) not in _SCHEMES:
            found.append(f"sends {place}[{index}] whose src is no http, https or data URI")
    return found
