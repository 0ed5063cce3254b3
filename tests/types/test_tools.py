"""Tools as they are listed."""

from typing import Any

import pytest

from accord.types import ToolAnnotations


def test_a_keyword_by_its_name_on_the_wire_names_the_python_one() -> None:
    hints: Any = {"readOnlyHint": True}
    with pytest.raises(TypeError, match="no keyword 'readOnlyHint'; write read_only_hint="):
        ToolAnnotations(**hints)
    with pytest.raises(TypeError, match="zzz"):
        ToolAnnotations(zzz=True)  # type: ignore[arg-type]
