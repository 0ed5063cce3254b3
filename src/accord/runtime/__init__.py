"""An endpoint on an event loop: handlers, replies, deadlines, cancellation."""
