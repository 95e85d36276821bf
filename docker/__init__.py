"""The test cluster in containers; see README.md."""
