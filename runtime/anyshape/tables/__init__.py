"""A model on each row of a table: rows of unequal lengths, joined without padding, results in the order of the rows.

In: a table (a mapping of columns, or one of pyarrow) and an executable. Out: the table with a column for each output. A row has for each
input what is left of it without the batch dim (`anyshape.batching`): for `ids: i64[batch, length]` a list of numbers. Columns are checked
against the inputs before anything runs, and rows that agree in all sizes are one call; a model without a proved batch dim runs row by row.

    columns                   `ColumnType`, and the columns of Python and NumPy
    row_types                 what a row has and gets: the types of a model without the dim of its rows
    schema                    columns against inputs, before the first call
    row_values                the elements of a column as arrays of an input's type
    row_calls                 rows grouped by their shapes, and their calls
    table_model               a model with its plan: which column is which input, and all of the above in order
    arrow                     types, columns and results of pyarrow
    table_files               tables in files, read and written piece by piece

Only `arrow` and `table_files` import pyarrow, which the extra `[ray]` installs.
"""
