"""Tokens on the listener: known ones are admitted without ASGI, and all others are checked."""

import pytest

from accord import Context, Server
from accord.auth import Guard, Protected
from accord.auth.verifiers import TokenMemory, token_digest
from accord.http.server.listener_request import ListenerExchange
from accord.principal import Principal
from support.listened import listened

URL = "http://localhost/mcp"


class Remembering:
    """A verifier that knows two tokens, and remembers those that it has seen."""

    def __init__(self):
        self.memory = TokenMemory()
        self.asked = []

    async def verify(self, token):
        self.asked.append(token)
        found = None
        if token in ("ann", "bob"):
            found = Principal(token, scopes=frozenset({"use"}))
        self.memory.keep(token_digest(token), found, 600)
        return found


def guarded(verifier):
    auth = Protected(verifier, issuer=[], public_url=URL, scopes=["use"])
    server = Server("guarded", auth=auth)

    @server.tool
    async def whoami(ctx: Context) -> str:
        """Return the caller."""
        assert "authorization" not in ctx.request.headers
        return ctx.principal.subject

    @server.tool(scopes=["admin"])
    async def rule() -> str:
        """Do what only some may do."""
        return "done"

    return server


@pytest.fixture
def direct(monkeypatch):
    """The requests that took the direct way."""
    made = []
    begin = ListenerExchange.__init__

    def note(self, *args):
        made.append(self)
        begin(self, *args)

    monkeypatch.setattr(ListenerExchange, "__init__", note)
    return made


def who(wire, token):
    answer = wire.call("whoami", f"Authorization: Bearer {token}")
    assert answer.status == 200, answer.body
    return answer.json["result"]["content"][0]["text"]


def test_a_known_token_takes_the_direct_way(direct):
    verifier = Remembering()
    with listened(guarded(verifier).asgi()) as server, server.connect() as wire:
        assert [who(wire, "ann") for _ in range(4)] == ["ann"] * 4
        assert len(direct) == 3
        assert who(wire, "bob") == "bob"
        assert [who(wire, token) for token in ("ann", "bob", "ann")] == ["ann", "bob", "ann"]
    assert verifier.asked == ["ann", "bob"]


def test_other_requests_are_refused_after_known_ones():
    with listened(guarded(Remembering()).asgi()) as server, server.connect() as wire:
        who(wire, "ann")
        who(wire, "ann")
        for lines in (
            [],
            ["Authorization: Bearer eve"],
            ["Authorization: Bearer eve"],
            ["Authorization: Basic ann"],
            ["Authorization: Bearer ann", "Authorization: Bearer ann"],
            ["Authorization: Bearer ann", "Authorization: Bearer eve"],
        ):
            answer = wire.call("whoami", *lines)
            assert answer.status in (400, 401), lines
        assert wire.call("whoami").headers["www-authenticate"].startswith("Bearer")
        assert who(wire, "ann") == "ann"


def test_a_forgotten_token_is_verified_again():
    verifier = Remembering()
    with listened(guarded(verifier).asgi()) as server, server.connect() as wire:
        who(wire, "ann")
        verifier.memory.known.clear()
        who(wire, "ann")
    assert verifier.asked == ["ann", "ann"]


def test_missing_scopes_are_asked_for_on_the_direct_way(direct):
    with listened(guarded(Remembering()).asgi()) as server, server.connect() as wire:
        for _ in range(2):
            answer = wire.call("rule", "Authorization: Bearer ann")
            assert answer.status == 403
            assert 'scope="admin use"' in answer.headers["www-authenticate"]
    assert len(direct) == 1


def test_hosts_are_checked_on_the_direct_way(direct):
    with listened(guarded(Remembering()).asgi()) as server, server.connect() as wire:
        who(wire, "ann")
        answer = wire.call("whoami", "Host: evil.example", "Authorization: Bearer ann")
        assert answer.status == 403
    assert direct


def test_a_session_belongs_to_the_token_that_opened_it():
    with listened(guarded(Remembering()).asgi()) as server, server.connect() as wire:
        who(wire, "ann")
        who(wire, "bob")
        session = wire.ask("Authorization: Bearer ann").headers["mcp-session-id"]
        line = f"Mcp-Session-Id: {session}"
        body = b'{"jsonrpc":"2.0","id":2,"method":"ping"}'
        assert wire.ask("Authorization: Bearer ann", line, body=body).status == 200
        assert wire.ask("Authorization: Bearer bob", line, body=body).status in (403, 404)


def test_a_guard_of_your_own_sees_all_requests():
    seen = []

    class Watching(Guard):
        async def __call__(self, scope, receive, send):
            seen.append(scope["path"])
            await super().__call__(scope, receive, send)

    verifier = Remembering()
    server = guarded(verifier)
    server.auth.guard = lambda app, **settings: Watching(app, server.auth, **settings)
    with listened(server.asgi()) as found, found.connect() as wire:
        for _ in range(3):
            who(wire, "ann")
    assert seen == ["/mcp"] * 3
