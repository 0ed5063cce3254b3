"""Flows driven without a network: responses by URL, exactly as tests write them."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from accord.http.client.guarded import HttpRequest, HttpResponse

Answer = Any
NOT_FOUND = HttpResponse(status=404)


def reply(said: Any, status: int = 200, **headers: str) -> HttpResponse:
    """A response with a JSON body."""
    known = {"content-type": "application/json", **headers}
    return HttpResponse(status=status, headers=known, body=msgspec.json.encode(said))


def drive(flow: Any, answers: Mapping[str, Answer] | Callable[[HttpRequest], Answer]) -> Any:
    """Carry a flow to its end; returns its value and the requests it made."""
    asked: list[HttpRequest] = []
    try:
        request = next(flow)
        while True:
            asked.append(request)
            found = answers(request) if callable(answers) else answers.get(request.url, NOT_FOUND)
            request = flow.throw(found) if isinstance(found, Exception) else flow.send(found)
    except StopIteration as end:
        return end.value, asked
