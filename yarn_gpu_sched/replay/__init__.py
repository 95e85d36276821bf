"""Trace replay on a simulated clock, with the engine as it is."""
