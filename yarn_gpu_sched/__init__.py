"""Gang scheduling of GPUs on an unchanged Hadoop YARN cluster.

The rooms of this package, bottom to top, each importing only from those before it: model,
placement, policy, engine, journal, protocol, failures, replay, service, monitor, client,
embedded, cli.
"""

__version__ = "0.1.0"
