"""What is seen: tables of requests going in, and the log of a run coming out."""
