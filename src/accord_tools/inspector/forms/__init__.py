"""Forms for arguments: from JSON Schema to a model that the page draws, and errors by place."""
