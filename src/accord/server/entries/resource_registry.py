"""The resources and resource templates of a server, found by a URI."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from accord.server.entries.registry import Registry, Snapshot

if TYPE_CHECKING:
    from accord.server.entries.resources import ResourceEntry, TemplateEntry

    ResourceMatch: TypeAlias = tuple[ResourceEntry | TemplateEntry, dict[str, str]]

# Longer URIs are not found: matching a template costs time for every character.
_LONGEST_URI: Final = 8192
_EXPRESSION: Final = r"\{[^}]*\}"
_SPANS_SEGMENTS: Final = r"\{[+#]|\*[,}]"


class Resources:
    """The resources and resource templates of a server."""

    def __init__(self, *, changed: Callable[[], None] | None = None) -> None:
        self.fixed: Registry[ResourceEntry] = Registry("resource", changed=changed)
        self.templates: Registry[TemplateEntry] = Registry("resource template", changed=changed)
        self._ranked: tuple[Snapshot[TemplateEntry], list[TemplateEntry]] | None = None

    def add(self, entry: "ResourceEntry | TemplateEntry", *, replace: bool = False) -> None:
        """Register an entry; as `Registry.add`."""
        from accord.server.entries.resources import ResourceEntry

        if isinstance(entry, ResourceEntry):
            self.fixed.add(entry, replace=replace)
        else:
            self.templates.add(entry, replace=replace)

    def registry_of(self, key: str) -> "Registry[ResourceEntry] | Registry[TemplateEntry]":
        """Return the registry for a URI or template."""
        return self.templates if "{" in key else self.fixed

    def remove(self, key: str) -> "ResourceEntry | TemplateEntry":
        """Remove the resource with this URI, or this template; as `Registry.remove`."""
        return self.registry_of(key).remove(key)

    def enable(self, *keys: str) -> None:
        """Let resources be found and listed again; as `Registry.enable`."""
        self._switch(keys, enabled=True)

    def disable(self, *keys: str) -> None:
        """Let resources be neither found nor listed; as `Registry.disable`."""
        self._switch(keys, enabled=False)

    def is_enabled(self, key: str) -> bool:
        """Tell whether a resource is found and listed; as `Registry.is_enabled`."""
        return self.registry_of(key).is_enabled(key)

    def _switch(self, keys: tuple[str, ...], *, enabled: bool) -> None:
        for key in keys:
            self.is_enabled(key)  # raises before anything is changed
        for registry in (self.fixed, self.templates):
            own = [key for key in keys if self.registry_of(key) is registry]
            registry.enable(*own) if enabled else registry.disable(*own)

    def find(self, uri: str) -> "ResourceMatch | None":
        """Find the entry of a URI, and the values of the variables in it.

        A fixed resource comes first, then the template with the most literal text; of equal ones
        the one with fewer variables, then the one registered first.
        """
        fixed = self.fixed.get(uri)
        if fixed is not None:
            return fixed, {}
        if len(uri) > _LONGEST_URI:
            return None
        for entry in self._by_specificity():
            variables = entry.match(uri)
            if variables is not None:
                return entry, variables
        return None

    def _by_specificity(self) -> "list[TemplateEntry]":
        snapshot = self.templates.snapshot()
        ranked = self._ranked
        if ranked is None or ranked[0] is not snapshot:
            entries = sorted((entry for _, entry in snapshot), key=_generality)
            self._ranked = ranked = (snapshot, entries)
        return ranked[1]


def _generality(entry: "TemplateEntry") -> tuple[int, int, int]:
    text = entry.template.text
    literal = len(re.sub(_EXPRESSION, "", text))
    return -literal, len(re.findall(_SPANS_SEGMENTS, text)), len(entry.template.variables)
