"""Being the server for somebody's client: well, and badly on purpose."""
