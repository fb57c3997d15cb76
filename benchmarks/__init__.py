"""Benchmarks: what the router itself costs, next to a peer, on this machine."""
