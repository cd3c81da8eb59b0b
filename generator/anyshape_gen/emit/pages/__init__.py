"""Reference pages.

In: an `Analysis`, and results of earlier runs. Out: texts of pages.

docs     reference pages
reports  stored results that pages show
"""
