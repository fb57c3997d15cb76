"""Recorded workloads in the forms in which they are published, one file per form."""
