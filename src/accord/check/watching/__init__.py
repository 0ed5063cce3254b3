"""Watching real conversations: between a client and a server, changing nothing."""
