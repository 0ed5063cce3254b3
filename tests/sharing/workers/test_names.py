"""What workers keep is found by workers of other versions: names and kinds of messages stay."""

import msgspec

from accord.sharing.workers import names, session_records
from accord.sharing.workers.session_records import _Acknowledgement, _Update


def test_names_in_the_store_are_those_of_0_2():
    fixed = (names.WORKERS, names.SESSIONS, names.BROADCAST, names.EPOCH, names.SECRET)
    assert " ".join(fixed) == "workers sessions broadcast epoch secret"
    assert names.lease_of("a") == "{wa}w"
    assert names.inbox_of("a") == "{wa}i"
    assert names.recovery_records_of("a") == "{wa}f"
    assert names.takeover_of("a") == "{wa}x"
    assert names.session_of("s") == "{s}s"
    assert names.outbox_of("s") == "{s}o"
    assert names.stream_of("s", "1") == "{s}l1"
    assert names.call_of("s", "1") == "{s}r1"
    assert names.question_of("s", 1) == "{s}q1"
    assert names.caller_index("c") == "{cc}c"


def test_messages_about_copies_are_those_of_0_2():
    update = _Update("s", 1, b"record", "token", "sender")
    assert msgspec.to_builtins(update, builtin_types=[bytes]) == [
        *("s", 1, b"record", "token", "sender")
    ]
    acknowledgement = _Acknowledgement("s", "token", "worker", True, 2, 3)
    assert msgspec.to_builtins(acknowledgement) == ["s", "token", "worker", True, 2, 3]
    assert session_records._ACKNOWLEDGED == "receipt"
