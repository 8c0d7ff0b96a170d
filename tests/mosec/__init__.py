"""Scripts written for MOSEC, run as they are; one deployment for most of it."""
