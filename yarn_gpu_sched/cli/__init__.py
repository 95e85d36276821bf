"""`ygs`, the one command line."""
