"""Watching a client and a server from in between, without changing anything."""
