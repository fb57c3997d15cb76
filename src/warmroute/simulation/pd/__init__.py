"""Prefill/decode disaggregation of the simulated engines: three handshakes, and a transfer that proves itself.

The wire formats are written down here a second time, independent of the router that speaks them, so that the two check
each other. What engines exchange among themselves is no vendor's protocol, but one small HTTP request.
"""
