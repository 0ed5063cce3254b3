"""The full check of a server, started from the page."""
