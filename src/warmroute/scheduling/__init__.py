"""The decision and what it holds: workers, policies, the prefix index, the ledger and its leases. No I/O here."""
