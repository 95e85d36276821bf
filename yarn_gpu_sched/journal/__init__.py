"""The record of every applied event."""
