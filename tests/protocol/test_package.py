"""The names that `accord.protocol` offers."""

import pytest

from accord import protocol
from accord.protocol import Frame, Limits, MalformedMessage, decode, encode


def test_every_offered_name_is_loaded_on_demand():
    assert set(dir(protocol)) == set(protocol.__all__)
    assert all(getattr(protocol, name) is not None for name in protocol.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Seat'"):
        protocol.Seat  # noqa: B018


def test_a_frame_is_decoded_and_encoded():
    text = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    frame = decode(text)
    assert isinstance(frame, Frame)
    assert decode(encode(frame)) == frame


def test_decoding_has_the_usual_limits():
    with pytest.raises(MalformedMessage, match="depth"):
        decode(b"[" * (Limits().depth + 1) + b"]" * (Limits().depth + 1))
