"""Processes that serve together: each is a worker, and what they share is kept in a store."""
