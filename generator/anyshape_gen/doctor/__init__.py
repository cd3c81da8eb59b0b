"""`anyshape-gen doctor`: checks of what is installed, and of a package of ops.

answer       a line of the answer, and checks that end in one whatever they raise
environment  Python, packages, LLVM, the cache, compilers and engines; none of them has to be there
project      where a package has its specs, its code and its project file
package      the checks of a package
command      the command
"""
