"""What `millstream new` makes: a project's folder, from the files in `templates`."""
