"""Clients with one fault each in how they authorize: area auth."""

import json
from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import unquote

from accord_tools.check.fake_server.protected import PREREGISTERED
from check.client.authorizing import OAUTH, OPENID, RESOURCE, Authorizing, Known, Stateless
from check.client.mutants import UNBREAKABLE
from check.client.raw import Gone, Message, Raw
from check.client.registering import few, mutant
from check.faults import altering, faults

# Nothing listens there, so nothing is read.
DOCUMENT = "https://127.0.0.1:9/metadata.json"
UNDEFINED = "undefined"


def altered(
    id: str,
    *scenarios: str,
    kind: type[Raw] = Authorizing,
    also: dict[str, str] | None = None,
    **members: Any,
) -> Callable[[str], None]:
    """Register a client with other values of some members; call the result with its name."""

    def register(name: str) -> None:
        mutant(id, *scenarios, also=also)(type(name, (kind,), members))

    return register


# -- where it looks for metadata

PATH, ROOT = "HasIssuerWithPath", "NamesNothingInItsChallenge"
ALONE = {"auth.asm.client-tries-several": "one place is not several"}
FORMS = {"auth.client.discovery-both": "one place is of one form"}


def at(*places: str) -> Callable[[Authorizing, str], list[str]]:
    """Return what looks for metadata at other places: `{}` stands for the path of the issuer."""

    def server_urls(self: Authorizing, issuer: str) -> list[str]:
        path = issuer.removeprefix(self.origin)
        return [f"{self.origin}{each.replace('{}', path)}" for each in places]

    return server_urls


I1, I2, I3 = f"{OAUTH}{{}}", f"{OPENID}{{}}", f"{{}}{OPENID}"
altered("auth.client.discovery-both", PATH, also=ALONE, server_urls=at(I1))("KnowsOAuthAlone")
altered("auth.client.discovery-both", "RequiresToken", server_urls=at(I2, I3))("KnowsOpenIdAlone")
altered("auth.client.discovery-both", ROOT, also=ALONE, server_urls=at(I1, f"{{}}{OAUTH}"))(
    "AppendsOAuthToo"
)
altered("auth.asm.client-tries-several", ROOT, also=FORMS, server_urls=at(I1))("TriesOnePlaceAlone")
altered("auth.asm.client-tries-several", PATH, also=FORMS, server_urls=at(I1, I1, I1))(
    "TriesOnePlaceOften"
)
altered("auth.asm.client-tries-several", PATH, also=FORMS, server_urls=at(I1, OAUTH, OPENID))(
    "TriesTheRootInstead"
)
altered("auth.asm.order-with-path", PATH, server_urls=at(I2, I1, I3))("AsksForOpenIdFirst")
altered("auth.asm.order-with-path", PATH, server_urls=at(I1, I3, I2))("AppendsBeforeItInserts")
altered("auth.asm.order-with-path", PATH, server_urls=at(OAUTH, OPENID))("IgnoresThePath")
altered("auth.asm.order-with-path", PATH, server_urls=at(I1, I3))("NeverInsertsOpenId")
altered("auth.asm.order-without-path", ROOT, server_urls=at(OPENID, OAUTH))("PrefersOpenId")
altered("auth.asm.order-without-path", ROOT, server_urls=at(OPENID))("AsksForOpenIdAlone")
altered("auth.asm.order-without-path", ROOT, server_urls=at(f"{OAUTH}/", OPENID))(
    "PutsASlashAtTheEnd"
)
ORDER = {"auth.asm.order-without-path": "the default suffix is never tried"}
OWN = "/.well-known/mcp-authorization-server"
altered("auth.asm.no-own-suffix", ROOT, kind=Stateless, server_urls=at(OWN))("InventsASuffix")
altered("auth.asm.no-own-suffix", ROOT, kind=Stateless, also=ORDER, server_urls=at(OWN, OPENID))(
    "InventsASuffixBesideOpenId"
)
altered(
    "auth.asm.no-own-suffix", PATH, kind=Stateless, server_urls=at(f"{OWN}{{}}.json", f"{{}}{OWN}")
)("InventsASuffixForPaths")


def found_at(*places: str) -> Callable[[Authorizing, str], list[str]]:
    """Return what looks for resource metadata at these places."""
    return lambda self, challenge: [f"{self.origin}{each}" for each in places]


MECHANISMS = "auth.prm.client-both-mechanisms"
altered(MECHANISMS, ROOT, resource_urls=found_at(RESOURCE))("LooksAtTheRootAlone")
altered(MECHANISMS, ROOT, resource_urls=found_at(f"{RESOURCE}/mcp"))("LooksBelowThePathAlone")
altered(MECHANISMS, ROOT, resource_urls=found_at(RESOURCE, f"{RESOURCE}/mcp"))(
    "LooksAtTheRootFirst"
)
altered(MECHANISMS, ROOT, resource_urls=found_at())("LooksForNoResourceMetadata")


@mutant("auth.challenge.client-parses", "RequiresToken")
class KeepsTheQuotes(Authorizing):
    def resource_urls(self, challenge: str) -> list[str]:
        return [self.origin + "/%22" + super().resource_urls(challenge)[0][len(self.origin) :]]


@mutant("auth.challenge.client-parses", "RequiresToken")
class ReadsOnlyChallengesWithARealm(Authorizing):
    def resource_urls(self, challenge: str) -> list[str]:
        return super().resource_urls(challenge if "realm" in challenge else "")


@mutant("auth.prm.client-uses", "RequiresToken")
class LooksForTheServerInAnotherMember(Authorizing):
    def issuer_of(self, resource: Message) -> str:
        raise Gone


# -- the issuer in metadata

ISSUER = "PublishesAnotherIssuer"
IDENTICAL = "auth.asm.issuer-identical"


def compares(are_same: Callable[[str, str], bool]) -> Callable[[Any, str, str], bool]:
    return lambda _self, one, other: are_same(one, other)


def is_anything(_one: str, _other: str) -> bool:
    return True


def is_same_slashed(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")


def is_same_folded(one: str, other: str) -> bool:
    return one.lower() == other.lower()


def is_same_unquoted(one: str, other: str) -> bool:
    return unquote(one) == unquote(other)


def is_same_origin(one: str, other: str) -> bool:
    return one.split("/")[:3] == other.split("/")[:3]


altered(IDENTICAL, ISSUER, kind=Stateless, is_issuer=compares(is_anything))("TakesAnyIssuer")
altered(IDENTICAL, ISSUER, kind=Stateless, is_issuer=compares(is_same_slashed))("IgnoresASlash")
altered(IDENTICAL, ISSUER, kind=Stateless, is_issuer=compares(is_same_folded))("IgnoresCase")


@mutant(IDENTICAL, ISSUER)
class TrustsOpenIdConfigurations(Stateless):
    async def find_server(self, issuer: str) -> Message:
        return await self.first_of(self.server_urls(issuer)[1:]) or {}


# -- iss

ISS = "auth.iss.compare-present"
EXACT = "auth.iss.exact-string"
ABSENT = "auth.iss.reject-absent-when-advertised"
ERRORS = "auth.iss.errors-too"
ANOTHER = "ReturnsAnotherIss"
SIMILAR = ("ReturnsIssWithSlash", "ReturnsIssInUpperCase", "ReturnsIssPercentEncoded")
altered(ISS, ANOTHER, kind=Stateless, is_same_iss=compares(is_anything))("IgnoresIss")
altered(ISS, ANOTHER, kind=Stateless, is_same_iss=compares(is_same_origin))("ComparesOrigins")
altered(EXACT, *SIMILAR, kind=Stateless, is_same_iss=compares(is_same_slashed))("StripsSlashes")
altered(EXACT, *SIMILAR, kind=Stateless, is_same_iss=compares(is_same_folded))("FoldsCase")
altered(EXACT, *SIMILAR, kind=Stateless, is_same_iss=compares(is_same_unquoted))("Unquotes")


@mutant(ISS, ANOTHER)
class ComparesOnlyWhatIsAdvertised(Stateless):
    async def trusts(self, iss: str | None, issuer: str, about: Message) -> bool:
        is_advertised = about.get("authorization_response_iss_parameter_supported")
        return not is_advertised or iss == issuer


@mutant("auth.iss.record-issuer", ANOTHER)
class ReadsTheIssuerAgain(Stateless):
    async def trusts(self, iss: str | None, issuer: str, about: Message) -> bool:
        again = await self.get(self.server_urls(issuer)[0])
        return again is not None and iss in (None, again["issuer"])


@mutant("auth.iss.record-issuer", ANOTHER)
class ReadsTheIssuerAgainIfItDiffers(Stateless):
    async def trusts(self, iss: str | None, issuer: str, about: Message) -> bool:
        if iss in (None, issuer):
            return True
        found = await self.first_of(self.server_urls(issuer))
        return found is not None and iss == found["issuer"]


@mutant("auth.iss.record-issuer", ANOTHER)
class LearnsTheEndpointAfterwards(Stateless):
    async def trusts(self, iss: str | None, issuer: str, about: Message) -> bool:
        about |= await self.get(self.server_urls(issuer)[0]) or {}
        return iss == about["issuer"]


@mutant(ABSENT, "LeavesOutIss")
class NeedsNoIss(Stateless):
    async def trusts(self, iss: str | None, issuer: str, about: Message) -> bool:
        return iss is None or iss == issuer


@mutant(ABSENT, "LeavesOutIss")
class SupposesItsOwnIssuer(Stateless):
    async def trusts(self, iss: str | None, issuer: str, about: Message) -> bool:
        return await super().trusts(iss or issuer, issuer, about)


@mutant(ABSENT, "LeavesOutIss")
class ReadsTheFlagAsText(Stateless):
    async def trusts(self, iss: str | None, issuer: str, about: Message) -> bool:
        flag = "authorization_response_iss_parameter_supported"
        return await super().trusts(iss, issuer, {flag: about.get(flag) == "true"})


@mutant(ERRORS, "RefusesAsSomebodyElse")
class OpensThePageAboutTheError(Stateless):
    async def distrust(self, back: dict[str, str]) -> None:
        await self.get(back.get("error_uri", self.origin))


@mutant(ERRORS, "RefusesAsSomebodyElse")
class AsksForLessAfterTheError(Stateless):
    async def distrust(self, back: dict[str, str]) -> None:
        if back.get("error") == "invalid_scope" and self.scopes:
            self.scopes = set()
            about = await self.find_server(f"{self.origin}/tenant")
            await self.consent(f"{self.origin}/tenant", about, next(iter(self.ids.values())), "v")


@mutant(ERRORS, "RefusesAsSomebodyElse")
class AsksForOtherScopesAfterTheError(Stateless):
    async def authorize(self, challenge: str) -> None:
        try:
            await super().authorize(challenge)
        except Gone:
            if 'scope="profile:read"' in challenge:
                raise
            await super().authorize(challenge.replace("notes:read", "profile:read"))


# -- PKCE

PKCE = ("OmitsPkce", "OmitsPkceInItsOpenIdConfiguration")
REFUSE, VERIFY = "auth.pkce.refuse-without-methods", "auth.pkce.verify-support"
altered(REFUSE, PKCE[0], also={VERIFY: "the same"}, proves_pkce=lambda _self, _about: True)(
    "GoesOnWithoutPkce"
)
altered(
    REFUSE,
    *PKCE,
    also={VERIFY: "the same"},
    proves_pkce=lambda _self, about: (
        "plain" not in about.get("code_challenge_methods_supported", "")
    ),
)("RefusesPlainAlone")
altered(
    VERIFY,
    *PKCE,
    also={REFUSE: "the same"},
    proves_pkce=lambda self, about: (
        Authorizing.proves_pkce(self, about) or "oauth-authorization-server" not in self.seen
    ),
)("VerifiesOAuthMetadataAlone")


@mutant(VERIFY, PKCE[0], also={REFUSE: "the same"})
class VerifiesAfterwards(Authorizing):
    def proves_pkce(self, about: Message) -> bool:
        return True

    async def trusts(self, iss: str | None, issuer: str, about: Message) -> bool:
        return super().proves_pkce(about)


PLAIN = {"auth.pkce.implemented": "no method means that the challenge is the verifier"}
altered("auth.pkce.s256", "RequiresToken", also=PLAIN, wants={"code_challenge_method": None})(
    "NamesNoMethod"
)
altered("auth.pkce.s256", "RequiresToken", wants={"code_challenge_method": "s256"})("SpellsS256")


@mutant("auth.pkce.s256", "RequiresToken")
class SendsItsVerifierPlainly(Authorizing):
    def wanted(self, client: str, verifier: str) -> dict[str, str]:
        plain = {"code_challenge": verifier, "code_challenge_method": "plain"}
        return {**super().wanted(client, verifier), **plain}


altered("auth.pkce.implemented", "RequiresToken", sends={"code_verifier": None})("HidesItsVerifier")
altered("auth.pkce.implemented", "RequiresToken", sends={"code_verifier": "v" * 43})("SendsAnother")

# -- state

altered("auth.state.verified", "ReturnsNoState", wants={"state": None})("SendsNoState")
altered(
    "auth.state.verified",
    "ReturnsNoState",
    is_ours=lambda _self, state, ours: state in ("", ours),
)("ComparesAStateThatIsThere")

# -- scopes

STEP, NEVER = "WantsAnotherScope", "NeverHasEnoughScope"
SELECTION = "auth.scope.selection-order"
NEEDED = "auth.scope.challenge-authoritative"
RELATION = "auth.scope.no-assumed-relation"
OTHERS = {SELECTION: "other scopes than those challenged"}


def chooses(choose: Callable[[set[str], Message, Message], set[str]]) -> Any:
    """Return a choice of scopes from those challenged, and both metadata."""

    def method(self: Authorizing, challenge: str, resource: Message, about: Message) -> set[str]:
        challenged = Authorizing.choose(self, challenge, {}, {})
        return choose(challenged, resource, about) if challenged else set()

    return method


def supported(document: Message) -> set[str]:
    return set(document.get("scopes_supported", ()))


altered(
    RELATION,
    "RequiresToken",
    choose=chooses(lambda given, resource, _: given & supported(resource)),
)("AsksForWhatIsSupportedToo")
altered(
    RELATION, "RequiresToken", choose=chooses(lambda given, _, about: given & supported(about))
)("AsksForWhatTheIssuerSupportsToo")
altered(
    RELATION,
    "RequiresToken",
    choose=chooses(
        lambda given, resource, _: given if given <= supported(resource) else {"notes:read"}
    ),
)("ExpectsASubset")
altered(
    NEEDED,
    "RequiresToken",
    also=OTHERS,
    choose=chooses(lambda _, resource, __: supported(resource)),
)("AsksForAllThatIsSupported")
altered(NEEDED, "RequiresToken", also=OTHERS, choose=chooses(lambda _, __, ___: {"mcp"}))(
    "AsksForAFixedScope"
)
altered(
    NEEDED, "RequiresToken", also=OTHERS, choose=chooses(lambda given, _, __: {",".join(given)})
)("SeparatesScopesWithCommas")
altered(SELECTION, "RequiresToken", choose=chooses(lambda _, __, ___: set()))("AsksForNoScope")
altered(
    SELECTION,
    "RequiresToken",
    choose=chooses(lambda given, resource, _: given | supported(resource)),
)("AsksForEverything")
altered(SELECTION, ROOT, choose=lambda _self, _challenge, _resource, _about: set())(
    "AsksForNoSupportedScope"
)
altered(
    SELECTION, ROOT, choose=lambda _self, _challenge, resource, _about: {min(supported(resource))}
)("AsksForOneSupportedScope")
altered(SELECTION, PATH, choose=lambda _self, _challenge, _resource, about: supported(about))(
    "AsksForWhatTheIssuerKnows"
)

UP = "auth.scope.client-steps-up"


@mutant(UP, STEP)
class GivesUpWithoutScope(Authorizing):
    def may_try(self, challenge: str) -> bool:
        return "insufficient_scope" not in challenge


@mutant(UP, STEP)
class AsksForTheSameScopeAgain(Authorizing):
    def choose(self, challenge: str, resource: Message, about: Message) -> set[str]:
        return self.scopes or super().choose(challenge, resource, about)


@mutant(UP, STEP)
class OnlyRepeatsTheRequest(Authorizing):
    async def authorize(self, challenge: str) -> None:
        if "insufficient_scope" not in challenge:
            await super().authorize(challenge)


UNION = "auth.scope.client-union"


@mutant(UNION, STEP)
class AsksForTheNewScopeAlone(Stateless):
    def choose(self, challenge: str, resource: Message, about: Message) -> set[str]:
        self.scopes = set()
        return super().choose(challenge, resource, about)


@mutant(UNION, STEP)
class KeepsGeneralScopesAlone(Stateless):
    def choose(self, challenge: str, resource: Message, about: Message) -> set[str]:
        if self.scopes:
            self.scopes = {"openid"}
        return super().choose(challenge, resource, about)


LIMIT = "auth.scope.retry-limit"


@mutant(UNION, STEP)
class ForgetsHalfOfItsScopes(Stateless):
    def choose(self, challenge: str, resource: Message, about: Message) -> set[str]:
        self.scopes = {each for each in self.scopes if each.endswith(":write")}
        return super().choose(challenge, resource, about)


faults(
    mutant(LIMIT, NEVER),
    NeverStopsAsking=altering(Authorizing, limit=50, may_try=lambda self, challenge: True),
)


@mutant(LIMIT, NEVER)
class ForgetsItsAttempts(Authorizing):
    async def work(self) -> None:
        for _ in range(4):
            self.attempts = 0
            await self.ask("tools/list", {})


@mutant(LIMIT, NEVER)
class StartsOverEachTime(Authorizing):
    async def work(self) -> None:
        for _ in range(8):
            self.attempts, self.scopes = 3, set()
            await self.ask("tools/list", {})


# -- ids

OFFERS = "OffersEveryRegistration"
PRIORITY, GIVEN = "auth.register.priority", "auth.preregistration.option"
SUPPORT = "auth.cimd.client-checks-support"
HOSTED = "auth.cimd.https-hosted"
IGNORED = {PRIORITY: "another way comes first"}


@mutant(PRIORITY, OFFERS)
class RegistersBeforeItShowsItsDocument(Stateless):
    document = DOCUMENT

    def reads_documents(self, about: Message) -> bool:
        return False

    async def refused(self, about: Message) -> str:
        return DOCUMENT


@mutant(PRIORITY, OFFERS)
class RegistersAlthoughItIsKnown(Known):
    async def client_for(self, issuer: str, about: Message) -> str:
        await self.register(about)
        return PREREGISTERED

    async def refused(self, about: Message) -> str:
        return ""


@mutant(PRIORITY, OFFERS, also={GIVEN: "the id is never used"})
class ShowsItsDocumentAlthoughItIsKnown(Known):
    async def client_for(self, issuer: str, about: Message) -> str:
        return DOCUMENT


altered(GIVEN, OFFERS, kind=Known, also=IGNORED, wants={"client_id": "raw"})("UsesItsNameAsId")


@mutant(GIVEN, OFFERS, also=IGNORED)
class RegistersAndGivesUp(Known):
    async def client_for(self, issuer: str, about: Message) -> str:
        return await self.register(about)


for name, url in (
    ("HasADocumentWithoutTls", "http://client.example/metadata.json"),
    ("HasADocumentWithoutPath", "https://client.example"),
    ("HasADocumentAtTheRoot", "https://client.example/"),
):
    altered(HOSTED, OFFERS, kind=Stateless, document=url)(name)

altered(
    SUPPORT,
    "RequiresToken",
    kind=Stateless,
    document=DOCUMENT,
    reads_documents=lambda _self, _about: True,
)("AlwaysShowsItsDocument")
altered(
    SUPPORT,
    PATH,
    kind=Stateless,
    document=DOCUMENT,
    reads_documents=lambda _self, about: "client_id_metadata_document_supported" in about,
)("ReadsFalseAsTrue")


@mutant(SUPPORT, "RefusesTheRedirectUri")
class ShowsItsDocumentAfterARefusal(Stateless):
    async def refused(self, about: Message) -> str:
        return DOCUMENT


BEFORE = "auth.register.before-flow"
altered(BEFORE, "RequiresToken", kind=Stateless, wants={"client_id": None})("HasNoId")
altered(BEFORE, "RequiresToken", kind=Stateless, wants={"client_id": UNDEFINED})("HasAnUndefinedId")


@mutant(BEFORE, "ChangesItsAuthorizationServer")
class HasNoIdTheSecondTime(Stateless):
    async def client_for(self, issuer: str, about: Message) -> str:
        return (
            "" if self.ids and issuer not in self.ids else await super().client_for(issuer, about)
        )


REFUSAL = "auth.dcr.handles-refusal"
WITHOUT = {BEFORE: "it goes on without an id"}
TURNED_AWAY = "RefusesTheRedirectUri"


def goes_on_as(id: str) -> Any:
    async def refused(_self: Authorizing, _about: Message) -> str:
        return id

    return refused


altered(REFUSAL, TURNED_AWAY, kind=Stateless, also=WITHOUT, refused=goes_on_as(""))(
    "GoesOnWithoutId"
)
altered(REFUSAL, TURNED_AWAY, kind=Stateless, also=WITHOUT, refused=goes_on_as(UNDEFINED))(
    "GoesOnAsUndefined"
)


@mutant(REFUSAL, TURNED_AWAY)
class RegistersAgainAndAgain(Stateless):
    tries = 12

    async def refused(self, about: Message) -> str:
        self.tries -= 1
        return await self.register(about) if self.tries else await super().refused(about)


TYPE, NATIVE = "auth.dcr.application-type", "auth.dcr.native"
for name, said in (
    ("SaysNoType", None),
    ("SaysAnUnknownType", "browser"),
    ("SaysSeveralTypes", ["native", "web"]),
):
    altered(TYPE, "RequiresToken", kind=Stateless, says={"application_type": said})(name)
for name, uri in (
    ("IsAWebsiteOnLocalhost", "http://localhost:3000/callback"),
    ("IsAWebsiteOnLoopback", "http://127.0.0.1:3000/callback"),
    ("IsAWebsiteWithAScheme", "com.example.raw:/callback"),
):
    altered(
        NATIVE,
        "RequiresToken",
        kind=Stateless,
        says={"application_type": "web"},
        redirect=lambda _self, uri=uri: uri,
    )(name)

# -- refreshing

GRANTS, ASSUMED = "auth.refresh.grant-type", "auth.refresh.not-assumed"
CHANGES = "ChangesItsAuthorizationServer"


class Refreshes(Stateless):
    """Tries its refresh token wherever it was issued, also when the server has changed."""

    def issuer_of(self, resource: Message) -> str:
        found = super().issuer_of(resource)
        kept = next(iter(self.refresh_tokens), None)
        return found if kept is None or self.token is None else kept


for name, grants in (("SaysNoGrants", None), ("SaysTheCodeAlone", ["authorization_code"])):
    altered(GRANTS, CHANGES, kind=Refreshes, says={"grant_types": grants})(name)


@mutant(GRANTS, "RequiresToken")
class AsksForOfflineAccess(Stateless):
    says: ClassVar[Message] = {"grant_types": ["authorization_code"]}

    def choose(self, challenge: str, resource: Message, about: Message) -> set[str]:
        return super().choose(challenge, resource, about) | {"offline_access"}


def renews_with(token: Callable[[Authorizing], str | None]) -> Any:
    async def renew_token(self: Authorizing, issuer: str, about: Message, client: str) -> bool:
        if self.token is None:
            return False
        return await self.refresh(issuer, about, client, token(self))

    return renew_token


REVOKES = "RevokesTheToken"
altered(ASSUMED, REVOKES, kind=Stateless, renew_token=renews_with(lambda _: ""))("RefreshesNothing")
altered(ASSUMED, REVOKES, kind=Stateless, renew_token=renews_with(lambda _: UNDEFINED))(
    "RefreshesUndefined"
)
altered(ASSUMED, REVOKES, kind=Stateless, renew_token=renews_with(lambda self: self.token))(
    "RefreshesWithItsAccessToken"
)

# -- several issuers

SEPARATE, CROSS = "auth.as.separate-state", "auth.as.no-cross-use"
KEYED, REUSED = "auth.binding.keyed-by-issuer", "auth.binding.no-reuse-on-change"
AGAIN, MISMATCH = "auth.binding.reregister-on-change", "auth.binding.preregistered-mismatch-error"


@mutant(SEPARATE, CHANGES)
class HasOneRefreshToken(Stateless):
    async def renew_token(self, issuer: str, about: Message, client: str) -> bool:
        tokens = list(self.refresh_tokens.values())
        return bool(tokens) and await self.refresh(issuer, about, client, tokens[0])


@mutant(SEPARATE, CHANGES)
class ShowsItsTokenToEveryIssuer(Stateless):
    async def get(self, url: str) -> Message | None:
        heads = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        async with self.http.get(url, headers=heads) as response:
            return dict(await response.json()) if response.status == 200 else None


@mutant(SEPARATE, CHANGES)
class NamesItsOldTokenInItsRequest(Stateless):
    def wanted(self, client: str, verifier: str) -> dict[str, str]:
        hint = {"id_token_hint": self.token} if self.token else {}
        return {**super().wanted(client, verifier), **hint}


class HasOneId(Stateless):
    async def client_for(self, issuer: str, about: Message) -> str:
        known = next(iter(self.ids.values()), None)
        return known or await super().client_for(issuer, about)


class UsesItsFirstIdThroughout(Stateless):
    async def client_for(self, issuer: str, about: Message) -> str:
        await super().client_for(issuer, about)
        return next(iter(self.ids.values()))


class RedeemsWithItsFirstId(Stateless):
    def form(self, client: str, code: str, verifier: str) -> dict[str, str]:
        return super().form(next(iter(self.ids.values())), code, verifier)


BOTH = dict.fromkeys((CROSS, REUSED), "an id of one issuer at another")
ONE = {**BOTH, AGAIN: "it registers only once"}
mutant(REUSED, CHANGES, also=ONE)(HasOneId)
mutant(REUSED, CHANGES, also=BOTH)(UsesItsFirstIdThroughout)
mutant(REUSED, CHANGES, also=BOTH)(RedeemsWithItsFirstId)
mutant(CROSS, CHANGES, also=ONE)(HasOneId)
mutant(CROSS, CHANGES, also=BOTH)(UsesItsFirstIdThroughout)
mutant(CROSS, CHANGES, also=BOTH)(RedeemsWithItsFirstId)
mutant(AGAIN, CHANGES, also=ONE)(HasOneId)


@mutant(AGAIN, CHANGES, also=ONE)
class KnowsItsServerNotItsIssuer(Stateless):
    async def client_for(self, issuer: str, about: Message) -> str:
        return await super().client_for(self.place.url, about)


@mutant(AGAIN, CHANGES, also=ONE)
class RegistersOnlyForItsFirstToken(Stateless):
    async def client_for(self, issuer: str, about: Message) -> str:
        if self.token is not None:
            self.ids.setdefault(issuer, next(iter(self.ids.values())))
        return await super().client_for(issuer, about)


BACK = {CROSS: "an id of one issuer at another"}


@mutant(KEYED, CHANGES, also=BACK)
class KeepsItsLastIdAlone(Stateless):
    async def client_for(self, issuer: str, about: Message) -> str:
        if issuer in self.ids:
            return list(self.ids.values())[-1]
        return await super().client_for(issuer, about)


@mutant(KEYED, CHANGES, also=BACK)
class RedeemsWithItsLastId(Stateless):
    def form(self, client: str, code: str, verifier: str) -> dict[str, str]:
        return super().form(list(self.ids.values())[-1], code, verifier)

    async def renew_token(self, issuer: str, about: Message, client: str) -> bool:
        return False


@mutant(KEYED, CHANGES, also=BACK)
class RefreshesWithItsLastId(Stateless):
    async def refresh(self, issuer: str, about: Message, client: str, token: str | None) -> bool:
        return await super().refresh(issuer, about, list(self.ids.values())[-1], token)


faults(
    mutant(MISMATCH, CHANGES, also={**BOTH, KEYED: "nor at the first again"}),
    IsKnownEverywhere=altering(Known, known_id=lambda self, issuer: PREREGISTERED),
)


@mutant(MISMATCH, CHANGES, also=BOTH)
class RedeemsWithTheGivenId(Known):
    given_id = None

    async def client_for(self, issuer: str, about: Message) -> str:
        if not self.ids:
            self.ids[issuer] = PREREGISTERED
        return await super().client_for(issuer, about)

    def form(self, client: str, code: str, verifier: str) -> dict[str, str]:
        return super().form(PREREGISTERED, code, verifier)


# -- further ways to break what older revisions ask for

PLACE = "RequiresToken"
for id, name, members in (
    ("auth.resource-parameter.sent", "NamesAnAudience", {"resource": None, "audience": "{url}"}),
    ("auth.resource-parameter.sent", "NamesNothing", {"resource": ""}),
    ("auth.resource.canonical", "NamesAnotherHost", {"resource": "https://example.com/mcp"}),
    ("auth.resource.canonical", "NamesAPath", {"resource": "/mcp"}),
    ("auth.resource.most-specific", "NamesASlash", {"resource": "{url}/"}),
    ("auth.resource.most-specific", "NamesAQuery", {"resource": "{url}?a=1"}),
    ("auth.redirect.registered", "NamesAnotherPath", {"redirect_uri": "http://localhost:3000/"}),
    ("auth.redirect.registered", "NamesAnAddress", {"redirect_uri": "http://127.0.0.1/callback"}),
):
    altered(id, PLACE, wants=members)(name)
for name, members in (
    ("RedeemsForNothing", {"resource": ""}),
    ("RedeemsForAnAudience", {"resource": None, "audience": "{url}"}),
):
    altered("auth.resource.both-requests", PLACE, sends=members)(name)
for name, uri in (
    ("IsRedirectedToItsNetwork", "http://192.168.1.2:3000/callback"),
    ("IsRedirectedToASimilarName", "http://localhost.example.com/callback"),
):
    altered("auth.redirect.localhost-or-https", PLACE, redirect=lambda _self, uri=uri: uri)(name)


class Late(Authorizing):
    """Changes the headers of some of its requests."""

    method = "tools/list"

    def head_of(self, data: bytes) -> dict[str, str]:
        heads = super().head_of(data)
        is_meant = self.method in json.loads(data).get("method", "")
        if is_meant and "Authorization" in heads:
            self.spoil(heads)
        return heads

    def spoil(self, heads: dict[str, str]) -> None:
        raise NotImplementedError

    def may_try(self, challenge: str) -> bool:
        return self.token is None


class Forgets(Late):
    def spoil(self, heads: dict[str, str]) -> None:
        del heads["Authorization"]


class Basic(Late):
    def spoil(self, heads: dict[str, str]) -> None:
        heads["Authorization"] = f"Basic {self.token}"


class Mixes(Late):
    def spoil(self, heads: dict[str, str]) -> None:
        heads["Authorization"] = "Bearer token-of-another-issuer"


for id, kind in (
    ("auth.every-request", Forgets),
    ("auth.token.bearer-header", Basic),
    ("auth.tokens.only-own-issuer", Mixes),
):
    altered(id, PLACE, kind=kind)(f"{kind.__name__}InLists")
    altered(id, PLACE, kind=kind, method="prompts/list")(f"{kind.__name__}InItsLastRequest")


@mutant("auth.token.not-in-query", PLACE)
class PostsItsTokenInTheQuery(Authorizing):
    def url_of(self, method: str) -> str:
        return f"{self.place.url}?token={self.token}" if self.token else str(self.place.url)


@mutant("auth.token.not-in-query", PLACE)
class LogsOutWithItsToken(Authorizing):
    async def finish(self) -> None:
        await super().finish()
        await self.get(f"{self.origin}/logout?access_token={self.token}")


# -- 2025-03-26


class Older(Authorizing):
    """Knows no protected resource metadata."""

    revision = "2025-03-26"
    heads: ClassVar[dict[str, str]] = {"MCP-Protocol-Version": "2025-03-26"}
    places: ClassVar[tuple[str, ...]] = (OAUTH,)

    def resource_urls(self, challenge: str) -> list[str]:
        return []

    async def get(self, url: str) -> Message | None:
        async with self.http.get(url, headers=self.heads) as response:
            return dict(await response.json()) if response.status == 200 else None

    async def find_server(self, issuer: str) -> Message:
        found = await self.first_of([f"{self.origin}{each}" for each in self.places])
        return found or {**self.defaults(), "code_challenge_methods_supported": ["S256"]}

    def defaults(self) -> dict[str, str]:
        found = super().defaults()
        return {f"{name}_endpoint": f"{self.origin}{path}" for name, path in found.items()}


VERSION, BASE = "auth.discovery.protocol-version-header", "auth.discovery.base-url"
DEFAULTS = "auth.fallback.default-paths"
SELF, BARE = "IssuesItsOwnTokens", "RequiresTokenWithoutMetadata"
altered(VERSION, SELF, kind=Older, heads={"MCP-Protocol-Version": ""})("LooksWithAnEmptyVersion")
altered(VERSION, SELF, kind=Older, heads={"Protocol-Version": "2025-03-26"})("MisnamesTheVersion")
altered(BASE, SELF, kind=Older, places=(f"/mcp{OAUTH}",))("LooksBelowThePath")
altered(BASE, SELF, kind=Older, places=(f"{OAUTH}/mcp", f"{OPENID}/mcp"))("InsertsThePath")


def below(path: str) -> Any:
    def defaults(self: Older) -> dict[str, str]:
        usual = Older.defaults(self)
        return {name: url.replace(self.origin, self.origin + path) for name, url in usual.items()}

    return defaults


altered(DEFAULTS, BARE, kind=Older, defaults=below("/mcp"))("GuessesPathsBelowTheServer")


@mutant(DEFAULTS, BARE)
class GivesUpWithoutMetadata(Older):
    def defaults(self) -> dict[str, str]:
        raise Gone


UNBREAKABLE |= {
    "auth.cimd.supported": "a client without a document may register",
    "auth.dcr.web": "an app on a device may claim an https URL as well",
    "tasks.security.bound-to-context": "a client gets no credentials from its server",
    "tasks.security.foreign-rejected": "a client gets no credentials from its server",
    "tasks.security.list-own-only": "a client gets no credentials from its server",
}

few("endpoints that are not in metadata are guesses", "auth.as-metadata.client")
few("an id is used at another issuer or it is not", "auth.binding.preregistered-mismatch-error")
few("a client goes on from the metadata or it does not", "auth.prm.client-uses")
few(
    "test_metadata_documents.py has the documents",
    "auth.cimd.required-members",
    "auth.cimd.id-equals-url",
)
