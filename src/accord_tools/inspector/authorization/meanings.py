"""What the values in requests and answers of OAuth mean, in one sentence each."""

from typing import Final

AUTHORIZATION_PARAMETERS: Final = {
    "response_type": "asks for a code, which the client then exchanges for a token",
    "client_id": "names the client that asks",
    "redirect_uri": "where the browser takes the code; it has to be registered exactly like this",
    "state": "a random text that the redirect has to carry back, so that no other answer is taken",
    "code_challenge": "the SHA-256 digest of a secret (PKCE); only its owner can redeem the code",
    "code_challenge_method": "how the challenge is computed from the secret",
    "scope": "what the token shall allow",
    "resource": "the server that the token is for (RFC 8707)",
    "prompt": "asks for consent each time, which some servers want before a refresh token",
    "dpop_jkt": "the key that the code is bound to (DPoP)",
}
TOKEN_PARAMETERS: Final = {
    "grant_type": "what is exchanged for the token",
    "code": "the code of the redirect; it works once",
    "redirect_uri": "the same as in the authorization URL",
    "code_verifier": "the secret whose digest was the code challenge (PKCE)",
    "client_id": "names the client",
    "client_secret": "proves that it is this client",
    "client_assertion": "proves that it is this client, by a signature",
    "client_assertion_type": "what kind of proof that is",
    "resource": "the server that the token is for (RFC 8707)",
    "refresh_token": "the token that is exchanged for the next one",
    "scope": "what the token shall allow",
    "assertion": "what another authority says about the client",
}
TOKEN_MEMBERS: Final = {
    "access_token": "sent to the server with every request",
    "token_type": "how it is sent",
    "expires_in": "seconds until it expires; short times are better",
    "refresh_token": "sent to the authorization server for the next token, never to the server",
    "scope": "what the token allows; if absent, what was asked for",
    "id_token": "says who signed in; it is not used here",
}
REGISTRATION_MEMBERS: Final = {
    "client_id": "the name that the client has at this authorization server",
    "client_secret": "proves that it is this client; it is kept in memory only",
    "client_secret_expires_at": "seconds since 1970; 0 if it does not expire",
    "token_endpoint_auth_method": "how the client authenticates at the token endpoint",
    "redirect_uris": "where codes may be sent",
    "grant_types": "what may be exchanged for a token",
    "scope": "the scopes that it may ask for",
}
RESOURCE_MEMBERS: Final = {
    "resource": "the server that tokens are for; the parameter resource has this value",
    "authorization_servers": "the issuers that protect the server",
    "scopes_supported": "the scopes that clients ask for if the challenge names none",
    "bearer_methods_supported": "how tokens may be sent",
    "resource_name": "the name for people",
}
SERVER_MEMBERS: Final = {
    "issuer": "has to be the issuer that the server names, character by character",
    "authorization_endpoint": "where the person signs in",
    "token_endpoint": "where codes and refresh tokens are exchanged",
    "registration_endpoint": "where clients register themselves",
    "device_authorization_endpoint": "where sign-in on another device begins",
    "code_challenge_methods_supported": "has to contain S256, otherwise clients stop",
    "grant_types_supported": "what can be exchanged for a token",
    "scopes_supported": "the scopes of all resources of this authorization server",
    "token_endpoint_auth_methods_supported": "how clients may authenticate",
    "client_id_metadata_document_supported": "whether the URL of a document may be a client ID",
    "authorization_response_iss_parameter_supported": "whether redirects name the issuer",
    "dpop_signing_alg_values_supported": "the signatures for tokens bound to a key (DPoP)",
}
CHALLENGE_PARAMETERS: Final = {
    "resource_metadata": "where the metadata of the server is",
    "scope": "the scopes that this request needs",
    "error": "why a token was refused",
    "error_description": "the same for people",
    "realm": "a name of what is protected; clients do not use it",
}
REDIRECT_PARAMETERS: Final = {
    "code": "what the client exchanges for a token; it works once",
    "state": "has to be the state of the authorization URL",
    "iss": "the issuer that answers; has to be the one that was asked (RFC 9207)",
    "error": "why there is no code",
    "error_description": "the same for people",
}
