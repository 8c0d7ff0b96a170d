"""What `millstream check` does: plug-ins are loaded and run through their chain in one process,
which is a child, so that whatever they do to it can be told.
"""
