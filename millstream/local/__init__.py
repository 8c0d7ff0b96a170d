"""A deployment on this host, described by Python objects: broker, gateway and supervisors under
one process. What `millstream.serve` and the commands `run` and `export` are made of.
"""
