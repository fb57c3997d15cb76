"""Does a router lose requests while its workers are killed and come back? `python -m benchmarks.soak --help`."""
