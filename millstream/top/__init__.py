"""`millstream top`: a deployment in a terminal, live."""
