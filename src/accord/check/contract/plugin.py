"""The pytest plugin for files of cases: `*.accord.toml` with a target is collected.

Each case and each contract test is an item. Everything but pytest is loaded when there is such a
file: runs without one cost nothing.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accord.check.contract.model import Failure, Test
    from accord.check.contract.tested_server import TestedServer

_ENDINGS: Final = (".accord.toml", ".accord.yaml", ".accord.yml")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "ContractFile | None":
    """Take the files that are ours."""
    if not file_path.name.endswith(_ENDINGS):
        return None
    return ContractFile.from_parent(parent, path=file_path)


class ContractFile(pytest.File):
    """A file of cases: connects to its server to see what there is to test."""

    def collect(self) -> "Iterator[ContractItem]":
        """Yield a test for each case, and for all that the server declares."""
        from accord.check.contract.case_file import read_cases
        from accord.check.contract.reaching import rules_of, server_of
        from accord.check.contract.runner import all_tests
        from accord.errors import AccordError

        try:
            file = read_cases(self.path)
            contact = server_of(file, self.path)
            self.config.add_cleanup(contact.close)
            tests = all_tests(contact, rules_of(file), file.case)
        except (AccordError, ValueError) as error:
            raise self.CollectError(str(error)) from None
        for test in tests:
            yield ContractItem.from_parent(self, name=test.name, test=test, contact=contact)


class _Failed(Exception):
    def __init__(self, failure: "Failure") -> None:
        super().__init__(failure.came)
        self.failure = failure


class ContractItem(pytest.Item):
    """One case or contract test."""

    def __init__(self, *, test: "Test", contact: "TestedServer", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._test = test
        self._contact = contact

    def runtest(self) -> None:
        """Run it."""
        from accord.check.contract.runner import run_test

        outcome = run_test(self._contact, self._test)
        if outcome.verdict == "skip":
            pytest.skip(outcome.why)
        if outcome.failure is not None:
            raise _Failed(outcome.failure)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what came and what was expected, without the way through our code."""
        if isinstance(excinfo.value, _Failed):
            failure = excinfo.value.failure
            # The first line is what the summary shows beside the name.
            return f"{failure.summary()}\n{failure.text()}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Say where it stands."""
        return self.path, None, self.name
