"""TorchOpt: steps of its SGD with momentum, differentiated implicitly by ``custom_root``."""

import torch
import torchopt
from torch.nn.functional import cross_entropy
from torchopt.diff.implicit import custom_root


def solve(data, rounds, inner_steps, products, inner_lr, outer_lr):
    data = {name: torch.as_tensor(value) for name, value in data.items()}

    def inner_loss(y, x):
        error = cross_entropy(data["inputs"] @ y, data["labels"])
        return error + 0.5 * (x.exp()[:, None] * y.square()).sum()

    def outer_loss(y, x):
        error = cross_entropy(data["validation_inputs"] @ y, data["validation_labels"])
        return error + 0.5 * data["prior"] * (x - data["start"]).square().sum()

    @custom_root(
        torch.func.grad(inner_loss),
        argnums=1,
        solve=torchopt.linear_solve.solve_cg(maxiter=products, rtol=1e-12, atol=0.0),
    )
    def inner_solution(y, x):
        optimizer = torchopt.sgd(inner_lr, momentum=0.9, nesterov=True)
        state = optimizer.init(y)
        for _ in range(inner_steps):
            slope = torch.func.grad(inner_loss)(y, x)
            updates, state = optimizer.update(slope, state, params=y, inplace=False)
            y = torchopt.apply_updates(y, updates, inplace=False)
        return y

    x = data["start"].clone().requires_grad_(True)
    y = torch.zeros(len(x), 10, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([x], outer_lr)
    for _ in range(rounds):
        optimizer.zero_grad()
        solution = inner_solution(y, x)
        outer_loss(solution, x).backward()
        optimizer.step()
        y = solution.detach().requires_grad_(True)
    return x.detach().numpy()
