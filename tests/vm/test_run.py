import numpy as np
from anyshape.vm import compile
import anyshape
from handmade import *
