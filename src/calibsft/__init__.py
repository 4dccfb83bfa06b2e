"""calibsft: teach a language model to say how sure it is, and to be right about that.

Importing the package loads nothing heavy: stages import what they need when they run.
"""

__version__ = "0.1.0"
