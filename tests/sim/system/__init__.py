"""The whole system in one process, on virtual time: `make sim`, and docs/simulation.md."""
