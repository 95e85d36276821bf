"""A real Hadoop cluster of local processes, for demo, tests and trial."""
