"""Value types, the cluster state with its transactions, and `audit()`."""
