"""Every type that travels in messages, as the newest superset of all revisions."""

# ruff: noqa: F403  # the modules say in __all__ what they offer

from accord.types import client_features, content, lifecycle, messages, server_features, tasks
from accord.types._base import (
    REVISION_IDS,
    Cursor,
    JsonObject,
    Lifetime,
    ProgressToken,
    RequestId,
    RevisionId,
    Role,
)
from accord.types.client_features import *
from accord.types.content import *
from accord.types.lifecycle import *
from accord.types.messages import *
from accord.types.server_features import *
from accord.types.tasks import *

__all__ = [
    "REVISION_IDS",
    "Cursor",
    "JsonObject",
    "Lifetime",
    "ProgressToken",
    "RequestId",
    "RevisionId",
    "Role",
]
__all__ += client_features.__all__
__all__ += content.__all__
__all__ += lifecycle.__all__
__all__ += messages.__all__
__all__ += server_features.__all__
__all__ += tasks.__all__
