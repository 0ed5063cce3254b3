"""Sign-in for servers with OAuth: the page shows the address in place of a browser."""

import dataclasses
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from accord.errors import FlowFailed

if TYPE_CHECKING:
    from accord.http.client.auth import Auth
    from accord_tools.inspector.session import InspectedSession

_STEP = "authorization"


def with_questions(session: "InspectedSession", auth: "Auth | None") -> "Auth | None":
    """Return the same authorization, with sign-ins as questions of the page.

    Args:
        session: the session that shows them.
        auth: as for `connect`; what is not OAuth stays as it is.
    """
    if auth is None or (isinstance(auth, str) and auth != "oauth"):
        return auth
    from accord.auth import OAuth

    oauth = OAuth() if isinstance(auth, str) else auth
    if not isinstance(oauth, OAuth):
        return auth

    async def open_browser(url: str) -> str | bool | None:
        from accord_tools.inspector.live.questions import AskedQuestions

        if urlsplit(url).scheme not in ("http", "https"):
            came = "an address that is not http or https"
            raise FlowFailed(_STEP, asked="the authorization server", came=came)
        return await session.part(AskedQuestions).sign_in(url)

    # Tokens are kept by the store, which both share.
    return dataclasses.replace(oauth, open_browser=open_browser)
