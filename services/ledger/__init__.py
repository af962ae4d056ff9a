"""The ledger: chips and rating in double entry, settled exactly once (docs/architecture.md)."""
