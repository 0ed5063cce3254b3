"""How the inspector names itself to servers, in messages that it does not send as a client."""

from typing import Final

from accord.version import __version__

CLIENT_INFO: Final = {"name": "accord-inspect", "version": __version__}
