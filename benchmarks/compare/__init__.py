"""Warmroute and other routers in front of the same simulated engines, with the same traffic: what users would see."""
