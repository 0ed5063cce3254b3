"""A plugin: plain functions, no import of accord needed."""


def shout(text: str) -> str:
    """Say it louder."""
    return f"{text.upper()}!"


def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())
