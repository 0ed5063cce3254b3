"""Questions to a client and their answers, in the way of each revision, for pairs of traces."""

from typing import Any, NamedTuple

from support.traces import META, C, Pair, S, Said, opening

CAPABILITIES = {
    "roots": {},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
}
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = ("2026-07-28",)

CALL = {"name": "book", "arguments": {}}
DONE = {"content": [], "isError": False}


class Way(NamedTuple):
    """How a question and its answer travel."""

    name: str
    revisions: tuple[str, ...]

    def ask(self, method: str, params: Any) -> list[Said]:
        if self.name == "request":
            return [S.request("q", method, params)]
        question = {"method": method} if params is None else {"method": method, "params": params}
        asked = {"resultType": "input_required", "inputRequests": {"q": question}}
        return [C.request(1, "tools/call", CALL), S.result(1, asked)]

    def answer(self, result: Any, **meta: Any) -> list[Said]:
        if self.name == "request":
            return [C.result("q", result)]
        params = {**CALL, "inputResponses": {"q": result}}
        if meta:
            params["_meta"] = {f"{META}{key}": value for key, value in meta.items()}
        return [C.request(2, "tools/call", params)]


WAYS = (Way("request", HANDSHAKE), Way("round", STATELESS))


def asked(
    requirement: str,
    method: str,
    *,
    legal: Any,
    illegal: Any,
    revisions: tuple[str, ...] = HANDSHAKE + STATELESS,
    client: Any = None,
    variant: str = "",
    **more: Any,
) -> list[Pair]:
    """Pairs on the params of a question."""
    return [
        Pair(
            requirement=requirement,
            legal=way.ask(method, legal),
            illegal=way.ask(method, illegal),
            client=CAPABILITIES if client is None else client,
            server={"tools": {}},
            revisions=tuple(each for each in way.revisions if each in revisions),
            variant="-".join(filter(None, (variant, way.name))),
            **more,
        )
        for way in WAYS
        if not set(way.revisions).isdisjoint(revisions)
    ]


def asked_of(
    requirement: str,
    method: str,
    params: Any,
    *,
    declared: Any,
    undeclared: Any,
    revisions: tuple[str, ...],
    variant: str = "",
    answer: Any = None,
    **more: Any,
) -> list[Pair]:
    """Pairs on one question to a client that declared what it needs, and to one that did not."""

    def said(way: Way, revision: str, capabilities: Any) -> list[Said]:
        meta = {"clientCapabilities": capabilities}
        asking = way.ask(method, params)
        if way.name == "round":
            named = {"_meta": {f"{META}{key}": value for key, value in meta.items()}}
            asking[0] = C.request(1, "tools/call", {**CALL, **named})
        before = opening(revision, client=capabilities, server={"tools": {}})
        if answer is None:
            return [*before, *asking]
        return [*before, *asking, *way.answer(answer, **meta)]

    return [
        Pair(
            requirement=requirement,
            legal=said(way, revision, declared),
            illegal=said(way, revision, undeclared),
            opened=False,
            revisions=(revision,),
            variant="-".join(filter(None, (variant, way.name))),
            **more,
        )
        for way in WAYS
        for revision in way.revisions
        if revision in revisions
    ]


def answered(
    requirement: str,
    method: str,
    params: Any,
    *,
    legal: Any,
    illegal: Any,
    revisions: tuple[str, ...] = HANDSHAKE + STATELESS,
    variant: str = "",
    **more: Any,
) -> list[Pair]:
    """Pairs on the answer to a question."""
    return [
        Pair(
            requirement=requirement,
            legal=[*way.ask(method, params), *way.answer(legal)],
            illegal=[*way.ask(method, params), *way.answer(illegal)],
            client=CAPABILITIES,
            server={"tools": {}},
            revisions=tuple(each for each in way.revisions if each in revisions),
            variant="-".join(filter(None, (variant, way.name))),
            **more,
        )
        for way in WAYS
        if not set(way.revisions).isdisjoint(revisions)
    ]


def declared_per_request(
    requirement: str, method: str, params: Any, result: Any, capability: str
) -> Pair:
    """The pair on a client that answers without declaring that it can."""
    way = WAYS[1]
    undeclared = {name: value for name, value in CAPABILITIES.items() if name != capability}
    return Pair(
        requirement=requirement,
        legal=[*way.ask(method, params), *way.answer(result)],
        illegal=[*way.ask(method, params), *way.answer(result, clientCapabilities=undeclared)],
        client=CAPABILITIES,
        party="client",
    )


def asked_in_a_result(requirement: str, method: str, params: Any) -> Pair:
    """The pair on a server that sends its question as a request of its own."""
    return Pair(
        requirement=requirement,
        legal=WAYS[1].ask(method, params),
        illegal=[C.request(1, "tools/call", CALL), *WAYS[0].ask(method, params)],
        client=CAPABILITIES,
        party="server",
    )


def declared(
    requirement: str, client: Any, said: list[Said], *, also: frozenset[str] = frozenset()
) -> list[Pair]:
    """Pairs on a client that does in a session what it did not declare at its beginning."""
    return [
        Pair(
            requirement=requirement,
            legal=[*opening(revision, client=client), *said],
            illegal=[*opening(revision), *said],
            opened=False,
            revisions=(revision,),
            party="client",
            also=also,
        )
        for revision in HANDSHAKE
    ]
