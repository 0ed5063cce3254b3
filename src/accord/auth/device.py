"""The device grant (RFC 8628): the user authorizes on another device while this one polls."""

from typing import Any, Final

import msgspec

from accord.auth.client_identity import ClientIdentity, ClientKey, client_assertion, token_request
from accord.auth.discovery import DiscoveryResult
from accord.auth.flow import TokenRefused, request_token
from accord.auth.tokens import TokenGrant
from accord.errors import FlowFailed
from accord.transports.http.client.guarded import Flow, NoResponse

DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
STEP: Final = "device authorization"
# The defaults of RFC 8628, sections 3.2 and 3.5.
_INTERVAL: Final = 5.0
_SLOWER: Final = 5.0
_LIFETIME: Final = 600.0
_LONGEST: Final = 500


class DeviceCode(msgspec.Struct, frozen=True, kw_only=True):
    """The codes of a device authorization; `repr` does not show them."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None = None
    interval: float = _INTERVAL
    expires_in: float = _LIFETIME

    def __repr__(self) -> str:
        return f"DeviceCode({self.verification_uri!r})"

    @property
    def instructions(self) -> str:
        """What the user has to do."""
        return f"open {_printable(self.verification_uri)} and enter the code {self.user_code}"


def start_device(
    found: DiscoveryResult,
    client: ClientIdentity,
    now: float = 0.0,
    *,
    key: ClientKey | None = None,
    scopes: tuple[str, ...] = (),
    names_resource: bool = True,
) -> Flow[DeviceCode]:
    """Ask for a code that the user can enter.

    Raises:
        FlowFailed: the server has no such grant, or refuses.
    """
    endpoint = found.server.device_authorization_endpoint
    if endpoint is None:
        came = "metadata without a device_authorization_endpoint"
        hint = "use another grant: the server does not offer this one"
        raise FlowFailed(STEP, asked=found.server.url, came=came, hint=hint)
    fields = {"scope": " ".join(scopes)} if scopes else {}
    if names_resource:
        fields["resource"] = found.resource
    proof = client_assertion(client, key, issuer=found.server.issuer, endpoint=endpoint, now=now)
    request = token_request(endpoint, fields, client, proof=proof)
    try:
        response = yield request
    except NoResponse as error:
        raise FlowFailed(STEP, asked=request.summary, came=error.reason, hint=error.hint) from None
    said = response.object() or {}
    texts = [said.get(name) for name in ("device_code", "user_code", "verification_uri")]
    if not response.is_ok or not all(isinstance(each, str) and each for each in texts):
        raise FlowFailed(STEP, asked=request.summary, came=response.summary)
    return _code(said)


def _code(said: dict[str, Any]) -> DeviceCode:
    complete = said.get("verification_uri_complete")
    return DeviceCode(
        device_code=said["device_code"],
        user_code=_printable(said["user_code"]),
        verification_uri=said["verification_uri"][:_LONGEST],
        verification_uri_complete=complete if isinstance(complete, str) else None,
        interval=_number(said.get("interval"), _INTERVAL),
        expires_in=_number(said.get("expires_in"), _LIFETIME),
    )


def poll_device(
    code: DeviceCode,
    found: DiscoveryResult,
    client: ClientIdentity,
    now: float,
    *,
    key: ClientKey | None = None,
    scopes: tuple[str, ...] = (),
    names_resource: bool = True,
) -> Flow[TokenGrant | float]:
    """Ask once whether the user has authorized; return the next interval if not.

    Raises:
        FlowFailed: the user declined, or the code has expired.
    """
    fields = {"grant_type": DEVICE_GRANT, "device_code": code.device_code}
    try:
        return (
            yield from request_token(
                found, client, fields, now, key=key, scopes=scopes, names_resource=names_resource
            )
        )
    except TokenRefused as error:
        if error.error == "authorization_pending":
            return code.interval
        if error.error == "slow_down" or error.is_temporary:
            return code.interval + _SLOWER
        raise


def _number(value: object, usual: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 86_400 else usual  # type: ignore[operator,arg-type]  # a number


def _printable(text: str) -> str:
    return "".join(char for char in text if char.isprintable())[:_LONGEST]
