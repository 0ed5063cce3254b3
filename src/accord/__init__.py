"""The Model Context Protocol for Python."""
