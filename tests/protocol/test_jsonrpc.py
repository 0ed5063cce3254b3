import msgspec
from msgspec import Raw

from accord.errors import RemoteProtocolError
from accord.protocol.jsonrpc import (
    FAULT,
    NOTIFICATION,
    REQUEST,
    RESULT,
    ErrorBody,
    Frame,
    MalformedMessage,
)
from support.tables import cases

ERROR = ErrorBody(-1, "no")


@cases(
    ("frame", "kind"),
    [
        (Frame("2.0", id=1, method="x"), REQUEST),
        (Frame("2.0", id="", method="x"), REQUEST),
        (Frame("2.0", method="x"), NOTIFICATION),
        (Frame("2.0", id=1, result=Raw(b"{}")), RESULT),
        (Frame("2.0", id=1, error=ERROR), FAULT),
        (Frame("2.0", id=None, error=ERROR), FAULT),
    ],
    ids=["request", "empty id", "notification", "result", "error", "error without id"],
)
def test_a_frame_knows_its_kind(frame, kind):
    assert frame.kind == kind


def test_the_body_of_a_frame_is_its_params_or_its_result():
    assert Frame("2.0", method="x", params=Raw(b"[1]")).body == Raw(b"[1]")
    assert Frame("2.0", id=1, result=Raw(b"null")).body == Raw(b"null")
    assert Frame("2.0", id=1, error=ERROR).body is None


def test_error_data_is_left_out_unless_it_was_given():
    assert msgspec.json.encode(ERROR) == b'{"code":-1,"message":"no"}'
    assert msgspec.json.encode(ErrorBody(-1, "no", None)) == (
        b'{"code":-1,"message":"no","data":null}'
    )


def test_a_malformed_message_is_a_breach_of_the_other_party():
    error = MalformedMessage("no", code=-32600, requirement="jsonrpc.batch.removed", id=3)
    assert isinstance(error, RemoteProtocolError)
    assert (str(error), error.code, error.id, error.kind) == ("no", -32600, 3, None)
