"""Types that people put into signatures, each with values; shared by the tests of both directions.

Without `from __future__ import annotations`: these are the types themselves.
"""

import collections.abc
import datetime as dt
import enum
import ipaddress
import pathlib
import typing
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict

import attrs
import msgspec
from annotated_types import Ge, Gt, Interval, Len, MaxLen, MinLen
from msgspec import Meta
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, TypeAdapter
from pydantic.dataclasses import dataclass as pydantic_dataclass

from accord.server.schema.plain import encode


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"
    NO = "no"


class Flags(enum.IntFlag):
    A = 1
    B = 2


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass
class Line:
    start: Point
    ends: list[Point] = field(default_factory=list)
    name: str | None = None


@dataclass(frozen=True)
class Frozen:
    when: dt.date
    colour: Colour = Colour.RED


@dataclass
class Tree:
    value: int
    children: list["Tree"] = field(default_factory=list)


@dataclass
class Loose:
    """Holds a union that msgspec cannot decode."""

    at: dt.datetime | str
    shape: Point | Line | None = None
    inner: Optional["Loose"] = None


class Account(msgspec.Struct):
    """An account."""

    name: str
    balance: Decimal
    tags: list[str] = []


class Renamed(msgspec.Struct, rename="camel"):
    first_name: str
    last_name: str = ""


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    breed: str


class Pair(msgspec.Struct, array_like=True):
    a: int
    b: str


class LooseStruct(msgspec.Struct, tag="loose"):
    key: uuid.UUID | str


class Address(TypedDict):
    street: str
    number: NotRequired[int]


class Partial(TypedDict, total=False):
    a: int
    b: str


class LooseDict(TypedDict):
    when: dt.date | str
    note: NotRequired[str]


class Size(NamedTuple):
    width: int
    height: int = 1


@attrs.define
class Car:
    wheels: int
    _owner: str = "nobody"


@attrs.define
class LooseCar:
    built: dt.date | str
    doors: int = 4


class User(BaseModel):
    id: int
    name: str = Field("anonymous", description="how to call them", max_length=20)
    friends: list["User"] = []


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    when: dt.date


class Aliased(BaseModel):
    real_name: str = Field(alias="realName")


class Garage(BaseModel):
    owner: Strict
    size: Literal["small", "large"] = "small"


@pydantic_dataclass
class Checked:
    x: PositiveInt


@dataclass
class Mixed:
    user: Strict
    n: int = 0


UserId = NewType("UserId", int)
T = typing.TypeVar("T")


class Box(msgspec.Struct, typing.Generic[T]):
    content: T


@dataclass
class Crate(typing.Generic[T]):
    content: T


UTC = dt.UTC
NEW_YEAR = dt.datetime(2024, 1, 1, tzinfo=UTC)


class Row(typing.NamedTuple):
    annotation: Any
    value: Any
    json: Any = None
    """What travels; what msgspec writes where nothing else is said."""

    @property
    def data(self) -> bytes:
        if self.json is not None:
            return msgspec.json.encode(self.json)
        if isinstance(self.value, BaseModel):
            return TypeAdapter(type(self.value)).dump_json(self.value, by_alias=True)
        return encode(self.value)


ROWS: dict[str, Row] = {
    "int": Row(int, 3),
    "big int": Row(int, 2**62),
    "float": Row(float, 1.5),
    "whole float": Row(float, 2.0),
    "bool": Row(bool, True),
    "string": Row(str, "hé"),
    "empty string": Row(str, ""),
    "any": Row(Any, {"a": [1]}),
    "object": Row(object, "x"),
    "none": Row(None, None),
    "optional int": Row(int | None, 3),
    "optional int absent": Row(int | None, None),
    "typing optional": Row(Optional[str], "x"),  # noqa: UP045
    "int or str": Row(int | str, "x"),
    "int or float": Row(int | float, 2.5),
    "int or list": Row(int | list[int], [1]),
    "bool or str": Row(bool | str, "x"),
    "bytes": Row(bytes, b"\x00\xff"),
    "bytearray": Row(bytearray, bytearray(b"ab")),
    "optional bytes": Row(bytes | None, b"ab"),
    "decimal": Row(Decimal, Decimal("1.50")),
    "uuid": Row(uuid.UUID, uuid.UUID(int=5)),
    "date": Row(dt.date, dt.date(2024, 2, 29)),
    "time": Row(dt.time, dt.time(1, 2, 3)),
    "aware datetime": Row(dt.datetime, dt.datetime(2024, 1, 1, 2, tzinfo=UTC)),
    "naive datetime": Row(dt.datetime, dt.datetime(2024, 1, 1, 2)),  # noqa: DTZ001
    "timedelta": Row(dt.timedelta, dt.timedelta(days=1, seconds=2)),
    "path": Row(pathlib.Path, pathlib.Path("a/b")),
    "pure path": Row(pathlib.PurePosixPath, pathlib.PurePosixPath("a/b")),
    "ipv4": Row(ipaddress.IPv4Address, ipaddress.IPv4Address("10.0.0.1")),
    "ipv6 network": Row(ipaddress.IPv6Network, ipaddress.IPv6Network("::/64")),
    "optional path": Row(pathlib.Path | None, pathlib.Path("a")),
    "list of paths": Row(list[pathlib.Path], [pathlib.Path("a")]),
    "enum": Row(Colour, Colour.BLUE),
    "int enum": Row(Level, Level.HIGH),
    "str enum": Row(Word, Word.YES),
    "int flag": Row(Flags, Flags.B),
    "optional enum": Row(Colour | None, Colour.RED),
    "list of enums": Row(list[Colour], [Colour.RED]),
    "literal strings": Row(Literal["a", "b"], "b"),
    "literal ints": Row(Literal[1, 2], 2),
    "mixed literal": Row(Literal["a", 1] | None, 1),
    "optional literal": Row(Literal["a"] | None, "a"),
    "literal or int": Row(Literal["auto"] | int, 3),
    "list": Row(list, [1, "a"]),
    "list of int": Row(list[int], [1, 2]),
    "list of any": Row(list[Any], [1, "a"]),
    "list of optional": Row(list[int | None], [1, None]),
    "list of lists": Row(list[list[int]], [[1], []]),
    "typing list": Row(typing.List[str], ["a"]),  # noqa: UP006
    "sequence": Row(collections.abc.Sequence[int], [1]),
    "typing sequence": Row(typing.Sequence[str], ["a"]),
    "iterable": Row(collections.abc.Iterable[int], [1]),
    "tuple of two": Row(tuple[int, str], (1, "a")),
    "tuple of any length": Row(tuple[int, ...], (1, 2, 3)),
    "tuple of points": Row(tuple[Point, Point], (Point(1), Point(2))),
    "set": Row(set[int], {1, 2}),
    "frozenset": Row(frozenset[str], frozenset({"a"})),
    "dict": Row(dict, {"a": 1}),
    "dict of int": Row(dict[str, int], {"a": 1}),
    "dict of any": Row(dict[str, Any], {"a": [1]}),
    "dict with int keys": Row(dict[int, str], {1: "a"}),
    "dict with enum keys": Row(dict[Colour, int], {Colour.RED: 1}),
    "dict with uuid keys": Row(dict[uuid.UUID, int], {uuid.UUID(int=1): 1}),
    "dict of lists": Row(dict[str, list[int]], {"a": [1]}),
    "mapping": Row(collections.abc.Mapping[str, int], {"a": 1}),
    "typing dict": Row(typing.Dict[str, int], {"a": 1}),  # noqa: UP006
    "optional list": Row(list[int] | None, [1]),
    "optional dict": Row(dict[str, int] | None, {"a": 1}),
    "dataclass": Row(Point, Point(1, 2)),
    "nested dataclass": Row(Line, Line(Point(1), [Point(2, 3)], "x")),
    "frozen dataclass": Row(Frozen, Frozen(dt.date(2024, 1, 1), Colour.BLUE)),
    "recursive dataclass": Row(Tree, Tree(1, [Tree(2), Tree(3, [Tree(4)])])),
    "list of recursive": Row(list[Tree], [Tree(1, [Tree(2)])]),
    "optional dataclass": Row(Point | None, Point(1)),
    "list of dataclasses": Row(list[Point], [Point(1), Point(2)]),
    "dict of dataclasses": Row(dict[str, Point], {"a": Point(1)}),
    "generic dataclass": Row(Crate[int], Crate(3)),
    "loose dataclass": Row(Loose, Loose("soon", Point(1, 2), Loose(NEW_YEAR))),
    "list of loose dataclasses": Row(list[Loose], [Loose("soon")]),
    "struct": Row(Account, Account("a", Decimal("2.5"), ["x"])),
    "renamed struct": Row(Renamed, Renamed("a", "b")),
    "array-like struct": Row(Pair, Pair(1, "a")),
    "generic struct": Row(Box[list[int]], Box([1])),
    "tagged union": Row(Cat | Dog, Dog("pug")),
    "list of a tagged union": Row(list[Cat | Dog], [Cat(9), Dog("pug")]),
    "loose struct": Row(LooseStruct, LooseStruct(uuid.UUID(int=7))),
    "typed dict": Row(Address, {"street": "a", "number": 1}),
    "typed dict without the optional key": Row(Address, {"street": "a"}),
    "partial typed dict": Row(Partial, {"b": "x"}),
    "loose typed dict": Row(LooseDict, {"when": dt.date(2024, 1, 1)}),
    "list of typed dicts": Row(list[Address], [{"street": "a"}]),
    "attrs": Row(Car, Car(4)),
    "loose attrs": Row(LooseCar, LooseCar(dt.date(2024, 1, 1), 2)),
    "new type": Row(UserId, UserId(3)),
    "type variable": Row(T, 3),
    "datetime or str": Row(dt.datetime | str, dt.datetime(2024, 1, 1, tzinfo=UTC)),
    "str or datetime": Row(str | dt.datetime, dt.datetime(2024, 1, 1, tzinfo=UTC)),
    "str or datetime, a str": Row(str | dt.datetime, "tomorrow"),
    "uuid or str or int": Row(uuid.UUID | str | int, 5),
    "enum or str": Row(Colour | str, Colour.BLUE),
    "two enums": Row(Colour | Word, Word.YES),
    "bytes or path": Row(list[dt.date | uuid.UUID], [dt.date(2024, 1, 1), uuid.UUID(int=1)]),
    "two dataclasses": Row(Point | Line, Line(Point(1), [])),
    "two alike": Row(Address | Partial, {"street": "a", "number": 1}),
    "dataclass or dict": Row(Point | dict[str, str], {"k": "v"}),
    "dataclass or struct or none": Row(Point | Account | None, Account("a", Decimal(1))),
    "list or tuple": Row(list[int] | list[str], ["a"]),
    "described": Row(Annotated[int, "how many"], 3),
    "at least": Row(Annotated[int, Meta(ge=1)], 3),
    "within": Row(Annotated[float, Meta(gt=0, lt=10)], 3.5),
    "multiple": Row(Annotated[int, Meta(multiple_of=5)], 10),
    "pattern": Row(Annotated[str, Meta(pattern="^a+$")], "aa"),
    "long enough": Row(Annotated[str, Meta(min_length=2, max_length=3)], "ab"),
    "some items": Row(Annotated[list[int], Meta(min_length=1)], [1]),
    "limited inside": Row(list[Annotated[int, Meta(ge=0)]], [0]),
    "limited optional": Row(Annotated[int | None, Meta(ge=0, description="d")], 3),
    "limited union": Row(Annotated[int | str, Ge(0), MaxLen(3)], "abc"),
    "annotated types": Row(Annotated[int, Ge(0)], 3),
    "interval": Row(Annotated[float, Interval(gt=0, le=2)], 2.0),
    "length": Row(Annotated[list[int], Len(1, 3)], [1]),
    "at least some text": Row(Annotated[str, MinLen(1)], "a"),
    "field": Row(Annotated[int, Field(ge=1, le=5, description="d")], 3),
    "field with pattern": Row(Annotated[str, Field(pattern="^a", max_length=3)], "ab"),
    "field with examples": Row(Annotated[str, Field(examples=["a"])], "ab"),
    "positive int": Row(PositiveInt, 3),
    "optional positive": Row(Annotated[int, Gt(0)] | None, 3),
    "model": Row(User, User(id=1, friends=[User(id=2)])),
    "strict model": Row(Strict, Strict(when=dt.date(2024, 1, 1))),
    "model with an alias": Row(Aliased, Aliased(realName="x")),
    "nested models": Row(Garage, Garage(owner=Strict(when=dt.date(2024, 1, 1)))),
    "list of models": Row(list[Strict], [Strict(when=dt.date(2024, 1, 1))]),
    "dict of models": Row(dict[str, Strict], {"a": Strict(when=dt.date(2024, 1, 1))}),
    "optional model": Row(Garage | None, Garage(owner=Strict(when=dt.date(2024, 1, 1)))),
    "model or int": Row(Strict | int, 3),
    "two models": Row(Strict | Aliased, Aliased(realName="x")),
    "model in a dataclass": Row(Mixed, Mixed(Strict(when=dt.date(2024, 1, 1)), 2)),
    "pydantic dataclass": Row(Checked, Checked(3)),
}  # fmt: skip

# Read as objects, written as arrays unless they are the whole result.
NAMED_TUPLES: dict[str, Row] = {
    "named tuple": Row(Size, Size(1, 2), {"width": 1, "height": 2}),
    "named tuple with a default": Row(Size, Size(1), {"width": 1}),
    "named tuple from an array": Row(Size, Size(1, 2), [1, 2]),
    "list of named tuples": Row(list[Size], [Size(1, 2)], [{"width": 1, "height": 2}]),
    "optional named tuple": Row(Size | None, Size(1, 2), {"width": 1, "height": 2}),
}
