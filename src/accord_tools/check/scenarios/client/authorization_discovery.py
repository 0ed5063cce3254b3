"""Discovery: where a client looks for metadata, in which order, and what it requires of it."""

from collections.abc import Sequence
from typing import Final

from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.http_transport import ReceivedRequest
from accord_tools.check.fake_server.protected import (
    OAUTH,
    OPENID,
    RESOURCE,
    FakeAuthorizationServer,
    ProtectedFakeServer,
)
from accord_tools.check.fake_server.server import client_scenario
from accord_tools.check.scenarios.client.authorization_registration import judge_registration
from accord_tools.check.scenarios.client.authorization_scopes import judge_supported_scope

_WELL_KNOWN: Final = "/.well-known/"
_SUFFIXES: Final = ("oauth-authorization-server", "openid-configuration")
_BOTH_FORMS: Final = "auth.client.discovery-both"
_SEVERAL: Final = "auth.asm.client-tries-several"
_SUFFIX: Final = "auth.asm.no-own-suffix"
_MECHANISMS: Final = "auth.prm.client-both-mechanisms"
_SCOPES: Final = "auth.scope.selection-order"
_IDENTICAL: Final = "auth.asm.issuer-identical"
_PKCE: Final = ("auth.pkce.refuse-without-methods", "auth.pkce.verify-support")


def _first_requests(run: ClientRun, places: Sequence[str]) -> list[ReceivedRequest]:
    """Return the first request to each of some paths, in the order of the requests."""
    first: dict[str, ReceivedRequest] = {}
    for each in run.requests:
        if each.path in places and each.method == "GET":
            first.setdefault(each.path, each)
    return list(first.values())


def _judge_metadata_order(run: ClientRun, server: FakeAuthorizationServer, id: str) -> None:
    """Judge the order of the requests for metadata that is at the last place of all."""
    places = server.well_known
    found = _first_requests(run, places)
    _judge_suffix(run, server, found)
    if not found:
        # A client that ignores the path of the issuer asks elsewhere.
        asked = [each for each in run.requests if any(name in each.path for name in _SUFFIXES)]
        for each in asked[:1]:
            why = f"looks for the metadata of {server.path} at {each.path}, not at {places[0]}"
            run.holds(id, condition=False, why=why, request=each)
        return
    tried = [each.path for each in found]
    shown = f"looks for the metadata of the authorization server at {', '.join(tried)}"
    has_found = any(path in server.places for path in tried)
    has_given_up = not has_found and run.exit_code is not None
    if len(tried) > 1 or has_given_up:
        run.holds(_SEVERAL, len(tried) > 1, f"{shown} alone", request=found[0])
    judge_forms(run, server)
    if has_found or len(tried) > 1:
        why = f"{shown}, in place of {', '.join(places)}"
        if has_found or has_given_up:
            run.holds(id, tried == list(places), why, request=found[0])


def judge_forms(run: ClientRun, server: FakeAuthorizationServer) -> None:
    """Judge whether a client that found no metadata looked for both forms of it."""
    found = _first_requests(run, server.well_known)
    forms = {name for name in _SUFFIXES if any(name in each.path for each in found)}
    is_left = any(each.path in server.places for each in found) or run.exit_code is None
    if found and (len(forms) == 2 or not is_left):
        why = f"looks for the metadata of the authorization server at {found[-1].path} alone"
        run.holds(_BOTH_FORMS, len(forms) == 2, why, request=found[-1])


def _judge_suffix(
    run: ClientRun, server: FakeAuthorizationServer, found: Sequence[ReceivedRequest]
) -> None:
    """Judge whether a client invents a well-known suffix."""
    known = (*_SUFFIXES, "oauth-protected-resource")
    odd = [
        each
        for each in run.requests
        if _WELL_KNOWN in each.path
        and each.path.partition(_WELL_KNOWN)[2].partition("/")[0] not in known
    ]
    defaults = [each for each in found if _SUFFIXES[0] in each.path]
    if defaults:
        run.passes(_SUFFIX)
    elif odd:
        why = f"looks for metadata at {odd[0].path}, and never at {server.well_known[0]}"
        run.holds(_SUFFIX, condition=False, why=why, request=odd[0])


@client_scenario(
    "auth.asm.order-with-path",
    _BOTH_FORMS,
    _SEVERAL,
    _SUFFIX,
    _SCOPES,
    "auth.cimd.client-checks-support",
    on=("http", "sse"),
    era="both",
)
class HasIssuerWithPath(ProtectedFakeServer):
    """Has an issuer with a path, whose metadata is at the last of the well-known URLs."""

    def make_servers(self) -> list[FakeAuthorizationServer]:
        # The authorization server knows scopes that the server does not ask for.
        members = {
            "scopes_supported": ["accounts:manage"],
            "client_id_metadata_document_supported": False,
        }
        path = "/tenant"
        server = FakeAuthorizationServer(path, places=(f"{path}{OPENID}",), members=members)
        # The metadata does not advertise it, and it is right: a client that compares it goes on.
        server.iss = f"{{origin}}{path}"
        return [server]

    async def judge(self, run: ClientRun) -> None:
        if self.was_tried(run):
            _judge_metadata_order(run, self.named, "auth.asm.order-with-path")
            judge_supported_scope(run, self)
            judge_registration(run, self)


@client_scenario(
    "auth.asm.order-without-path",
    _MECHANISMS,
    _BOTH_FORMS,
    _SEVERAL,
    _SUFFIX,
    _SCOPES,
    on=("http", "sse"),
    era="both",
)
class NamesNothingInItsChallenge(ProtectedFakeServer):
    """Has metadata at the root alone, and an issuer with nothing but an OpenID configuration."""

    names_metadata = None
    places = (RESOURCE,)
    scopes_supported = ("notes:read", "notes:write")

    def make_servers(self) -> list[FakeAuthorizationServer]:
        members = {"scopes_supported": ["notes:read", "notes:write", "accounts:manage"]}
        return [FakeAuthorizationServer(places=(OPENID,), members=members)]

    async def judge(self, run: ClientRun) -> None:
        if not self.was_tried(run):
            return
        self._judge_mechanisms(run)
        if any(each.path in self.places for each in run.requests):
            _judge_metadata_order(run, self.named, "auth.asm.order-without-path")
            judge_supported_scope(run, self)

    def _judge_mechanisms(self, run: ClientRun) -> None:
        specific, root = f"{RESOURCE}{run.path}", RESOURCE
        found = _first_requests(run, (specific, root))
        tried = [each.path for each in found]
        if run.exit_code is None and len(tried) < 2:
            return
        first = found[0] if found else next(each for each in run.requests if each.path != run.path)
        shown = f"looks for the resource metadata at {', '.join(tried) or 'no well-known URL'}"
        why = f"{shown}, in place of {specific}, then {root}"
        run.holds(_MECHANISMS, tried == [specific, root], why, request=first)


@client_scenario(_IDENTICAL, on=("http", "sse"), era="stateless")
class PublishesAnotherIssuer(ProtectedFakeServer):
    """Publishes metadata whose issuer is not the one that the client looked for."""

    path = "/tenant"

    def make_servers(self) -> list[FakeAuthorizationServer]:
        # First those that differ least.
        wrong = [f"{self.path}/", self.path.upper(), "/of-somebody-else"]
        places = FakeAuthorizationServer(self.path).well_known
        return [
            _MisnamedServer(each, place, number)
            for number, (each, place) in enumerate(zip(wrong, places, strict=True))
        ]

    @property
    def issuer(self) -> str:
        return f"{self.origin}{self.path}"

    async def judge(self, run: ClientRun) -> None:
        if not self.was_tried(run):
            return
        places = FakeAuthorizationServer(self.path).well_known
        if not _first_requests(run, places):
            return
        for server in self.servers:
            names = ("register", "authorize", "token")
            used = [each for name in names for each in self.requests_to(run, name, server)]
            given = f"{self.origin}{server.path}"
            why = f"uses metadata of the issuer {given} for the issuer {self.issuer}"
            if used:
                run.holds(_IDENTICAL, condition=False, why=why, request=used[0])
        run.passes(_IDENTICAL)


class _MisnamedServer(FakeAuthorizationServer):
    """Publishes its metadata where that of another issuer belongs."""

    def __init__(self, path: str, place: str, number: int) -> None:
        super().__init__(path, places=(place,), endpoints=f"/misnamed-{number}")


# -- PKCE


class _OmitsPkce(ProtectedFakeServer):
    """Has an authorization server that does not say that it supports PKCE."""

    place = OAUTH

    def make_servers(self) -> list[FakeAuthorizationServer]:
        members = {"code_challenge_methods_supported": None}
        return [FakeAuthorizationServer(places=(self.place,), members=members)]

    async def judge(self, run: ClientRun) -> None:
        asked = self.named.asked
        looked = [each for each in run.requests if each.path == self.place]
        if looked and (asked or run.exit_code is not None):
            why = (
                "asks for authorization although the metadata has no "
                "code_challenge_methods_supported"
            )
            shown = asked[0].request if asked else None
            for id in _PKCE:
                run.holds(id, not asked, why, request=shown)
        elif not looked:
            self.was_tried(run)


@client_scenario(*_PKCE, on=("http", "sse"), era="both")
class OmitsPkce(_OmitsPkce):
    """Has metadata without code_challenge_methods_supported."""


@client_scenario(*_PKCE, on=("http", "sse"), era="both")
class OmitsPkceInItsOpenIdConfiguration(_OmitsPkce):
    """Has an OpenID configuration without code_challenge_methods_supported."""

    place = OPENID
