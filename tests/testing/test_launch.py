import sys
from pathlib import Path

import pytest

from support import testing_servers as servers
from support.processes import Child

LAUNCH = (sys.executable, "-m", "accord.testing.launch")


@pytest.mark.parametrize("name", ["good", "make"])
def test_a_server_or_its_maker_is_served_by_name(name: str) -> None:
    with Child(*LAUNCH, servers.__file__, name) as child:
        child.open()
        child.call(1, "add", a=1, b=2)
        assert child.answer_to(1)["result"]["content"][0]["text"] == "3"
        child.close_input()
        assert child.wait() == 0
        assert "printed at import" in child.stderr


def test_a_file_other_than_python_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with Child(*LAUNCH, tmp_path / "notes.txt", "server") as child:
        assert child.wait() == 1
        assert "is not a Python file" in child.stderr
