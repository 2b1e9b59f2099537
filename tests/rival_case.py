"""Two clients and a clean set whose class probabilities are known: the model is the identity."""

from __future__ import annotations

import torch
from torch import nn

from fedsift.algorithms import LocalSteps, Server, ServerState
from fedsift.federation import LocalFederation
from fedsift.problem import FlatModel, LabelledBatch, Reweighting

LOCAL = LocalSteps(steps=1, lr=0.5, batch_size=0)
START = torch.eye(3, dtype=torch.float64).flatten()
P = [
    torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]], dtype=torch.float64),
    torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]], dtype=torch.float64),
]
LABELS = [torch.tensor([0, 0, 2]), torch.tensor([1, 1])]
CLEAN_P = torch.tensor([[0.6, 0.3, 0.1], [0.8, 0.1, 0.1], [0.2, 0.7, 0.1]], dtype=torch.float64)
CLEAN = torch.tensor([0, 0, 1])
SIZES = [3, 2]


def case():
    """Return the federation, the server and the state before round 0: y = identity, so p = P."""
    net = nn.Linear(3, 3, bias=False).double()
    problem = Reweighting(FlatModel(net), l2=0.0)
    batches = [LabelledBatch.of(p.log(), labels) for p, labels in zip(P, LABELS, strict=True)]
    federation = LocalFederation.of(problem, batches)
    return federation, Server(problem, LabelledBatch.of(CLEAN_P.log(), CLEAN)), ServerState(START)


def descended(loss):
    """Return one gradient step of LOCAL from START on a loss of the 3 x 3 parameters."""
    W = START.clone().view(3, 3).requires_grad_(True)
    (gradient,) = torch.autograd.grad(loss(W), W)
    return -LOCAL.lr * gradient.flatten()


def log_p(W, inputs):
    """Return the log-probabilities at parameters W."""
    return (inputs @ W.T).log_softmax(dim=1)
