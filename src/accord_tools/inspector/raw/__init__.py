"""Messages sent as a person typed them, on a connection of their own."""
