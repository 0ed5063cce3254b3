"""What a person takes away from the page: commands, cases, code, files."""
