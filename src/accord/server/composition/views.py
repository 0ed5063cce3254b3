"""Views on sources: fewer entries, other names, other descriptions, other arguments."""


class Views:
    """The part of a source that returns views on it."""
