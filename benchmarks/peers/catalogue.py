"""What every server of the benchmarks offers: the same functions, registered by each its own way.

The tool that reports progress is each server's own, since it needs that library's context.
"""

from collections.abc import Awaitable, Callable, Iterator


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def add_plain(a: int, b: int) -> int:
    """Add two numbers, in a plain function."""
    return a + b


async def echo(text: str) -> str:
    """Return what came."""
    return text


def fillers(count: int) -> Iterator[tuple[str, Callable[..., Awaitable[str]]]]:
    """Make tools that are listed but never called, each with a schema of its own function."""
    for number in range(count):

        async def search(query: str, limit: int = 10, *, exact: bool = False) -> str:
            """Search a collection of documents and return the best matches.

            Args:
                query: what to look for.
                limit: how many matches to return.
                exact: whether words must match exactly.
            """
            return f"{query} {limit} {exact}"

        yield f"search_{number}", search
