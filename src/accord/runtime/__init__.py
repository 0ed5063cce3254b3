"""Who waits for what: handlers, replies, deadlines, cancellation around an endpoint."""
