"""Cache hints: on every result that can be kept, and of the right form."""

from typing import TYPE_CHECKING, Final

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.items import complete_result, is_a, shown
from accord.protocol.violation import SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_CACHEABLE: Final = {
    "caching.hints.discover": "server/discover",
    "caching.hints.tools-list": "tools/list",
    "caching.hints.prompts-list": "prompts/list",
    "caching.hints.resources-list": "resources/list",
    "caching.hints.resource-templates-list": "resources/templates/list",
    "caching.hints.resources-read": "resources/read",
}


def _bind(requirement: str, method: str) -> None:
    @check(requirement, by=SERVER, kind=RESULT, on=method)
    def result_has_cache_hints(step: Step, conversation: "Conversation") -> Outcome:
        result = complete_result(step)
        if result is None:
            return None
        missing = [name for name in ("ttlMs", "cacheScope") if name not in result]
        return not missing or f"answers {method} without {' and '.join(missing)}"


for _requirement, _method in _CACHEABLE.items():
    _bind(_requirement, _method)


@check("caching.ttl.non-negative", by=SERVER, kind=RESULT, on=_CACHEABLE.values())
def ttl_is_not_negative(step: Step, conversation: "Conversation") -> Outcome:
    result = complete_result(step) or {}
    if "ttlMs" not in result:
        return None
    ttl = result["ttlMs"]
    return (is_a("integer", ttl) and ttl >= 0) or f"sends a ttlMs of {shown(ttl)}"


@check("caching.scope.value", by=SERVER, kind=RESULT, on=_CACHEABLE.values())
def scope_is_public_or_private(step: Step, conversation: "Conversation") -> Outcome:
    result = complete_result(step) or {}
    if "cacheScope" not in result:
        return None
    scope = result["cacheScope"]
    return scope in ("public", "private") or f"sends a cacheScope of {shown(scope)}"
