"""The node monitor."""
