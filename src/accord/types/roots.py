"""Roots: the places a client lets a server work in."""

from accord.types._base import Item, QuestionBody

__all__ = ["ListRootsResult", "Root"]


class Root(Item):
    """One place, as a file URI."""

    uri: str
    name: str | None = None


class ListRootsResult(QuestionBody):
    """All roots."""

    roots: list[Root]
