"""Worker processes: the plug-in contract, the loop that runs plug-ins, and their supervisor."""
