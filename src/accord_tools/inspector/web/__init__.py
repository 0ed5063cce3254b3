"""The web server of the inspector: the gate, the actions, the feed and the files of the page."""
