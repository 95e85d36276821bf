"""The client library for jobs, cluster and the resource-manager side of the link."""
