"""Warmroute: a router for LLM inference that sends each request to the warm worker."""

__version__ = "0.1.0"
