"""A rule on HTTP: one requirement, the moment at which it is judged, and the facts it needs.

A judge gets the moment and the state before the moment changes it, and returns the same as the
judges of messages. A fact that was not recorded never breaks a rule: the judge returns None.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from accord.protocol.rules._rule import Outcome
from accord.protocol.rules.http.exchanges import HttpState, Moment
from accord.protocol.violation import Party
from accord.trace import HttpFacts, Record, Transport
from accord.types._base import RevisionId

When: TypeAlias = Literal["request", "head", "event", "message", "end"]
WHEN: Final[tuple[When, ...]] = get_args(When)
HttpJudge: TypeAlias = Callable[[Moment, HttpState], Outcome]

STREAMABLE: Final[tuple[Transport, ...]] = ("http",)
OLDER: Final[tuple[Transport, ...]] = ("sse",)
BOTH: Final[tuple[Transport, ...]] = ("http", "sse")

# What a rule may need, and how it is called in a report.
STATUS: Final = "the status of responses"
LINK: Final = "which response belongs to which request"
EVENTS: Final = "the events of streams"
END: Final = "the ends of streams"
PATH: Final = "the paths of requests"
QUERY: Final = "the queries of requests"
METHOD: Final = "the methods of requests"
STREAM: Final = "the stream of each message"


def asks(header: str) -> str:
    """Name a header of requests as a fact that is needed."""
    return f"the header {header} of requests"


def says(header: str) -> str:
    """Name a header of responses as a fact that is needed."""
    return f"the header {header} of responses"


class HttpRule(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement bound to its judge."""

    requirement: str
    judge: Any
    when: When
    forms: tuple[Transport, ...]
    needs: tuple[str, ...]

    @property
    def party(self) -> Party:
        """The party that is judged: it sends what the moment is about."""
        return "client" if self.when == "request" else "server"


HTTP_RULES: Final[list[HttpRule]] = []


def rule(
    requirement: str,
    when: When,
    *,
    needs: tuple[str, ...],
    forms: tuple[Transport, ...] = STREAMABLE,
) -> Callable[[HttpJudge], HttpJudge]:
    """Bind a judge to a requirement of the catalogue.

    Args:
        requirement: its id.
        when: the moment at which it is judged.
        needs: the facts without which nothing can be said.
        forms: the forms of HTTP in which it is judged.
    """

    def bind(judge: HttpJudge) -> HttpJudge:
        HTTP_RULES.append(
            HttpRule(requirement=requirement, judge=judge, when=when, forms=forms, needs=needs)
        )
        return judge

    return bind


@cache
def http_rules(revision: RevisionId, form: Transport, when: When) -> tuple[HttpRule, ...]:
    """Return the rules that hold in a revision, in one form of HTTP, at one moment."""
    from accord.protocol.catalogue import catalogue

    rows = catalogue()
    return tuple(
        each
        for each in HTTP_RULES
        if each.when == when and form in each.forms and rows[each.requirement].holds_in(revision)
    )


def needed_facts(requirement: str) -> frozenset[str] | None:
    """Return the HTTP facts without which a requirement cannot be judged; None if it needs none.

    Of several rules on one requirement, the one that needs least decides.
    """
    needs = [each.needs for each in HTTP_RULES if each.requirement == requirement]
    if requirement in NEEDED_BY_MESSAGES:
        needs.append(NEEDED_BY_MESSAGES[requirement])
    return min(map(frozenset, needs), key=len) if needs else None


_PARAM_HEADERS: Final = (asks("Mcp-Method"),)
NEEDED_BY_MESSAGES: Final[dict[str, tuple[str, ...]]] = {
    "http.post.each-message": (METHOD,),
    "http.post.metadata-headers": (asks("Mcp-Method"),),
    "http.version-header.present": (asks("MCP-Protocol-Version"),),
    "http.version-header.matches-meta": (asks("MCP-Protocol-Version"),),
    "http.headers.mcp-method": (asks("Mcp-Method"),),
    "http.headers.mcp-name": (asks("Mcp-Name"),),
    "http.headers.mcp-name.encoded-when-unsafe": (asks("Mcp-Name"),),
    "tasks-ext.http.mcp-name": (asks("Mcp-Name"),),
    "http.post.related-requests-on-stream": (STREAM,),
    "http.get.unrelated-messages": (METHOD,),
    "http.sse.notifications-related": (STREAM,),
    "http.sse.listen-excludes-request-scoped": (STREAM,),
    "http.sse.no-requests": (),
    "http.param-headers.client-support": _PARAM_HEADERS,
    "http.param-headers.omitted-without-value": _PARAM_HEADERS,
    "http.param-headers.value.string-forms": _PARAM_HEADERS,
    "http.param-headers.value.base64-when-unsafe": _PARAM_HEADERS,
    "http.param-headers.value.sentinel-escaped": _PARAM_HEADERS,
    "http.param-headers.exact-path": _PARAM_HEADERS,
}
"""What the rules on messages need of HTTP, beside the message."""


# -- which facts a recording has

_ASKED: Final = (
    *("Accept", "Authorization", "Last-Event-ID", "Mcp-Method", "Mcp-Name"),
    *("MCP-Protocol-Version", "Mcp-Session-Id"),
)
_SAID: Final = ("Content-Type", "Mcp-Session-Id", "WWW-Authenticate", "X-Accel-Buffering")


def facts_in(record: Record, facts: HttpFacts) -> set[str]:
    """Return which of the needed facts a record has."""
    found = set()
    if record.sender == "client":
        found |= {asks(name) for name in _ASKED if facts.knows(name)}
        found |= {
            name for name, value in ((PATH, facts.path), (QUERY, facts.query)) if value is not None
        }
    else:
        found |= {says(name) for name in _SAID if facts.knows(name)}
        found |= {STATUS} if facts.status is not None else set()
        found |= {EVENTS} if facts.event is not None else set()
        found |= {END} if facts.ended is not None else set()
        found |= {LINK} if facts.exchange is not None else set()
    if facts.method is not None:
        found.add(METHOD)
    if facts.stream is not None or facts.exchange is not None:
        found.add(STREAM)
    return found
