"""The table service: every rule of table life around the hands of `doudizhu`, durable before visible."""
