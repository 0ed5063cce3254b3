import contextlib
import traceback

from accord.errors import ToolError, refuse_unknown
from accord.runtime.source_files import trim_traceback


@contextlib.contextmanager
def closing():
    yield
    raise LookupError("at the end")


def caught(function):
    try:
        function()
    except Exception as error:
        return error


def files(shown):
    return [each.name for each in traceback.extract_tb(shown[2])]


def test_a_traceback_begins_where_the_code_of_the_user_begins():
    def run():
        with closing():
            pass

    error = caught(contextlib.ExitStack().enter_context(contextlib.nullcontext(run)))
    shown = trim_traceback(error)
    assert shown[:2] == (LookupError, error)
    assert files(shown)[0] == "caught"

    inside = trim_traceback(error.with_traceback(error.__traceback__.tb_next.tb_next))
    assert files(inside) == ["closing"]


def test_a_traceback_without_code_of_the_user_is_kept_whole():
    error = caught(lambda: refuse_unknown("f()", ["x"], ()))
    ours = error.__traceback__.tb_next.tb_next
    assert files(trim_traceback(error.with_traceback(ours))) == ["refuse_unknown"]
    assert trim_traceback(ToolError("never raised"))[2] is None
