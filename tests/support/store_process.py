"""A client of a shared backend in another process, which a test drives step by step.

A recipe, which says how to make the client, requests and answers are pickled, one after the other,
on the standard input and output.
"""

import asyncio
import os
import pickle
import subprocess
import sys
from importlib import import_module
from typing import Any, NamedTuple, Self

from support.waiting import LONG


class Recipe(NamedTuple):
    """How a client is made: a function, as `module:name`, and what it is called with."""

    factory: str
    args: tuple[Any, ...] = ()
    keywords: dict[str, Any] = {}  # noqa: RUF012, which is not changed

    def make(self) -> Any:
        module, _, name = self.factory.partition(":")
        return getattr(import_module(module), name)(*self.args, **self.keywords)


class OtherProcess:
    """The other process, as a test sees it. Its client is open from the beginning."""

    def __init__(self, recipe: Recipe) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.store_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._write(tuple(recipe))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.close()
            self.process.wait(LONG)
        finally:
            self.process.kill()
            self.process.wait(LONG)
            self.process.stdout.close()

    def _write(self, value: Any) -> None:
        assert self.process.stdin is not None
        pickle.dump(value, self.process.stdin)
        self.process.stdin.flush()

    def _ask(self, request: Any) -> Any:
        self._write(request)
        assert self.process.stdout is not None
        return pickle.load(self.process.stdout)

    async def call(self, operation: str, *args: Any, **keywords: Any) -> Any:
        """Let it carry out an operation of its backend; return or raise what that does.

        `repeat` calls an operation several times and returns what came of each; `follow` takes a
        topic alone, and `heard` says how often it was notified.
        """
        value, error = await asyncio.to_thread(self._ask, (operation, args, keywords))
        if error is not None:
            raise error
        return value

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        self.process.kill()
        self.process.wait(LONG)


class _Client:
    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._heard: dict[str, int] = {}

    async def carry_out(self, operation: str, args: Any, keywords: Any) -> Any:
        own = getattr(self, operation, None)
        function = getattr(self._backend, operation) if own is None else own
        return await function(*args, **keywords)

    async def follow(self, topic: str) -> None:
        self._heard[topic] = 0

        def hear() -> None:
            self._heard[topic] += 1

        await self._backend.follow(topic, hear)

    async def heard(self, topic: str) -> int:
        return self._heard[topic]

    async def repeat(self, operation: str, calls: list[tuple[Any, Any]]) -> list[Any]:
        results = []
        for args, keywords in calls:
            try:
                results.append(await getattr(self._backend, operation)(*args, **keywords))
            except Exception as error:
                results.append(error)
        return results


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    recipe = Recipe(*await loop.run_in_executor(None, pickle.load, sys.stdin.buffer))
    backend = recipe.make()
    await backend.open()
    client = _Client(backend)
    while True:
        try:
            request = await loop.run_in_executor(None, pickle.load, sys.stdin.buffer)
        except EOFError:
            break
        try:
            answer = (await client.carry_out(*request), None)
        except Exception as error:
            answer = (None, error)
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    await backend.close()


if __name__ == "__main__":
    asyncio.run(_serve())
