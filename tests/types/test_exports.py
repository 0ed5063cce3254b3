"""What the package offers, and the habits that all its structs share."""

import importlib
import pkgutil
from typing import Any

import msgspec

from accord import types as t
from accord.types._base import Struct
from support.tables import cases

MODULES = [name for _, name, _ in pkgutil.iter_modules(t.__path__) if not name.startswith("_")]
STRUCTS = [
    value for value in vars(t).values() if isinstance(value, type) and issubclass(value, Struct)
]


def test_the_exported_names_are_unique_and_exist() -> None:
    assert len(set(t.__all__)) == len(t.__all__)
    assert [name for name in t.__all__ if not hasattr(t, name)] == []


@cases("module", MODULES)
def test_every_public_struct_of_a_module_is_exported(module: str) -> None:
    members = vars(importlib.import_module(f"accord.types.{module}"))
    own = {
        name
        for name, value in members.items()
        if isinstance(value, type) and value.__module__ == f"accord.types.{module}"
    }
    assert own <= set(t.__all__)


@cases("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_members_travel_in_camel_case_and_meta_with_its_underscore(struct: Any) -> None:
    for field in msgspec.structs.fields(struct):
        if field.name == "meta":
            assert field.encode_name == "_meta"
        elif "/" not in field.encode_name:
            head, *tail = field.name.split("_")
            assert field.encode_name == head + "".join(part.capitalize() for part in tail)


@cases("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_optional_members_are_left_out_unless_they_are_always_sent(struct: Any) -> None:
    always = {
        field.encode_name
        for field in msgspec.structs.fields(struct)
        if field.default_factory is not msgspec.NODEFAULT
    }
    assert always <= {"isError", "stopReason", "resultType"}
