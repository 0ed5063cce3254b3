"""Masks every text of a message that a worker sends: the one place where secrets are removed.

What the types call a fixed word, and ids and clauses of the catalogue, stay as they are: a password
that begins with "pass" must not turn a verdict into something else.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

HideText: TypeAlias = Callable[..., str]
"""`SecretFilter.hide`: takes a text, and whether it may be cut at its ends."""

# Members with words of our own.
_OWN: Final = frozenset(
    {
        *("also", "anchor", "at", "beside", "clause", "id", "judged_by", "kind", "level", "mend"),
        *("party", "requirement", "revision", "revisions", "transport", "version"),
    }
)
# Members with whole texts of a server. Others may be cut: a secret may begin or end there.
_WHOLE: Final = frozenset(
    {
        *("after", "before", "called", "name", "names", "not_called", "server_name"),
        *("server_version", "subject", "catalog", "tool", "what"),
    }
)

_Mask: TypeAlias = Callable[[Any, HideText], Any]


def mask_message(message: T, hide: HideText) -> T:
    """Return a message with every text masked that is not a word of our own."""
    masked: T = _mask_struct(message, hide)
    return masked


def _mask_any(value: Any, hide: HideText) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {_mask_any(key, hide): _mask_any(each, hide) for key, each in value.items()}
    if isinstance(value, list):
        return [_mask_any(each, hide) for each in value]
    if isinstance(value, tuple):
        return tuple(_mask_any(each, hide) for each in value)
    if isinstance(value, msgspec.Struct):
        return _mask_struct(value, hide)
    return value


def _mask_struct(value: Any, hide: HideText) -> Any:
    changed = {}
    for name, mask in _members(value.__class__):
        before = getattr(value, name)
        after = mask(before, partial(hide, may_be_cut=False) if name in _WHOLE else hide)
        if after != before:
            changed[name] = after
    if not changed:
        return value
    if "mark" in value.__struct_fields__:
        # It counts characters of a text that is shorter or longer now.
        changed["mark"] = None
    return msgspec.structs.replace(value, **changed)


@cache
def _members(kind: Any) -> tuple[tuple[str, _Mask], ...]:
    """Return the members of a kind of object that have texts of others, and how to mask each."""
    hints = get_type_hints(kind)
    found = ((name, _mask_for(hints[name])) for name in kind.__struct_fields__ if name not in _OWN)
    return tuple((name, mask) for name, mask in found if mask is not None)


def _mask_for(kind: Any) -> _Mask | None:
    """Return what masks values of a type; None if they have no text of others."""
    origin = get_origin(kind)
    if origin is Literal or kind in (int, float, bool, NoneType, bytes):
        return None
    if origin in (Union, UnionType):
        masks = [_mask_for(each) for each in get_args(kind)]
        return _mask_any if any(masks) else None
    if origin in (tuple, list):
        inner = _mask_for(get_args(kind)[0])
        return None if inner is None else _mask_each(origin, inner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mask_entries(*map(_mask_for, get_args(kind)))
    return _mask_any


def _mask_each(kind: Any, mask: _Mask) -> _Mask:
    def mask_all(values: Any, hide: HideText) -> Any:
        return kind(mask(each, hide) for each in values)

    return mask_all


def _mask_entries(key_mask: _Mask | None, mask: _Mask | None) -> _Mask | None:
    if key_mask is None and mask is None:
        return None

    def mask_all(values: Any, hide: HideText) -> Any:
        return {
            key if key_mask is None else key_mask(key, hide): (
                value if mask is None else mask(value, hide)
            )
            for key, value in values.items()
        }

    return mask_all
