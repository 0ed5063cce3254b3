"""HTTP, the server's side and the client's."""
