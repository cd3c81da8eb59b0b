"""A page of HTML that explains a compiled model: its kernels as a graph, where every dim comes from, and memory over time at any sizes.

In: a function, and the options of its compile. Out: the text of one file that loads nothing, and runs nothing but its own script
(a Content-Security-Policy in it says so). What the script shows is data beside it: sizes are formulas (`dims.record`), which `sizes.mjs`
evaluates exactly. Names of a model are data too, and never HTML.

    description   function -> what its compile makes of it, as plain data
    dims          where a dim comes from
    layers        steps -> places of a drawing
    document      data -> the file
"""

from anyshape.vm.page.document import explanation_page

__all__ = ["explanation_page"]
