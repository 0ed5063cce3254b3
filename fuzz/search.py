"""What the searches share: mutations of bytes, saved cases, the loop, the command line."""

import argparse
import logging
import random
import sys
import time
import traceback
from asyncio import CancelledError
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, NamedTuple, Self, TypeVar

import msgspec

Part = TypeVar("Part")
Mutation = Callable[[bytes, list[bytes], random.Random], bytes]


class SavedCase(msgspec.Struct):
    """What a search tries; it can be kept in a file."""

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        return msgspec.json.decode(path.read_bytes(), type=cls)


class Errors(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(self.format(record))


Case = TypeVar("Case", bound=SavedCase)


# -- mutations


def flip(data: bytes, seeds: list[bytes], dice: random.Random) -> bytes:
    if not data:
        return data
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1 :]


def cut(data: bytes, seeds: list[bytes], dice: random.Random) -> bytes:
    start, end = sorted(dice.randrange(len(data) + 1) for _ in range(2))
    return dice.choice((data[:start] + data[end:], data[:end], data[start:]))


def repeat_part(data: bytes, seeds: list[bytes], dice: random.Random) -> bytes:
    start, end = sorted(dice.randrange(len(data) + 1) for _ in range(2))
    return data[:end] + data[start:end] * dice.choice((1, 2, 50)) + data[end:]


def splice(data: bytes, seeds: list[bytes], dice: random.Random) -> bytes:
    other = dice.choice(seeds)
    return data[: dice.randrange(len(data) + 1)] + other[dice.randrange(len(other) + 1) :]


def insert(scraps: list[bytes]) -> Mutation:
    def mutate(data: bytes, seeds: list[bytes], dice: random.Random) -> bytes:
        at = dice.randrange(len(data) + 1)
        return data[:at] + dice.choice(scraps) + data[at:]

    return mutate


def insert_line(scraps: list[bytes]) -> Mutation:
    """Insert where a header, a chunk or a field of an event begins."""

    def mutate(data: bytes, seeds: list[bytes], dice: random.Random) -> bytes:
        at = dice.choice([at + 1 for at, byte in enumerate(data[:5_000]) if byte == 10] or [0])
        return data[:at] + dice.choice(scraps) + data[at:]

    return mutate


def pieces(data: bytes, count: int, dice: random.Random) -> list[bytes]:
    """Cut what is sent into pieces, at as many places."""
    cuts = sorted(dice.randrange(len(data) + 1) for _ in range(count))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


# -- the search


def failure_of(run: Callable[..., object], *given: Any, **more: Any) -> str | None:
    """Return the traceback of what a run raises."""
    try:
        run(*given, **more)
    except (Exception, CancelledError):  # whatever it is, it is what we look for
        return traceback.format_exc()
    return None


def shorten(parts: list[Part], fails: Callable[[list[Part]], object]) -> list[Part]:
    """Leave away parts as long as the rest, which is never empty, still fails."""
    for part in list(parts):
        rest = [each for each in parts if each is not part]
        if rest and fails(rest):
            parts = rest
    return parts


def parser(about: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=about)
    made.add_argument("--seconds", type=float, default=60.0)
    made.add_argument("--seed", type=int, default=None, help="default: a new one, printed")
    made.add_argument("--repeat", type=Path, metavar="FILE", help="run one saved case again")
    made.add_argument("--folder", type=Path, default=Path("fuzz/found"), help="for what is found")
    return made


class Search(NamedTuple, Generic[Case]):
    """A search: its script, its cases, and what it does with one.

    `attempt` runs a case with its number, `alone` without all others before it; both return the
    traceback of a failure. `smaller` reduces a case that fails.
    """

    script: str
    case: type[Case]
    make: Callable[[random.Random], Case]
    attempt: Callable[[Case, int], str | None]
    alone: Callable[[Case], str | None]
    smaller: Callable[[Case], Case]

    def run(self, given: argparse.Namespace) -> int:
        """Repeat the case that the command line names, or search for one."""
        if given.repeat is not None:
            found = self.alone(self.case.load(given.repeat))
            print(found or "nothing wrong any more")
            return 0 if found is None else 1
        seed = given.seed if given.seed is not None else random.SystemRandom().randrange(2**32)
        dice, end, tried = random.Random(seed), time.monotonic() + given.seconds, 0
        while time.monotonic() < end:
            case = self.make(dice)
            tried += 1
            why = self.attempt(case, tried)
            if why is not None:
                return self.report(case, given.folder, f"{seed}-{tried}", why)
        print(f"{tried} cases, nothing found (seed {seed})")
        return 0

    def report(self, case: Case, folder: Path, name: str, why: str) -> int:
        """Save what was found, make it smaller, and say how to repeat it."""
        path = folder / f"found-{self.script}-{name}.json"
        case.save(path)  # first as it is: to make it smaller may take long
        self.smaller(case).save(path)
        print(why, file=sys.stderr)
        print(f"found; repeat with: python fuzz/{self.script}.py --repeat {path}", file=sys.stderr)
        return 1
