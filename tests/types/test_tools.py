"""Results of tools: their text, and the value that the tool returned."""

from typing import Any

from accord.types import CallToolResult, TextContent
from support.tables import cases


@cases(
    ("result", "structured", "data"),
    [
        (CallToolResult([TextContent("x")]), None, "x"),
        (CallToolResult([TextContent("x"), TextContent("y")]), None, None),
        (CallToolResult([TextContent("x")], is_error=True), None, None),
        (CallToolResult([], structured_content=None), None, None),
        (CallToolResult([], structured_content={"result": 4}), {"result": 4}, 4),
        (CallToolResult([], structured_content={"a": 1}), {"a": 1}, {"a": 1}),
        (CallToolResult([], structured_content=[1]), [1], [1]),
        (
            CallToolResult([], structured_content={"result": 4, "a": 1}),
            {"result": 4, "a": 1},
            {"result": 4, "a": 1},
        ),
    ],
)
def test_the_data_of_a_result_is_what_the_tool_returned(
    result: CallToolResult, structured: Any, data: Any
) -> None:
    assert result.structured == structured
    assert result.data == data
