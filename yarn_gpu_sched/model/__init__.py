"""Value types and the cluster's state: what is scheduled, where it may go, what is in use.

Nothing here knows a policy, a clock or a wire.
"""
