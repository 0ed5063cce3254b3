"""State of the authorization server in a store that workers share."""
