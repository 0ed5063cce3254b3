"""What a worker says of itself, and what its store needs."""

import msgspec

from accord.errors import ConfigurationError
from accord.sharing.backends.backend import Backend

__all__ = ["WorkerFacts", "check_keys"]


class WorkerFacts(msgspec.Struct, frozen=True):
    """What a worker says of itself in the store, for operators.

    Attributes:
        started: in seconds since 1970.
        version: of accord.
    """

    id: str
    host: str
    pid: int
    started: float
    version: str


def check_keys(backend: Backend, keys: object) -> None:
    """Refuse a store that others can read, without keys to seal what is kept there.

    Raises:
        ConfigurationError: keys are needed.
    """
    if backend.is_remote and keys is None:
        raise ConfigurationError(
            f"the store {backend.url} is reached over a network, and keeps requests and results: "
            "give store_keys=[...], --store-keys-file or ACCORD_STORE_KEYS, the same for all "
            "workers (make a key with python -c 'import secrets; print(secrets.token_hex(32))'), "
            "or store_keys='none' to keep values unsealed"
        )
