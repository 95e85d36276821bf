"""Who goes next: a policy reads a view and returns intents, it never changes state."""
