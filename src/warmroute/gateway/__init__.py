"""Bytes in, bytes out: client connections, upstream connections, and the relay between them."""
