"""The result of a setting in one or two sentences, computed from the numbers.

The first sentence is on test accuracy: the method that sifts labels, if there are several the
one that ends highest, against the oracle and FedAvg. The second is on the wrong labels found.
Every sentence rests on what the runs recorded, and only equal settings are compared.
"""

from __future__ import annotations

from fedsift.report.compare import Setting, Variant
from fedsift.report.runs import FIXED_WEIGHTS

UNKNOWN = "The true labels are unknown, so the flagged labels are not scored."
NOISE_TOLERANCE = 0.05  # the effective noise of two seeds differs a little; more is another problem


def lead(setting: Setting) -> Variant | None:
    """Return the variant that a setting is judged by: of those that sift labels the best one."""
    scored = [v for v in setting.variants if v.mean("test_accuracy") is not None]
    sifters = [v for v in scored or setting.variants if v.method not in FIXED_WEIGHTS]
    if sifters:
        return max(sifters, key=_accuracy if scored else _f1)
    return scored[0] if scored else None


def verdict(setting: Setting) -> str:
    """Return how the runs of a setting ended."""
    scored = [v for v in setting.variants if v.mean("test_accuracy") is not None]
    sifters = [v for v in scored if v.method not in FIXED_WEIGHTS]
    leader = lead(setting)
    if not scored or leader is None:
        return _without_accuracy(setting)
    oracle = None if leader.method == "oracle" else _reference("oracle", leader, scored)
    fedavg = None if leader.method == "fedavg" else _reference("fedavg", leader, scored)
    named = [v for v in (leader, oracle, fedavg) if v is not None]
    equal_rounds = len({run.rounds_done for v in named for run in v.runs}) == 1

    sentence = _opening(leader, sifters) + _status(leader, equal_rounds)
    if oracle is not None:
        sentence += f", {_gap(leader, oracle)} the oracle{_status(oracle, equal_rounds)}"
    if fedavg is not None:
        mean = f" (mean of {_counted(fedavg)} runs)" if _counted(fedavg) > 1 else ""
        sentence += f"; fedavg {_verb(fedavg)} at {percent(_accuracy(fedavg))}{mean}"
        sentence += _status(fedavg, equal_rounds)
    sentence += "."
    return f"{sentence} {_detection(leader, sifters)}" if sifters else sentence


def percent(fraction: float) -> str:
    """Return a fraction as a percentage with one digit."""
    return f"{100 * fraction:.1f} %"


def _without_accuracy(setting: Setting) -> str:
    sentence = "There is no test accuracy."
    sifters = [v for v in setting.variants if v.method not in FIXED_WEIGHTS]
    if not sifters:
        return sentence
    best = max(sifters, key=_f1)
    return f"{sentence} {_detection(best, sifters, best.name)}"


def _opening(leader: Variant, sifters: list[Variant]) -> str:
    """Return `iter-sketch ends at 98.2 % test accuracy`, with the field it is the best of."""
    subject, place = leader.name, ""
    if len(sifters) > 1:
        methods = len({v.method for v in sifters})
        field = f"{methods} methods" if methods == len(sifters) else f"{len(sifters)} variants"
        subject = f"Of the {field} that sift labels, {leader.name}"
        ties = [v.name for v in sifters if v is not leader and _accuracy(v) == _accuracy(leader)]
        place = f" highest, level with {' and '.join(ties)}," if ties else " highest"
    sentence = f"{subject} {_verb(leader)}{place} at {percent(_accuracy(leader))} test accuracy"
    if _counted(leader) > 1:
        values = leader.values("test_accuracy")
        low, high = (f"{100 * value:.1f}" for value in (min(values), max(values)))
        sentence += f" (mean of {len(values)} runs, {low} to {high})"
    return sentence


def _gap(leader: Variant, oracle: Variant) -> str:
    points = 100 * (_accuracy(leader) - _accuracy(oracle))
    if abs(points) < 0.05:
        return "level with"
    return f"{abs(points):.1f} points {'above' if points > 0 else 'below'}"


def _status(variant: Variant, equal_rounds: bool) -> str:
    """Return how far the runs came, where a reader would otherwise assume that they are done."""
    open_runs = [run for run in variant.runs if not run.finished]
    if open_runs and len(variant.runs) == 1:
        return f" with {_rounds(open_runs[0].rounds_done)} done (unfinished)"
    if open_runs:
        return f" ({len(open_runs)} of {len(variant.runs)} runs unfinished)"
    done = {run.rounds_done for run in variant.runs}
    return "" if equal_rounds or len(done) > 1 else f" after {_rounds(done.pop())}"


def _detection(leader: Variant, sifters: list[Variant], subject: str = "It") -> str:
    f1 = leader.mean("f1")
    if f1 is None:
        return _why_unscored(leader)
    parts = [(name, leader.mean(name)) for name in ("precision", "recall")]
    known = [f"{name} {value:.2f}" for name, value in parts if value is not None]
    sentence = f"{subject} finds mislabelled samples with F1 {f1:.2f}"
    if known:
        sentence += f" at {' and '.join(known)}"
    best = max(sifters, key=_f1)
    if f"{_f1(best):.2f}" > f"{f1:.2f}":  # as a reader sees them
        sentence += f"; {best.name} has the highest F1, {_f1(best):.2f}"
    return f"{sentence}."


def _why_unscored(leader: Variant) -> str:
    noise = leader.mean("noise_rate")
    if not any(run.finished for run in leader.runs):
        return "Flagged labels are scored when the run has ended."
    if noise == 0:
        return "No label is wrong in this data, so there is nothing to find."
    if noise is None and not any(run.truth_known for run in leader.runs):
        return UNKNOWN
    return f"{leader.name} has no score for the mislabelled samples it finds."


def _reference(method: str, leader: Variant, scored: list[Variant]) -> Variant | None:
    """Return the variant of a reference method that is fair to compare with `leader`."""
    variants = [v for v in scored if v.method == method and _same_noise(v, leader)]
    if len(variants) > 1:
        variants = [v for v in variants if v.detail == leader.detail]
    return variants[0] if len(variants) == 1 else None


def _same_noise(one: Variant, other: Variant) -> bool:
    rates = one.mean("noise_rate"), other.mean("noise_rate")
    if rates[0] is None or rates[1] is None:
        return True
    return abs(rates[0] - rates[1]) <= NOISE_TOLERANCE


def _accuracy(variant: Variant) -> float:
    mean = variant.mean("test_accuracy")
    assert mean is not None  # only variants with an accuracy come here
    return mean


def _f1(variant: Variant) -> float:
    return variant.mean("f1") or 0.0


def _counted(variant: Variant) -> int:
    return len(variant.values("test_accuracy"))


def _verb(variant: Variant) -> str:
    return "ends" if all(run.finished for run in variant.runs) else "stands"


def _rounds(count: int) -> str:
    return f"{count} round{'' if count == 1 else 's'}"
