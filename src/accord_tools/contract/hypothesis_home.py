"""A temporary home for hypothesis, which generates the arguments of contract tests."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from tempfile import TemporaryDirectory


@contextmanager
def temporary_hypothesis_home(shared: str = "") -> Iterator[None]:
    """Give hypothesis a temporary folder; otherwise it would leave one behind.

    Args:
        shared: a folder that several processes use and another one removes: the tables that
            hypothesis makes there take longer than most tests.
    """
    try:
        from hypothesis.configuration import set_hypothesis_home_dir
    except ImportError:  # the generator reports it when it is needed
        yield
        return
    with nullcontext(shared) if shared else TemporaryDirectory(prefix="accord-test-") as folder:
        set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            set_hypothesis_home_dir(None)
