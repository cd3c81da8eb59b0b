"""Equations and procedures of ops as builders.

In: the resolved kernel or procedure of an `OpAnalysis`. Out: functions that state equations.

kernels            kernel builders
kernel_scope       the names in scope in an equation
kernel_text        expressions of kernels
kernel_reads       reads of tensors
kernel_reductions  reductions
procedures         procedures as builders
"""
