"""Every type that travels in messages, as the newest superset of all revisions."""

# ruff: noqa: F403  # the modules say in __all__ what they offer

from accord.types import (
    completion,
    content,
    elicitation,
    lifecycle,
    logging,
    messages,
    prompts,
    resources,
    roots,
    rounds,
    sampling,
    subscriptions,
    tasks,
    tools,
)
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
from accord.types.completion import *
from accord.types.content import *
from accord.types.elicitation import *
from accord.types.lifecycle import *
from accord.types.logging import *
from accord.types.messages import *
from accord.types.prompts import *
from accord.types.resources import *
from accord.types.roots import *
from accord.types.rounds import *
from accord.types.sampling import *
from accord.types.subscriptions import *
from accord.types.tasks import *
from accord.types.tools import *

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
__all__ += completion.__all__
__all__ += content.__all__
__all__ += elicitation.__all__
__all__ += lifecycle.__all__
__all__ += logging.__all__
__all__ += messages.__all__
__all__ += prompts.__all__
__all__ += resources.__all__
__all__ += roots.__all__
__all__ += rounds.__all__
__all__ += sampling.__all__
__all__ += subscriptions.__all__
__all__ += tasks.__all__
__all__ += tools.__all__
