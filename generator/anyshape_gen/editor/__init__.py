"""What an editor shows of a spec that is being written, and the language server that tells it.

function_docs  what the functions of the language do
cursor         where in a half-written spec the cursor is, by lines and brackets alone
entry          the names that an op declares, and where, by patterns: of any text
vocabulary     what may stand where: keys, kinds, dtypes, functions
inference      what the analysis knows of an op: extents, dtypes, kinds
completion     what may be written at the cursor
hover          what the name at the cursor is, and where it is declared
diagnostics    the findings of a folder of specs, some of which are open in the editor
server         the language server; it needs the package pygls

Completion and hover are functions of a text and a place, and answer whatever the text is.
"""
