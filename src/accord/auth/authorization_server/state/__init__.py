"""The state of an authorization server: records in a backend, and the operations on them."""
