"""Members of a message that no revision defines, kept by those that pass messages on.

Message types drop what they do not know. A proxy finds it in the bytes, and puts it back at the
same places of the message that it sends. What another revision defines is known, and not passed to
one that lacks it.
"""

from functools import cache
from typing import Any, Final, TypeAlias

import msgspec

_Raw: TypeAlias = msgspec.Raw | bytes
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


class UnknownMembers(msgspec.Struct, frozen=True):
    """The unknown members of an object and of the parts within it.

    Attributes:
        kind: the type of the object: a part that became another one is left alone.
        members: those of the object itself, by name.
        parts: those of its parts, by name or position.
    """

    kind: type
    members: dict[str, msgspec.Raw]
    parts: "dict[str | int, UnknownMembers]"

    def encode(self, shaped: Any) -> bytes:
        """Encode a message with these members in it."""
        return self._add_to(_encode(shaped), shaped)

    def _add_to(self, data: _Raw, shaped: Any) -> bytes:
        if self.kind is list:
            items = _items(data)
            for position, part in self.parts.items():
                assert isinstance(position, int)
                if position < len(items) and type(shaped[position]) is part.kind:
                    items[position] = msgspec.Raw(part._add_to(items[position], shaped[position]))
            return _encode(items)
        found = _members(data)
        for name, part in self.parts.items():
            assert isinstance(name, str)
            value = _value(shaped, name)
            if name in found and type(value) is part.kind:
                found[name] = msgspec.Raw(part._add_to(found[name], value))
        return _encode({**found, **self.members})


def find_unknown(raw: _Raw, typed: Any) -> UnknownMembers | None:
    """Return the members of a message that its type does not have; None without any.

    Args:
        raw: the message as it was received.
        typed: the same, decoded.
    """
    # Most peers send neither white space nor members that are as if absent.
    if len(raw) == len(_encode(typed)):
        return None
    return _collect(raw, typed)


def _collect(raw: _Raw, typed: Any) -> UnknownMembers | None:
    kind: Any = type(typed)
    unknown: dict[str, msgspec.Raw] = {}
    parts: dict[str | int, UnknownMembers] = {}
    if kind is list:
        for position, (item, value) in enumerate(zip(_items(raw), typed, strict=True)):
            _add_part(parts, position, item, value)
    elif isinstance(typed, msgspec.Struct):
        names = known_members(kind)
        for name, member in _members(raw).items():
            if name not in names:
                # A copy: the rest of the message need not be kept for it.
                unknown[name] = msgspec.Raw(bytes(member))
            elif names[name] is not None:
                _add_part(parts, name, member, _value(typed, name))
    return UnknownMembers(kind, unknown, parts) if unknown or parts else None


def _add_part(
    parts: dict[str | int, UnknownMembers], place: str | int, raw: _Raw, value: Any
) -> None:
    if isinstance(value, list | msgspec.Struct):
        found = _collect(raw, value)
        if found is not None:
            parts[place] = found


def _value(struct: Any, name: str) -> Any:
    kind: Any = type(struct)
    return getattr(struct, known_members(kind).get(name) or "", None)


@cache
def known_members(kind: Any) -> dict[str, str | None]:
    """Return the attributes of a message type by their names on the wire; None for the tag."""
    fields = msgspec.structs.fields(kind)
    names: dict[str, str | None] = {field.encode_name: field.name for field in fields}
    tag = kind.__struct_config__.tag_field
    return names if tag is None else {**names, tag: None}
