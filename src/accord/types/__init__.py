"""Every type that travels in messages, as the newest superset of all revisions."""

# ruff: noqa: F403  # the modules say in __all__ what they offer

from accord.types import _base, client_features, content, lifecycle, server_features, tasks
from accord.types._base import *
from accord.types.client_features import *
from accord.types.content import *
from accord.types.lifecycle import *
from accord.types.server_features import *
from accord.types.tasks import *

__all__: list[str] = []
__all__ += _base.__all__
__all__ += client_features.__all__
__all__ += content.__all__
__all__ += lifecycle.__all__
__all__ += server_features.__all__
__all__ += tasks.__all__
