"""A problem of your own, in process or at real sites: how much penalty every feature deserves.

python examples/own_problem.py
"""

import torch

import fedsift as fs

TRUTH = torch.tensor([1.0, 1.0, 0.0, 0.0])  # the last two features are noise
START = torch.full((4,), -2.0)


def error(y: torch.Tensor, batch: fs.TensorBatch) -> torch.Tensor:
    """Return half the mean squared error."""
    inputs, targets = batch.tensors
    return 0.5 * (inputs @ y - targets).square().mean()


problem = fs.LossPair(
    inner_loss=lambda x, y, batch: error(y, batch) + 0.5 * (x.exp() * y.square()).sum(),
    outer_loss=lambda x, y, batch: error(y, batch),  # noqa: ARG005
    start=START,
    projection=lambda x: x.clamp(-6, 2),
)


def samples(seed: int, count: int) -> fs.TensorBatch:
    """Draw samples; yours are read from a file."""
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 4, generator=draw)
    return fs.TensorBatch((inputs, inputs @ TRUTH + torch.randn(count, generator=draw)))


def site(where: str) -> fs.OwnProblem:  # fedsift join --problem own_problem:site --data 1
    """Return what a site has."""
    return fs.OwnProblem(problem, y=torch.zeros(4), x=START, batch=samples(int(where), 20))


def server(where: str) -> fs.OwnProblem:  # fedsift server --problem own_problem:server
    """Return what the server has."""
    held = samples(int(where or 0), 200)
    return fs.OwnProblem(problem, y=torch.zeros(4), x=START, validation=held)


def main() -> torch.Tensor:
    """Solve it here, with three sites in one process."""
    own, sites = server(""), [site(str(m)).batch for m in range(1, 4)]
    given = {"y": own.y, "x": own.x, "validation": own.validation, "rounds": 60, "outer_lr": 1.0}
    return fs.solve(problem, sites, **given).x


if __name__ == "__main__":
    print("penalty of each feature:", main().exp())
