"""The law of narrowed contractions draws its calls as the laws do."""

from anyshape_testing.process.profile import load_profile, usual

load_profile(usual())
