"""Weights by the solvers of MKLpy, for benchmarks/mkl.py: runs in an environment that has MKLpy (and torch).

None of them minimises the objective of the support vector machine over the simplex: the weights are averages,
alignments, margins, or ratios of radius and margin. Each setting is run once, for at most some seconds; after
that the weights of its last step count.

Run: python benchmarks/mkl_peers.py KERNELS.npy LABELS.npy WEIGHTS.npz [--C 1 100] [--cap 60] [--threads 1]
"""

import argparse
import signal
import warnings
from functools import partial
from time import process_time

import numpy as np


def settings(Cs):
    """Yield a name, a setting in words, and how to make the solver."""
    from MKLpy.algorithms import CKA, GRAM, MEMO, PWMK, RMKL, AverageMKL, EasyMKL, FHeuristic
    from MKLpy.scheduler import ReduceOnWorsening
    from sklearn.svm import SVC

    yield "AverageMKL", "", lambda: AverageMKL()
    for lam in (0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9):
        yield "EasyMKL", f"lam={lam:g}", lambda lam=lam: EasyMKL(lam=lam)
    yield "FHeuristic", "", lambda: FHeuristic()
    for rate in (0.01, 0.1):
        yield "GRAM", f"rate={rate:g}", lambda r=rate: GRAM(learning_rate=r, scheduler=ReduceOnWorsening())
    for rate in (1.0, 100.0):
        yield "MEMO", f"rate={rate:g}", lambda r=rate: MEMO(learning_rate=r, scheduler=ReduceOnWorsening())
        for C in Cs:
            make = partial(RMKL, C, learning_rate=rate, scheduler=ReduceOnWorsening())
            yield "RMKL", f"C={C:g}, rate={rate:g}", make
    for C in Cs:
        yield "PWMK", f"C={C:g}", lambda C=C: PWMK(1.0, learner=SVC(C=C))
    yield "CKA", "", lambda: CKA()


def expired(*_):
    raise TimeoutError


def weights_of(make, kernels, labels, cap):
    """Return the weights (None without any), the seconds, and what went wrong, if anything."""
    start, note, model = process_time(), "", None
    signal.signal(signal.SIGALRM, expired)
    signal.alarm(cap)
    try:
        model = make()
        model.combine_kernels(kernels, labels)
    except TimeoutError:
        note = f"stopped after {cap} s"
    except Exception as error:
        note = f"{type(error).__name__}: {error}"
    signal.alarm(0)
    solution = getattr(model, "solution", None)
    weights = None if solution is None else np.asarray(solution.weights, dtype=float).ravel()
    return weights, process_time() - start, note


def main(args):
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(args.threads)
    kernels = torch.from_numpy(np.load(args.kernels))
    labels = torch.from_numpy(np.load(args.labels).astype(int))
    found = {}
    for name, setting, make in settings(args.C):
        weights, seconds, note = weights_of(make, kernels, labels, args.cap)
        found[f"{name}|{setting}|{note}|{seconds}"] = (
            np.full(len(kernels), np.nan) if weights is None else weights
        )
        print(f"{name} {setting}: {seconds:.3g} s {note}", flush=True)
    np.savez(args.weights, **found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernels")
    parser.add_argument("labels")
    parser.add_argument("weights")
    parser.add_argument("--C", nargs="+", type=float, default=[1.0, 100.0])
    parser.add_argument("--cap", type=int, default=60, help="seconds of one setting")
    parser.add_argument("--threads", type=int, default=1)
    main(parser.parse_args())
