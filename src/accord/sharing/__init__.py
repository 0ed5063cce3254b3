"""What exists only with a store that workers share."""
