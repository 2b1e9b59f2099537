"""Differential privacy by Gaussian noise: what a run costs, and where the noise comes from.

accounting  ε of a number of noised releases, and the noise that an ε needs
gaussian    normal numbers from a cryptographic stream
"""

from fedsift.privacy.accounting import Account, epsilon_of, multiplier_for
from fedsift.privacy.gaussian import normal

__all__ = ["Account", "epsilon_of", "multiplier_for", "normal"]
