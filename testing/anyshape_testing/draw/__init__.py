"""Draws random calls.

choices        the choices of strategies that are generated from specs, by hypothesis
random_call    a call: shapes and parameters, dtypes, contents
validity       rejects draws that the rule refuses, or an assert that reads values
wrong_calls    calls of which the rule refuses many
corpus         the calls of an op, drawn once for all of its laws
aiming         calls that one assert refuses
"""
