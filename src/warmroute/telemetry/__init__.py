"""What the router tells about itself: metrics, the statistics line, logs."""
