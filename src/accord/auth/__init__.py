"""Authorization: protecting a server, obtaining a token. Usable with any HTTP library."""

__all__: list[str] = []
