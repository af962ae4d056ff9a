"""The reference of the API, docs/api, made from the protos by `make proto`."""
