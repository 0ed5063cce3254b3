"""JSON Schema: reading it, validating against it, and explaining in words why a value does not fit.

Nothing here knows the protocol. Modules are imported one by one, because a server that validates
nothing needs few of them.
"""
