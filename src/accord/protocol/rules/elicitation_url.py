"""Deep rules of elicitation by a page to visit: its address, its id, its completion."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import FAULT, NOTIFICATION
from accord.protocol.party import Bounded
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.elicitation import CREATE
from accord.protocol.rules.items import Finding, each, has, object_of, shown
from accord.protocol.rules.questions import ASKING, Question, asking, questions
from accord.protocol.syntax import is_uri
from accord.protocol.violation import SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

URL_ELICITATION_REQUIRED: Final = -32042
_COMPLETE: Final = "notifications/elicitation/complete"
_ASKING: Final = asking(CREATE)
_ID: Final = "elicitation.url.elicitation-id"

_LOOPBACK: Final = re.compile(r"localhost|.*\.localhost|127(?:\.\d{1,3}){3}|::1", re.IGNORECASE)
_EMAIL: Final = re.compile(r"[^@/?&=\s]@[^@/?&=\s]+\.[A-Za-z]{2,}")
_PERSONAL: Final = frozenset(
    {
        *("token", "access_token", "refresh_token", "id_token", "api_key", "apikey"),
        *("password", "passwd", "secret", "client_secret", "email", "ssn", "phone"),
    }
)


@check("elicitation.url.required-params", by=SERVER, kind=ASKING, on=_ASKING)
def page_has_message_and_url(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        has(object_of(question.params), question.place, name, "string")
        for question in _pages(step)
        for name in ("message", "url")
    )


@check("elicitation.url.valid-url", by=SERVER, kind=ASKING, on=_ASKING)
def url_is_valid(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        _split(url) is not None or f"sends {place} with {shown(url)}, which is no valid URL"
        for place, url in _urls(step)
    )


@check("elicitation.url.https", by=SERVER, kind=ASKING, on=_ASKING)
def url_is_https(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        parts.scheme == "https"
        or _LOOPBACK.fullmatch(parts.hostname or "") is not None
        or f"sends {place} with a URL of scheme {parts.scheme}"
        for place, url in _urls(step)
        if (parts := _split(url)) is not None
    )


@check("elicitation.url.no-personal-data", by=SERVER, kind=ASKING, on=_ASKING)
def url_tells_nothing_of_the_user(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        _is_discreet(parts, place)
        for place, url in _urls(step)
        if (parts := _split(url)) is not None
    )


def _is_discreet(parts: SplitResult, place: str) -> Finding:
    if parts.username or parts.password:
        return f"sends {place} with credentials in its URL"
    names = {name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    telling = sorted(names & _PERSONAL)
    if telling:
        return f"sends {place} with {telling[0]} in its URL"
    rest = unquote(f"{parts.path}?{parts.query}#{parts.fragment}")
    return _EMAIL.search(rest) is None or f"sends {place} with an e-mail address in its URL"


@check(_ID, by=SERVER, kind=ASKING, on=_ASKING)
def page_has_an_id_of_its_own(step: Step, conversation: "Conversation") -> Outcome:
    memory = conversation.memory
    seen: Bounded[str, Any] = Bounded()
    if memory is not None:
        seen = memory.facts.setdefault(_ID, seen)
    findings: list[Finding] = []
    for question in _pages(step):
        params = object_of(question.params)
        finding = has(params, question.place, "elicitationId", "string")
        if finding is True:
            id, url = params["elicitationId"], params.get("url")
            if seen.setdefault(id, url) != url:
                finding = f"uses the elicitation id {shown(id)} for two pages"
        findings.append(finding)
    return each(findings)


@check("elicitation.url.no-elicitation-id", by=SERVER, kind=ASKING, on=(*_ASKING, _COMPLETE))
def page_has_no_id(step: Step, conversation: "Conversation") -> Outcome:
    if step.name == _COMPLETE:
        return "tells that an elicitation is complete"
    return each(
        "elicitationId" not in object_of(question.params)
        or f"sends {question.place} with an elicitationId"
        for question in _pages(step)
    )


@check("elicitation.complete.has-id", by=SERVER, kind=NOTIFICATION, on=_COMPLETE)
def completion_names_the_elicitation(step: Step, conversation: "Conversation") -> Outcome:
    return has(object_of(step.body), _COMPLETE, "elicitationId", "string")


@check("elicitation.required-error.lists-elicitations", by=SERVER, kind=FAULT)
def error_lists_the_pages_to_visit(step: Step, conversation: "Conversation") -> Outcome:
    if step.error is None or step.error.code != URL_ELICITATION_REQUIRED:
        return None
    pages = object_of(step.error.data).get("elicitations")
    if not isinstance(pages, list) or not pages:
        return f"fails with {URL_ELICITATION_REQUIRED} without data.elicitations"
    return each(_is_a_page(page, f"elicitations[{at}]") for at, page in enumerate(pages))


def _is_a_page(page: Any, place: str) -> Finding:
    if not isinstance(page, dict) or page.get("mode") != "url":
        return f"sends {place} that is not in URL mode"
    findings = [has(page, place, name, "string") for name in ("elicitationId", "url", "message")]
    return next((finding for finding in findings if finding is not True), True)


def _pages(step: Step) -> Iterator[Question]:
    for question in questions(step, CREATE):
        if object_of(question.params).get("mode") == "url":
            yield question


def _urls(step: Step) -> Iterator[tuple[str, str]]:
    for question in _pages(step):
        url = object_of(question.params).get("url")
        if isinstance(url, str):
            yield question.place, url


def _split(url: str) -> SplitResult | None:
    if not is_uri(url):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts if parts.hostname else None
