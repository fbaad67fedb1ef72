"""DP-SGD for linear models: its noise beside other accountants, and how its numbers were chosen.

    python benchmarks/studies/dpsgd.py accountants
    python benchmarks/studies/dpsgd.py tune [--tables FOLDER]
    python benchmarks/studies/dpsgd.py opacus --tables FOLDER    # needs Opacus and torch

`accountants` prints the noise of the rival at delta 1e-9, over the clipping bound, and the epsilon
that dp-accounting finds for it: by privacy-loss distributions, and by Renyi divergences. `tune`
prints the mean share of the R^2 of least squares that is kept at epsilon 1, over the tables of the
study of regressions where least squares has 0.02 or more; an R^2 below -0.1 counts as -0.1. FOLDER
has more tables. `opacus` trains on tables of FOLDER that are scaled by given bounds, beside the
rival, with the same numbers and the same noise: test R^2 of three splits, and the epsilon that
Opacus finds.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import statistics
from pathlib import Path

import numpy as np

from hushcov.calibration import calibrate_gaussian
from hushcov_lab.rivals.coefficients import Coefficients
from hushcov_lab.rivals.dpsgd import (
    BOUNDS_ALONE,
    TUNED,
    Training,
    fit_between_bounds,
    fit_dpsgd,
)
from hushcov_lab.rivals.regression_study import HeldOut, least_squares
from hushcov_lab.rivals.subsampled import calibrate_steps
from hushcov_lab.rivals.tables import load_table, table_names

_DELTA = 1e-9
_LEAST, _WORST = 0.02, -0.1  # R^2 of least squares for a table to count, and the worst one counted
_SPLITS = 2


def compare_accountants() -> None:
    from dp_accounting import dp_event
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    logging.disable()  # of Renyi orders that are left out
    print("| sampling rate | steps | epsilon | noise | epsilon by distributions | by Renyi |")
    print("|---|---|---|---|---|---|")
    sampling = ((TUNED.rate, TUNED.steps), (0.05, 400))
    for (rate, steps), epsilon in itertools.product(sampling, (0.3, 1.0, 3.0)):
        noise = calibrate_steps(epsilon, _DELTA, rate, steps)
        step = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(noise))
        interval = 1e-3 * calibrate_gaussian(epsilon, _DELTA)
        found = []
        for accountant in (PLDAccountant(value_discretization_interval=interval), RdpAccountant()):
            accountant.compose(dp_event.SelfComposedDpEvent(step, steps))
            found.append(f"{accountant.get_epsilon(_DELTA):.4f}")
        print(f"| {rate} | {steps} | {epsilon} | {noise:.2f} | {' | '.join(found)} |")


def tune(folder: Path | None) -> None:
    splits = {
        name: [HeldOut.of(load_table(name, folder, seed), seed) for seed in range(_SPLITS)]
        for name in table_names(folder)
    }
    exact = {
        name: statistics.median(
            each.r_squared(
                each.train.shape[1] - 1, least_squares(each.train[:, :-1], each.train[:, -1])
            )
            for each in found
        )
        for name, found in splits.items()
    }
    ways = [
        ("given", fit_dpsgd, True, True),
        ("released", fit_dpsgd, False, True),
        ("bounds alone", fit_between_bounds, True, False),
    ]
    sampling = ((0.05, 400), (0.2, 200), (0.2, 100))
    print("| columns scaled by | rate | steps | learning rate | clip | kept |")
    print("|---|---|---|---|---|---|")
    for title, fit, given, settles in ways:
        for (rate, steps), speed in itertools.product(sampling, (0.03, 0.1)):
            for clip in (1.5, 3.0, 6.0, 12.0) if settles else (0.3, 1.0, 2.0, 4.0):
                how = Training(rate, steps, speed, 0.9, clip, settles, 0.5 if settles else 0.0)
                kept = []
                for name, found in splits.items():
                    if exact[name] < _LEAST:
                        continue
                    scores = [
                        _score(fit, each, given, how, seed) for seed, each in enumerate(found)
                    ]
                    kept.append(max(statistics.median(scores), _WORST) / exact[name])
                line = (title, rate, steps, speed, clip, f"{statistics.mean(kept):.3f}")
                print(f"| {' | '.join(map(str, line))} |", flush=True)


def run_opacus(folder: Path) -> None:
    print("| table | noise | epsilon of Opacus | R^2 of Opacus | R^2 of the rival |")
    print("|---|---|---|---|---|")
    for name in ("elevators", "parkinsons", "pol"):
        table = load_table(name, folder, 0)
        found = []
        for seed in range(3):
            split = HeldOut.of(table, seed)
            mine = _score(fit_between_bounds, split, True, BOUNDS_ALONE, seed)
            found.append((*_train_with_opacus(split, seed), mine))
        noise, epsilon, theirs, mine = np.median(np.array(found), axis=0)
        print(f"| {name} | {noise:.2f} | {epsilon:.3f} | {theirs:.3f} | {mine:.3f} |", flush=True)


def _train_with_opacus(split: HeldOut, seed: int) -> tuple[float, float, float]:
    """Return noise, epsilon by Opacus and test R^2; loss and gradients are twice the rival's."""
    import torch
    from opacus import PrivacyEngine

    how, target = BOUNDS_ALONE, split.train.shape[1] - 1
    delta = float(len(split.train)) ** -2
    noise = calibrate_steps(1.0, delta, how.rate, how.steps)
    middle = (split.bounds.lower + split.bounds.upper) / 2
    half = (split.bounds.upper - split.bounds.lower) / 2
    scaled = torch.tensor((split.train - middle) / np.where(half > 0, half, np.inf))
    torch.manual_seed(seed)
    model = torch.nn.Linear(target, 1, dtype=torch.float64)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    records = torch.utils.data.TensorDataset(scaled[:, :target], scaled[:, target:])
    engine = PrivacyEngine(accountant="prv")
    model, optimiser, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(
            model.parameters(), lr=how.learning_rate / 2, momentum=how.momentum
        ),
        data_loader=torch.utils.data.DataLoader(records, batch_size=round(how.rate * len(scaled))),
        noise_multiplier=noise,
        max_grad_norm=2 * how.clip,
    )
    passes = itertools.chain.from_iterable(itertools.repeat(loader))
    for rows, goal in itertools.islice(passes, how.steps):
        optimiser.zero_grad()
        torch.nn.functional.mse_loss(model(rows), goal).backward()
        optimiser.step()
    weights, intercept = (each.detach().numpy().ravel() for each in model.parameters())
    slopes = weights * half[target] / np.where(half > 0, half, np.inf)[:target]
    level = middle[target] + intercept[0] * half[target] - slopes @ middle[:target]
    found = Coefficients(float(level), slopes)
    return noise, engine.get_epsilon(delta), split.r_squared(target, found)


def _score(fit, split: HeldOut, given: bool, how: Training, seed: int) -> float:
    target = split.train.shape[1] - 1
    X, y, bounds = split.towards(target)
    rng = np.random.default_rng([seed, 1])
    found = fit(
        X,
        y,
        epsilon=1.0,
        delta=float(len(y)) ** -2,
        bounds=bounds if given else None,
        rng=rng,
        how=how,
    )
    return split.r_squared(target, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("accountants", "tune", "opacus"))
    parser.add_argument("--tables", type=Path)
    options = parser.parse_args()
    if options.what == "accountants":
        compare_accountants()
    elif options.what == "tune":
        tune(options.tables)
    else:
        run_opacus(options.tables)


if __name__ == "__main__":
    main()
