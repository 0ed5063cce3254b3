"""How a handler asks the client: channels, rounds, elicitation, sealed state."""
