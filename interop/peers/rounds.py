"""Questions that a server returns in place of a result, in the types of the Python SDK."""

from typing import Any

import mcp_types as types


def ask(**requests: Any) -> types.InputRequiredResult:
    """Ask the client; it comes again with the answers, by the same names."""
    return types.InputRequiredResult(input_requests=requests, request_state="asked")


def sampling(question: str) -> types.CreateMessageRequest:
    """Ask the client's model."""
    said = types.TextContent(type="text", text=question)
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(
            messages=[types.SamplingMessage(role="user", content=said)],
            max_tokens=50,
            system_prompt="Be brief.",
        )
    )


def elicitation(question: str, form: dict[str, Any]) -> types.ElicitRequest:
    """Ask the client's user."""
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=question, requested_schema=form)
    )
