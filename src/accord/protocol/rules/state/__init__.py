"""Rules on order, ids and capabilities, which endpoints obey and monitors judge by.

Importing this package registers them, one module per area of the specification.
"""

from accord.protocol.rules.state import (  # noqa: F401
    cancellation,
    capabilities,
    lifecycle,
    messages,
    progress,
)
