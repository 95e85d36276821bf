"""The scheduling service: gRPC servicers, settings and metrics around one engine."""
