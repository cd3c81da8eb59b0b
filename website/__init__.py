"""The site of the documentation: `make docs` builds it from docs/ in build/site.

mkdocs.yml has the navigation, hooks.py what mkdocs calls while it builds, overview.py draws the picture of README and the start page.
"""
