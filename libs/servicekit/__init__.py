"""What every process starts with: configuration, a gRPC server that drains, the error table, clients, logs, metrics."""
