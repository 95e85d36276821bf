"""The free-GPU index and the search for gangs over it."""
