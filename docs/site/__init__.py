"""Makes the documentation a site of plain files: `python -m docs.site [FOLDER]`, `make docs`.

The pages are written for a forge, too. So the generator is not given `docs/` itself, but a copy in
which links to sources lead to the reference, pictures follow the page's colours, and the pages of
the reference stand, which are made of the code.
"""
