"""The rules of Dou Dizhu: pure values and functions, no clock, no randomness, no I/O (docs/architecture.md)."""
