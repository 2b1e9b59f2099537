"""fedsift: one client, conjugate gradients, nothing compressed."""

import torch
from torch.nn.functional import cross_entropy

import fedsift as fs


def solve(data, rounds, inner_steps, products, inner_lr, outer_lr):
    start = torch.from_numpy(data["start"])
    train = fs.TensorBatch((torch.from_numpy(data["inputs"]), torch.from_numpy(data["labels"])))
    validation = fs.TensorBatch(
        (torch.from_numpy(data["validation_inputs"]), torch.from_numpy(data["validation_labels"]))
    )

    def error(y, batch):
        inputs, labels = batch.tensors
        return cross_entropy(inputs @ y, labels)

    def inner_loss(x, y, batch):
        return error(y, batch) + 0.5 * (x.exp()[:, None] * y.square()).sum()

    def outer_loss(x, y, batch):
        return error(y, batch) + 0.5 * data["prior"] * (x - start).square().sum()

    solution = fs.solve(
        fs.LossPair(inner_loss, outer_loss, start),
        [train],
        validation=validation,
        x=start,
        y=torch.zeros(len(start), 10, dtype=torch.float64),
        method="cg",
        rounds=rounds,
        local_steps=inner_steps,
        batch_size=0,
        inner_lr=inner_lr,
        terms=products,
        outer_lr=outer_lr,
    )
    return solution.x.numpy()
