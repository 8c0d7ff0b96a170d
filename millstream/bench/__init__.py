"""The load generator behind `millstream bench`, and what is made of its figures.

Knows HTTP servers and nothing of Millstream's own processes, so that it can measure any service.
"""
