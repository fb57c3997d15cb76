"""The policies, one file each. A new file here is found by the registry; no list has to be extended."""
