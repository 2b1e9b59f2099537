"""The settings of ``fit``, for editors, type checkers and ``help``.

``python docs/dev/make_settings.py`` writes this file from the tables of keys; a test compares them.
"""

from __future__ import annotations

from typing import Literal, TypedDict


class FitSettings(TypedDict, total=False):
    """What ``fs.fit`` takes by name besides its own arguments, such as ``local_steps=10``.

    A method refuses a key that it does not read; ``fedsift run --keys METHOD`` lists those that it
    reads. A key that only one of the methods behind ``auto`` reads needs that method by name.
    """

    l2: float
    """Coefficient of ½‖y‖² in the inner loss. Default: 0.001. Read by every method."""

    cohort: int
    """Number of clients S drawn per round; 0: all. Default: 0. Read by every method."""

    min_clients: int
    """Stop if fewer clients than this reply. Default: 1. Read by every method."""

    pool: bool
    """In one process, clients share passes over their samples, which is faster; false: the same
    numbers, bit for bit, however many processes there are. Default: True. Read by every
    method.
    """

    secure_sum: bool
    """The server sees sums over clients only, never the reply of one. Default: False. Read by
    every method.
    """

    policy: str
    """What simulated sites refuse: a policy.toml, or default for that of a site; empty: nothing.
    Default: ''. Read by every method.
    """

    share_summary: bool
    """Sites report to the server how many of their labels are suspicious. Default: False. Read
    by every method.
    """

    aggregation: Literal["mean", "median", "trimmed-mean", "geometric-median", "krum"]
    """How the sites' vectors are aggregated. Default: 'mean'. Read by every method."""

    clip: float
    """Longest vector of a site, in medians over the sites of the round; 0: any. Default: 3.0.
    Read by every method.
    """

    max_share: float
    """Largest share of one site in a mean; 0: one that claims 20 times the median number of
    samples weighs as the median. Default: 0.0. Read by every method.
    """

    update_rate: float | Literal["auto"]
    """Numbers of a model update per number sent up, in 8 bits; 1: all; auto: 12 where all
    clients take part and the method is one of auto's. Default: 'auto'. Read by every method.
    """

    model_rate: float | Literal["auto"]
    """Numbers of a model per number of its change sent down, in 8 bits; 1: all; auto: as
    update_rate. Default: 'auto'. Read by every method.
    """

    dp_clip: float
    """Longest update of a site, clipped there before noise; 0: no differential privacy. Default:
    0.0. Read by every method.
    """

    dp_noise: float
    """Noise multiplier: standard deviation over dp_clip; 0: what dp_epsilon needs. Default: 0.0.
    Read by every method.
    """

    dp_epsilon: float
    """Epsilon that the whole run may cost a site; 0: what dp_noise gives. Default: 0.0. Read by
    every method.
    """

    dp_delta: float
    """Delta of the guarantee. Default: 1e-05. Read by every method."""

    local_steps: int
    """Local steps T per round. Default: 5. Read by every method."""

    batch_size: int
    """Samples per local step; 0: all. Default: 64. Read by every method."""

    scored: int
    """Samples that a site scores per round, in turn; posterior at least twice those of its local
    batches, the noise models of out-of-fold 8 times as many; 0: all. Default: 128. Read by
    `auto`, `single-loop`, `first-order`, `clean-step`, `out-of-fold`, `posterior`.
    """

    inner_lr: float | Literal["auto"]
    """Inner step size γ; auto: by curvature and a trial on the clean set. Default: 'auto'. Read
    by every method but `auto`, `out-of-fold`.
    """

    head_start: int
    """At most this many steps on half of the validation set before round 1; 0: off, the default
    of fedavg, oracle, focus, preprocess and disagreement. Default: 500. Read by every method
    but `auto`, `clean-only`, `out-of-fold`.
    """

    clean_steps: int
    """At most this many steps on the validation set, by cross-validation, all in round 1.
    Default: 2000. Read by `clean-only`, `out-of-fold`.
    """

    focus_alpha: float
    """α: how fast a client's credibility falls with its loss. Default: 1.0. Read by `focus`."""

    preprocess_steps: int
    """Steps of SGD that train the benchmark model. Default: 500. Read by `preprocess`."""

    preprocess_threshold: float
    """Largest loss of a sample that is kept; 0: chosen by the Kolmogorov-Smirnov distance.
    Default: 0.0. Read by `preprocess`.
    """

    glc_rounds: int
    """Rounds of training on the labels as they are, for the noise matrix. Default: 20. Read by
    `glc`.
    """

    gce_q: float
    """Q of the loss (1 − p^q) / q of generalised cross-entropy. Default: 0.7. Read by `gce`."""

    elr_momentum: float
    """β: weight of the past in a running target. Default: 0.7. Read by `elr`."""

    elr_strength: float
    """λ: how strongly running targets hold the model. Default: 3.0. Read by `elr`."""

    elc_rounds: int
    """Rounds of FedAvg before clients are split into noisy and clean. Default: 10. Read by
    `fedelc`.
    """

    elc_step: float
    """S: step of the learned labels' logits. Default: 2.0. Read by `fedelc`."""

    elc_compatibility: float
    """α: how strongly learned labels stay at given ones. Default: 0.5. Read by `fedelc`."""

    elc_entropy: float
    """β: weight of the predictions' entropy. Default: 0.2. Read by `fedelc`."""

    corr_rounds: int
    """Rounds in which noisy clients are found and relabel. Default: 10. Read by `fedcorr`."""

    corr_finetune: int
    """Rounds in which only clients with few wrong labels train. Default: 5. Read by `fedcorr`."""

    outer_lr: float
    """Outer step size η. Default: 0.1. Read by `single-loop`, `first-order`, `clean-step`,
    `simfbo`, `fedbioacc`, `iter-topk`, `iter-sketch`, `non-iter`, `no-hessian`, `cg`,
    `neumann`, `nystrom`.
    """

    outer_rule: Literal["scale-free", "gradient"]
    """Scale-free divides the hypergradient by its root mean square over all clients; gradient
    does not. Default: 'scale-free'. Read by `single-loop`, `first-order`, `clean-step`,
    `simfbo`, `fedbioacc`, `iter-topk`, `iter-sketch`, `non-iter`, `no-hessian`, `cg`,
    `neumann`, `nystrom`.
    """

    weight_mean: float
    """Weight of the past in the mean over rounds of a sample's weight, which is what is
    reported; 0: that of the last round. Default: 0.9. Read by `single-loop`, `first-order`,
    `clean-step`, `simfbo`, `fedbioacc`, `iter-topk`, `iter-sketch`, `non-iter`, `no-hessian`,
    `cg`, `neumann`, `nystrom`.
    """

    outer_decay: int
    """Rounds after which the outer step falls like 1/k, as far as the model is trusted; 0
    disables decay and self_paced. Default: 10. Read by `single-loop`, `first-order`, `clean-
    step`, `simfbo`, `fedbioacc`, `iter-topk`, `iter-sketch`, `non-iter`, `no-hessian`, `cg`,
    `neumann`, `nystrom`.
    """

    self_paced: float
    """C: how strongly the model's own predictions move the weights as the outer step falls; 0:
    off. Default: 1.0. Read by `single-loop`, `first-order`, `clean-step`, `simfbo`,
    `fedbioacc`, `iter-topk`, `iter-sketch`, `non-iter`, `no-hessian`, `cg`, `neumann`,
    `nystrom`.
    """

    bootstrap: float
    """Share of a down-weighted sample's loss that goes to the predicted class; 0: off. Default:
    1.0. Read by `single-loop`, `first-order`, `clean-step`, `simfbo`, `fedbioacc`, `iter-
    topk`, `iter-sketch`, `non-iter`, `no-hessian`, `cg`, `neumann`, `nystrom`.
    """

    initial_weight: float
    """Weight of every sample before round 1. Default: 1.0. Read by `single-loop`, `first-order`,
    `clean-step`, `simfbo`, `fedbioacc`, `iter-topk`, `iter-sketch`, `non-iter`, `no-hessian`,
    `cg`, `neumann`, `nystrom`.
    """

    rate: float
    """Compression rate: d / numbers sent. Default: 20.0. Read by `single-loop`, `iter-topk`,
    `iter-sketch`, `non-iter`, `cg`, `neumann`.
    """

    compressor: Literal["auto", "identity", "topk", "count-sketch"]
    """Compressor of the clients' products; auto: for single-loop topk if all clients take part,
    else count-sketch; for cg and neumann none. Default: 'auto'. Read by `single-loop`, `cg`,
    `neumann`.
    """

    feedback: Literal["auto", "listing", "gradient", "ef21"]
    """Error feedback; listing: as Algorithm 2 is listed; gradient: Eq. 12; ef21: differences to
    what was sent, which converges; auto: ef21 for sketches and for several iterations a
    round, else listing. Default: 'auto'. Read by `single-loop`, `iter-topk`, `iter-sketch`.
    """

    value_bits: int
    """Bits, at most, of a number that topk sends: 32 (all of it), 16 or 8. Default: 16. Read by
    `single-loop`, `iter-topk`, `cg`, `neumann`.
    """

    sketch_rows: int
    """Rows of the count-sketch. Default: 5. Read by `single-loop`, `iter-sketch`, `cg`,
    `neumann`.
    """

    heavy: int
    """How many of the largest entries a count-sketch recovers; 0: its columns // 16. Default: 0.
    Read by `single-loop`, `iter-sketch`, `cg`, `neumann`.
    """

    solver_lr: float | Literal["auto"]
    """Solver step size α; auto: the inner step's, n / (n + d) of it for a sketch of n numbers.
    Default: 'auto'. Read by `single-loop`, `simfbo`, `fedbioacc`, `iter-topk`, `iter-sketch`,
    `no-hessian`, `neumann`.
    """

    curvature: Literal["hessian", "gauss-newton"]
    """Matrix of the linear system. Default: 'gauss-newton'. Read by `single-loop`, `simfbo`,
    `fedbioacc`, `iter-topk`, `iter-sketch`, `non-iter`, `no-hessian`, `cg`, `neumann`,
    `nystrom`.
    """

    damping: float | Literal["auto"]
    """Added to the diagonal of the matrix; auto: 0.05 over the inner step. Default: 'auto'. Read
    by `single-loop`, `simfbo`, `fedbioacc`, `iter-topk`, `iter-sketch`, `non-iter`, `no-
    hessian`, `cg`, `neumann`, `nystrom`.
    """

    curvature_batch: int
    """Samples that a client draws per round for its products with the matrix, single-loop at
    most its first local batch; 0: all. Default: 128. Read by `single-loop`, `iter-topk`,
    `iter-sketch`, `non-iter`, `no-hessian`, `cg`, `neumann`, `nystrom`.
    """

    penalty: float
    """λ: the server's steps weigh the clean loss by 1 / λ; larger: closer to the hypergradient,
    and slower. Default: 1.0. Read by `first-order`, `clean-step`.
    """

    server_steps: int
    """The server's steps on the clean set per round. Default: 5. Read by `first-order`, `clean-
    step`.
    """

    train_share: float
    """Share of the clean set that these steps train on; the rest judges; 1: all, none judges.
    Default: 0.5. Read by `first-order`, `clean-step`.
    """

    storm: float
    """A: weight of the newest gradient in FedBiOAcc's momenta. Default: 0.9. Read by
    `fedbioacc`.
    """

    share_noise: bool
    """One noise model for all sites, from sums over their labels; false: each its own. Default:
    True. Read by `out-of-fold`.
    """

    learn_l2: bool
    """Move l2 by the hypergradient of the loss on held-out clean samples. Default: False. Read
    by `out-of-fold`.
    """

    iterations: int
    """Solver iterations I per round. Default: 1. Read by `iter-topk`, `iter-sketch`."""

    schedule: Literal["constant", "theorem"]
    """Step size of iteration i; constant: solver_lr; theorem: 8 / (mu (i + shift)), and v is
    averaged. Default: 'constant'. Read by `iter-topk`, `iter-sketch`.
    """

    mu: float
    """μ of the schedule 'theorem'. Default: 0.001. Read by `iter-topk`, `iter-sketch`."""

    shift: float
    """A of the schedule 'theorem'. Default: 10000.0. Read by `iter-topk`, `iter-sketch`."""

    warm_start: bool
    """Keep v and its error between rounds. Default: True. Read by `iter-topk`, `iter-sketch`."""

    resample: bool
    """Draw new clients for every solver iteration. Default: False. Read by `iter-topk`, `iter-
    sketch`.
    """

    check_residual: bool
    """Measure the residual exactly, by one more exchange without compression per round. Default:
    False. Read by `iter-topk`, `iter-sketch`, `non-iter`, `no-hessian`, `cg`, `neumann`,
    `nystrom`.
    """

    fresh_cohort: bool
    """Draw clients anew for the estimate and the outer step, as Algorithms 2 and 3 are listed;
    false: those of the local steps. Default: False. Read by `iter-topk`, `iter-sketch`, `non-
    iter`, `no-hessian`, `cg`, `neumann`, `nystrom`.
    """

    system: Literal["least-squares", "galerkin"]
    """Which sketched system; least-squares: the paper's; galerkin: ours, with r1 only. Default:
    'least-squares'. Read by `non-iter`.
    """

    r1: int
    """Columns of the sketched system; 0: from the rate. Default: 0. Read by `non-iter`."""

    r2: int
    """Rows of the sketched system, for least-squares; 0: 2 r1. Default: 0. Read by `non-iter`."""

    fresh_seeds: bool
    """Draw the sketches of the system anew in every round. Default: True. Read by `non-iter`."""

    terms: int
    """Directions that v is made of, one product each per round. Default: 10. Read by `cg`,
    `neumann`.
    """

    rank: int
    """Products that a client makes per round for the Nyström sketch. Default: 10. Read by
    `nystrom`.
    """
