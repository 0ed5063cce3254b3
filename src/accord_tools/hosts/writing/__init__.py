"""Files changed as a whole or not at all, with backups, and changes taken back."""
