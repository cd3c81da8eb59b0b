"""Calls exported models as C does.

loaded        loaded into this process
c_programs    compiled to whole programs, for this machine or by an emulator for another one
wasm          runs a program in WebAssembly, as a process of its own
javascript    runs a module in Node and in a browser
"""
