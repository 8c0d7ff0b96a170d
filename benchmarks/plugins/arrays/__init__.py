"""A number in, large arrays between three stages, a number out."""
