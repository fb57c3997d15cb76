"""Connections to the workers: where to, which one, and what comes back."""
