"""The pytest plugin for files of cases: collects `*.accord.toml` files with a target.

Each case and each contract test is an item. Everything but pytest is imported only for such a
file, so other runs cost nothing.
"""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accord_tools.contract.tested_server import Failure, Test, TestedServer

_ENDINGS: Final = (".accord.toml", ".accord.yaml", ".accord.yml")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "ContractFile | None":
    """Collect files of cases."""
    if not file_path.name.endswith(_ENDINGS):
        return None
    return ContractFile.from_parent(parent, path=file_path)


class ContractFile(pytest.File):
    """A file of cases; connects to its server to list what to test."""

    def collect(self) -> "Iterator[ContractItem]":
        """Yield a test for each case, and the tests of what the server declares."""
        from accord.errors import AccordError
        from accord_tools.contract.cases import read_cases, rules_of, server_of
        from accord_tools.contract.runner import plan_tests

        try:
            file = read_cases(self.path)
            server = server_of(file, self.path)
            server.updates_snapshots = bool(self.config.getoption("--accord-update", default=False))
            self.config.add_cleanup(server.close)
            tests, _ = plan_tests(server, rules_of(file), file.case)
        except (AccordError, ValueError) as error:
            raise self.CollectError(str(error)) from None
        for test in tests:
            yield ContractItem.from_parent(self, name=test.name, test=test, server=server)


class _Failed(Exception):
    def __init__(self, failure: "Failure") -> None:
        super().__init__(failure.came)
        self.failure = failure


class ContractItem(pytest.Item):
    """One case or contract test."""

    def __init__(self, *, test: "Test", server: "TestedServer", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._test = test
        self._server = server

    def runtest(self) -> None:
        """Run it."""
        from accord_tools.contract.runner import run_test

        outcome = run_test(self._server, self._test)
        if outcome.warning:
            warnings.warn(f"{self.name}: {outcome.warning}", stacklevel=1)
        if outcome.verdict == "skip":
            pytest.skip(outcome.why)
        if outcome.failure is not None:
            raise _Failed(outcome.failure)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what was expected and what the server sent, without a traceback."""
        if isinstance(excinfo.value, _Failed):
            failure = excinfo.value.failure
            # pytest shows the first line in its summary, beside the name.
            return f"{failure.summary()}\n{failure.text()}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the file and the name."""
        return self.path, None, self.name
