"""What the help lists, so that it need not import torch.

``python docs/dev/make_listed.py`` writes this file from the tables; a test compares them.
"""

from __future__ import annotations

METHODS = {
    "auto": "the default: out-of-fold for a linear layer on fixed features, else posterior, or single-loop where the clean set is very small",
    "fedavg": "plain federated averaging on the labels as they are",
    "oracle": "federated averaging on the correctly labelled samples only",
    "clean-only": "the clean set alone; a label is suspect where its model predicts another class",
    "focus": "FedAvg with clients weighed by their credibility",
    "preprocess": "FedAvg on the samples on which a benchmark model has a low loss",
    "disagreement": "FedAvg; a label is suspect where the best model predicts another class",
    "glc": "gold loss correction: a noise matrix from the clean set, then the corrected loss",
    "em": "self-training from the clean set by EM, with one noise matrix for all sites",
    "gce": "FedAvg with generalised cross-entropy, a loss that improbable labels hardly move",
    "elr": "FedAvg with early-learning regularisation: it holds on to its early predictions",
    "fedelc": "FedELC: noisy clients are found by their losses and learn their labels along",
    "fedcorr": "FedCorr: noisy clients are found by the dimension of predictions, and relabel",
    "single-loop": "ours: Algorithm 1 in one exchange per round",
    "first-order": "a sample is bad if its loss is higher in a model that also learns the clean set; two models",
    "clean-step": "ours: a sample is bad if the server's steps on the clean set raise its loss; one model",
    "simfbo": "SimFBO: local steps of model, solver and weights together, uncompressed",
    "fedbioacc": "FedBiOAcc: SimFBO's local steps with momentum that reduces variance, uncompressed",
    "out-of-fold": "ours, for linear heads on fixed features: heads that judge only what they were not trained on",
    "posterior": "ours, for networks: a label weighs what Bayes' rule gives it; no Hessian products",
    "iter-topk": "Comm-FedBiO, Algorithm 2 with local Top-k",
    "iter-sketch": "Comm-FedBiO, Algorithm 2 with Count-Sketch",
    "non-iter": "Comm-FedBiO, Algorithm 3",
    "no-hessian": "the control: Algorithm 1 with the clean gradient in place of v, no Hessian products",
    "cg": "beyond the paper: conjugate gradients, uncompressed unless a compressor is named",
    "neumann": "beyond the paper: the Neumann series, uncompressed unless a compressor is named",
    "nystrom": "beyond the paper: a Nyström sketch of the matrix, one exchange, d x rank numbers up",
}
DATASETS = ("digits", "mnist", "cifar10", "cifar10-features", "femnist")
AUDIT_FORMATS = ("csv", "parquet", "json", "label-studio")
FORMATS = {
    "csv": "a file .csv, .tsv, .csv.gz: a header and rows",
    "parquet": "a file, also with images in a column",
    "arrow": "a file .arrow or .feather",
    "npz": "arrays inputs and labels, also ids and class_names",
    "save_to_disk": "a folder that Hugging Face datasets wrote",
    "npy folder": "inputs.npy and labels.npy, read when needed",
    "parquet folder": "parquet files, in order of names",
    "image folder": "a folder of PNG, JPEG, BMP or TIFF files for each class",
    "module:function": "returns (inputs, labels), a DataFrame or a Dataset",
}
EXPORTS = ("parquet", "csv", "own", "images")
PRESETS = ("paper-steps", "paper-literal")
FIGURES = ("fig1", "fig2", "fig3")
SCALES = ("quick", "paper")
TERMS = ("as-paper", "head-start")
THEORY = ("theorem1", "theorem2", "theorem3", "heavy-hitters", "sparsity", "contribution", "drift")
