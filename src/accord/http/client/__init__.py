"""HTTP as a client speaks it: a wire, the two forms of the transport, and what sends requests."""
