"""What a server has to be mounted in another one, and to mount others."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from accord.server.sources.views import EntryKind, Views

if TYPE_CHECKING:
    from accord.server.entries.registry import RegistryEntry
    from accord.server.entries.resources import ResourceEntry
    from accord.server.sources.mounting import Mount, Mounts, OwnEntries


class MountingServer(Views):
    """The part of a `Server` by which it mounts sources, and is one."""

    _mounts: "Mounts | None" = None
    _own_entries: "OwnEntries | None" = None

    @property
    def mounts(self) -> "Mounts":
        """The sources that are mounted."""
        if self._mounts is None:
            from accord.server.sources.mounting import Mounts

            self._mounts = Mounts(self)  # type: ignore[arg-type]  # every one is a Server
        return self._mounts

    def mount(self, source: Views, *, prefix: str | None = None, separator: str = "_") -> "Mount":
        """Offer the tools, resources and prompts of another server or source.

        The mount is live: what changes there changes here. Calls run in the other server: through
        its middleware, with the state of its lifespan, which runs while this server is served.

        Args:
            source: a `Server`, a view of one, or a source of `accord.compose`.
            prefix: put before all names, and into all URIs: `find` becomes `crm_find`,
                `data://config` becomes `data://crm/config`.
            separator: between the prefix and a name.

        Raises:
            RegistrationError: a name is taken, the source is made of this server, or it is
                protected and this server is not.
        """
        return self.mounts.add(source, prefix, separator)

    def parts(self) -> Sequence[Views]:
        return [] if self._mounts is None else [mount.source for mount in self._mounts]

    def find_unlisted(self, uri: str) -> "ResourceEntry | None":
        found = [
            entry for source in self.parts() if (entry := source.find_unlisted(uri)) is not None
        ]
        # Of several sources that may have it, none can be preferred.
        return found[0] if len(found) == 1 else None

    def entries(self, kind: EntryKind) -> "tuple[RegistryEntry, ...]":
        """Return its entries as a source offers them."""
        if self._own_entries is None:
            from accord.server.sources.mounting import OwnEntries

            self._own_entries = OwnEntries(self)  # type: ignore[arg-type]
        return self._own_entries.read(kind)
