"""Rules that read whole bodies as plain JSON: monitors judge by them, endpoints do not load them.

Importing this package registers them, one module per area of the specification.
"""

from accord.protocol.rules.body import (  # noqa: F401
    cancellation,
    capabilities,
    completion,
    elicitation,
    extensions,
    http,
    lifecycle,
    logging,
    messages,
    meta,
    ping,
    practice,
    progress,
    prompts,
    resources,
    results,
    roots,
    rounds,
    sampling,
    subscriptions,
    tasks,
    tool_headers,
    tools,
)
