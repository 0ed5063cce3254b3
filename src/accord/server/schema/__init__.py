"""Python types as JSON Schema: the way from a signature to a schema, and from JSON to a call."""
