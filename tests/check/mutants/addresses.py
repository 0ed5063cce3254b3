"""Servers over HTTP that the wrong people can reach: origins, and addresses to listen at."""

import socket
from collections.abc import Callable
from typing import Any

from check.faults import faults, hook_maker
from check.mutants.between_http import Asked, Head, Headers, Web, web_mutant

VALIDATED = "http.origin.validated"
STATUS = "http.origin.invalid-403"
NEWER = "2025-11-25"


@hook_maker
def welcoming(web: Web, is_welcome: Callable[[Asked, str], bool]) -> None:
    """Let some requests with a foreign origin pass."""

    def before(asked: Asked) -> None:
        origin = asked.headers.get("origin")
        if origin is not None and is_welcome(asked, origin):
            del asked.headers["origin"]

    web.before = before


faults(
    web_mutant(VALIDATED),
    welcomes_pages_without_an_origin=welcoming(lambda asked, origin: origin == "null"),
    looks_how_an_origin_begins=welcoming(
        lambda asked, origin: origin.startswith("http://localhost")
    ),
)


@web_mutant(VALIDATED, revision="2025-03-26")
def looks_for_its_address_in_an_origin(web: Web) -> None:
    welcoming(lambda asked, origin: "127.0.0.1" in origin)(web)


faults(
    web_mutant(VALIDATED),
    looks_how_an_origin_ends=welcoming(lambda asked, origin: origin.endswith("localhost")),
    looks_at_the_origin_of_posts_alone=welcoming(lambda asked, origin: asked.verb == "GET"),
)
faults(
    web_mutant(VALIDATED, revision=NEWER),
    lets_every_page_end_a_session=welcoming(lambda asked, origin: asked.verb == "DELETE"),
    looks_at_the_origin_only_once=welcoming(
        lambda asked, origin: asked.method not in ("initialize", "")
    ),
)


@web_mutant(VALIDATED, revision="2024-11-05", form="sse")
def looks_at_the_origin_of_the_stream_alone(web: Web) -> None:
    welcoming(lambda asked, origin: asked.verb == "POST")(web)


@web_mutant(STATUS, revision=NEWER)
def asks_foreign_origins_to_log_in(web: Web) -> None:
    web.head = lambda asked, status, headers: (401 if status == 403 else status, headers)


@web_mutant(STATUS, revision=NEWER, of="head")
def hides_from_foreign_origins_that_listen(asked: Asked, status: int, headers: Headers) -> Head:
    return (404 if status == 403 and asked.verb == "GET" else status), headers


# -- addresses


def unchanged(name: str) -> Callable[[Web], None]:
    def hook(web: Web) -> None:
        pass

    hook.__name__ = name
    return hook


if socket.has_dualstack_ipv6():
    BIND: Any = "http.server.bind-localhost"
    web_mutant(BIND, host="dual-stack", only=[BIND])(unchanged("listens_in_both_families"))
    web_mutant(BIND, host="each-family", only=[BIND], revision=NEWER)(
        unchanged("listens_everywhere_in_ipv6")
    )
