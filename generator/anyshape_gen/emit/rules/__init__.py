"""Type relations of ops.

In: the rule of an `OpAnalysis`. Out: functions over `Rule`.

rule_text  expressions of rules
relations  type relations: signature and shape rule
"""
