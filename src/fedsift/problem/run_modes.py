"""How a module is run and differentiated, where the fastest way does not work for it.

| what | first choice | fallback |
|---|---|---|
| kernels and images | channels-last | contiguous: ``conv`` then ``view`` |
| fused kernels | as they are | plain operations with all derivatives (``plain_kernels``) |
| J v | forward mode, linearised for many | forward; reverse over reverse; differences |
| Hessian | reverse over reverse; linearised for many | the former alone; none |

Differences are the only one that is not exact. ``trial.bind`` chooses once, on example inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from fedsift.errors import InputError

Jacobian = Literal["linearised", "forward", "reverse", "differences"]
HessianMode = Literal["functional", "reverse", "none"]


@dataclass(frozen=True)
class RunModes:
    """The choices for one module; ``lacking`` names the layer without a second derivative."""

    contiguous: bool = False
    plain: bool = False
    jacobian: Jacobian = "linearised"
    hessian: HessianMode = "functional"
    lacking: str = ""

    def need_hessian(self) -> None:
        """Refuse the exact Hessian where there is none."""
        if self.hessian == "none":
            raise InputError(
                f"the model's {self.lacking} has no second derivative, which the exact Hessian "
                "needs; use curvature 'gauss-newton'"
            )


FASTEST = RunModes()


def modes_of(problem: Any) -> RunModes:
    """Return the choices of a problem whose outputs are a module's; else the fastest."""
    found = getattr(problem, "modes", FASTEST)
    return found if isinstance(found, RunModes) else FASTEST
