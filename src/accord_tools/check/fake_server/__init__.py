"""Fake servers that a client under check connects to, correct ones and faulty ones."""
