"""The calls that a person made, kept from one run of the inspector to the next."""
