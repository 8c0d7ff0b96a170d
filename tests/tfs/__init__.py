"""A package, so that its tests share one deployment, which ends with the last of them."""
