"""Stores that workers share: memory, SQLite, Redis and Valkey."""
