"""The pure heart: revisions as data, one role-blind conversation, every requirement a rule."""
