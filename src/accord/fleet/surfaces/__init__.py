"""What servers offer: digests, changes, findings of the lint, and rules of directories."""
