"""The rules of HTTP as pure functions: gate, headers, statuses, event streams."""
