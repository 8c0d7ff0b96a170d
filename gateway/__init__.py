"""The gateway process: HTTP in, the broker's protocol out. Stateless but for what it still owes."""
