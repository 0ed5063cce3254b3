"""The way to a server at a URL, from DNS to its first list, and to a token, as steps with data."""
