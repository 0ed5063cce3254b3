"""The settings of identity providers: presets as data, rules for users, mistakes."""

import re

import pytest

from accord.auth import AuthorizationServer, Upstream, upstreams
from accord.auth.authorization_server.upstream.provider import ProviderMetadata, UpstreamProvider
from accord.auth.client_identity import new_pkce
from support.oauth import query_of
from support.tables import cases

TENANT = "8eaef023-2b34-4da1-9baa-8bc8c9d6a490"
OTHER = "9188040d-6c67-4c5b-b112-36a304b66dad"
SECRET = "a secret of 16 characters"
EVERYONE = {"allow": "everyone"}


def upstream(**given):
    usual = {"issuer": "https://id.example.com", "client_id": "desk", "client_secret": SECRET}
    return Upstream(**(usual | EVERYONE | given))


MADE = {
    "github": upstreams.github("desk", SECRET, allow="everyone"),
    "google": upstreams.google("desk", SECRET, allow="everyone"),
    "entra": upstreams.entra(TENANT, "desk", SECRET, allow="everyone"),
    "auth0": upstreams.auth0("notes.eu.auth0.com", "desk", SECRET, allow="everyone"),
    "okta": upstreams.okta("https://corp.okta.com/", "desk", SECRET, allow="everyone"),
    "keycloak": upstreams.keycloak("https://id.x.org/", "R", "desk", SECRET, allow="everyone"),
}


def test_every_preset_is_a_row_of_the_table_and_has_a_name_of_its_own():
    assert {name: each.name for name, each in MADE.items()} == {
        name: name for name in upstreams.PROVIDERS
    }
    assert MADE["google"].issuer == "https://accounts.google.com"
    assert MADE["entra"].issuer == f"https://login.microsoftonline.com/{TENANT}/v2.0"
    assert MADE["auth0"].issuer == "https://notes.eu.auth0.com/"
    assert MADE["okta"].issuer == "https://corp.okta.com"
    assert MADE["keycloak"].issuer == "https://id.x.org/realms/R"
    assert [name for name, each in MADE.items() if not each.is_openid] == ["github"]


def test_the_settings_of_a_preset_can_be_changed():
    made = upstreams.github("desk", SECRET, allow=["17"], name="ghe", scopes=["repo"])
    assert (made.name, made.scopes, made.title) == ("ghe", ("repo",), "GitHub")


def test_secrets_are_not_shown():
    assert not [each for each in MADE.values() if SECRET in repr(each)]


@cases(
    ("given", "why"),
    [
        ({"allow": "ada@example.com"}, "expected a list such as ['ada@example.com']"),
        ({"allow": []}, "no user could sign in"),
        ({"allow": None}, "a list, a function or 'everyone'"),
        ({"allow": ["*"]}, "allow has '*'"),
        ({"allow": ["@"]}, "allow has '@'"),
        ({"issuer": "http://id.example.com"}, "is not https"),
        ({"issuer": "id.example.com", "name": "x"}, "is not a URL"),
        ({"issuer": None, "name": "x"}, "issuer is missing"),
        ({"authorization_endpoint": "https://a.example/x"}, "plain OAuth needs"),
        ({"scopes": ["email"]}, "lacks openid"),
        ({"name": "a:b"}, "name 'a:b' is not valid"),
        ({"name": "../x"}, "is not valid"),
        ({"client_id": ""}, "client_id is empty"),
        ({"client_secret": ""}, "client_secret is empty"),
        ({"tenants": ["contoso.com"]}, "is not a tenant id"),
    ],
    ids=str,
)
def test_a_mistake_is_explained(given, why):
    with pytest.raises(ValueError, match=re.escape(why)):
        upstream(**given)


def test_the_users_have_to_be_named():
    with pytest.raises(TypeError, match="allow"):
        Upstream(issuer="https://id.example.com", client_id="desk")


def test_the_name_is_that_of_the_host_unless_it_is_given():
    assert upstream().name == "id.example.com"
    assert upstream(issuer="http://127.0.0.1:99").name == "127.0.0.1"


# -- which users


def user(of, **claims):
    return of.read_user({"sub": "17", **claims})


@cases(
    ("rule", "claims", "enters"),
    [
        ("ada@example.com", {"email": "Ada@Example.com", "email_verified": True}, True),
        ("ada@example.com", {"email": "ada@example.com", "email_verified": "true"}, True),
        ("ada@example.com", {"email": "ada@example.com"}, False),
        ("ada@example.com", {"email": "ada@example.com", "email_verified": "false"}, False),
        ("ada@example.com", {"sub": "ada@example.com"}, False),
        ("@example.com", {"email": "ada@example.com", "email_verified": True}, True),
        ("@example.com", {"email": "ada@evil.example.com", "email_verified": True}, False),
        ("@example.com", {"email": "ada@example.com@evil.org", "email_verified": True}, False),
        ("@kk.com", {"email": "ada@\u212a\u212a.com", "email_verified": True}, False),
        ("17", {}, True),
        ("id.example.com:17", {}, True),
        ("18", {}, False),
        ("ada", {"preferred_username": "ada", "name": "ada"}, False),
    ],
    ids=str,
)
def test_rules_count_ids_and_verified_addresses_alone(rule, claims, enters):
    of = upstream(allow=[rule])
    assert of.allows_by_rules(user(of, **claims)) is enters


@cases(
    ("claims", "email"),
    [
        ({"email": "a@corp.com", "hd": "corp.com"}, "a@corp.com"),
        ({"email": "a@gmail.com"}, "a@gmail.com"),
        ({"email": "a@corp.com"}, None),
        ({"email": "a@corp.com", "hd": "other.com"}, None),
    ],
    ids=str,
)
def test_google_vouches_only_for_addresses_that_it_hosts(claims, email):
    assert user(MADE["google"], email_verified=True, **claims).email == email


def test_addresses_of_entra_count_only_if_their_domain_is_verified():
    claims = {"tid": TENANT, "oid": OTHER, "email": "ceo@corp.com", "email_verified": True}
    assert user(MADE["entra"], **claims).email is None
    assert user(MADE["entra"], **claims, xms_edov=True).email == "ceo@corp.com"


def test_subjects_name_the_provider_and_what_stays():
    assert user(MADE["google"]).subject == "google:17"
    assert MADE["github"].read_user({"id": 17, "login": "ada"}).subject == "github:17"
    claims = {"tid": TENANT, "oid": OTHER}
    assert user(MADE["entra"], **claims).subject == f"entra:{TENANT}.{OTHER}"


# -- many tenants


def test_tenants_of_entra_have_to_be_listed():
    with pytest.raises(ValueError, match="every tenant in the world"):
        upstreams.entra("common", "desk", SECRET, allow="everyone")
    with pytest.raises(ValueError, match="expected its id"):
        upstreams.entra("contoso.onmicrosoft.com", "desk", SECRET, allow="everyone")
    with pytest.raises(ValueError, match="goes with tenant"):
        upstreams.entra(TENANT, "desk", SECRET, allow="everyone", tenants=[OTHER])


def test_the_template_of_an_issuer_is_filled_in_for_listed_tenants_alone():
    template = "https://login.microsoftonline.com/{tenantid}/v2.0"
    many = upstreams.entra("common", "desk", SECRET, allow="everyone", tenants=[TENANT])
    assert many.is_own_metadata(template)
    assert many.issuer_for(template, TENANT) == template.replace("{tenantid}", TENANT)
    for tenant in (OTHER, "{tenantid}", "", None, 5, f"{TENANT}/../x"):
        assert many.issuer_for(template, tenant) is None
    assert not many.is_own_metadata("https://evil.example/{tenantid}/v2.0")
    assert not MADE["entra"].is_own_metadata(template)


# -- requests and keys


def test_the_parameters_of_a_preset_cannot_replace_those_of_the_flow():
    odd = upstream(parameters={"state": "fixed", "audience": "api", "redirect_uri": "https://x"})
    metadata = ProviderMetadata(
        authorization_endpoint="https://id.example.com/a?state=x&tenant=y", token_endpoint="t"
    )
    url = UpstreamProvider(odd).authorization_url(
        metadata, redirect_uri="https://r", state="s", nonce="n", pkce=new_pkce()
    )
    found = query_of(url)
    assert (found["state"], found["redirect_uri"]) == (["s"], ["https://r"])
    assert (found["audience"], found["tenant"]) == (["api"], ["y"])


def test_a_key_is_needed_for_tokens_in_a_file(tmp_path):
    short = upstream(client_secret="short")
    with pytest.raises(ValueError, match="upstream_keys"):
        AuthorizationServer(upstream=short, store=tmp_path / "auth.db")
    with pytest.raises(ValueError, match="a key of 5 characters"):
        AuthorizationServer(upstream=upstream(), upstream_keys=["short"], store=None)
    AuthorizationServer(upstream=short, store=None)
    AuthorizationServer(upstream=short, store=tmp_path / "auth.db", upstream_keys=["k" * 32])


def test_only_one_kind_of_login_is_given():
    with pytest.raises(ValueError, match="exclude each other"):
        AuthorizationServer({"ada": "lovelace"}, upstream=upstream(), store=None)
    with pytest.raises(ValueError, match="exclude each other"):
        AuthorizationServer(auto_approve="ada", upstream=upstream())
    with pytest.raises(ValueError, match="need different names"):
        AuthorizationServer(upstream=[upstream(), upstream()], store=None)
    with pytest.raises(ValueError, match="expected Upstream"):
        AuthorizationServer(upstream=["github"], store=None)
