"""Events, commands and `Engine`, the one place where scheduling state changes."""
