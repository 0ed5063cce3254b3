"""Every type that travels in messages, as the newest superset of all revisions."""
