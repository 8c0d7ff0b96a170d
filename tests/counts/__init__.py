"""Whether the counts of clients, gateway and broker agree, whatever becomes of requests."""
