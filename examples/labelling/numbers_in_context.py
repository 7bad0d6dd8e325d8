r"""
Digits that follow a rule
=========================

A digit that is hard to read is easier where its neighbours are known. Here scikit-learn's images of digits
are arranged as sequences by a Markov chain: after :math:`d` comes :math:`3 d + 1 \bmod 10` with probability
0.7, else any digit. A linear chain has weights for pixels and digits, and for pairs of neighbours; its risk
is the largest violation over all labellings, found by the Viterbi algorithm:

.. math:: f(w) = \frac1m \sum_i \max_s \,\bigl[\,|\{t : s_t \ne y_{it}\}| + F_w(x_i, s) - F_w(x_i, y_i)\bigr],
   \qquad F_w(x, s) = \sum_t \langle x_t, E_{s_t}\rangle + \sum_t T_{s_{t-1} s_t} .
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import cutplane as cut
from cutplane.structured import ChainLogLikelihood, ChainRisk, decode

# %%
# Sequences of four to eight images, each image used at most once, with noise as on a bad copy.
rng = np.random.default_rng(0)
images, digits = load_digits(return_X_y=True)
waiting = {d: rng.permutation(np.flatnonzero(digits == d)).tolist() for d in range(10)}


def sequence():
    """Return the numbers of images whose digits follow the chain, or None if a digit is used up."""
    rows, d = [], int(rng.integers(10))
    for _ in range(rng.integers(4, 9)):
        if not waiting[d]:
            return None
        rows.append(waiting[d].pop())
        d = (3 * d + 1) % 10 if rng.random() < 0.7 else int(rng.integers(10))
    return rows


rows = list(iter(sequence, None))
X = [(images[part] + 6.0 * rng.standard_normal((len(part), 64))) / 16.0 for part in rows]
y = [digits[part] for part in rows]
half = len(rows) // 2

# %%
# The formulation, without and with neighbours
# --------------------------------------------
# A sequence of length one has no neighbours, and gives the multiclass hinge.
lam = 1e-1
chain = ChainRisk(X[:half], y[:half])
alone = ChainRisk([x[np.newaxis] for x in np.concatenate(X[:half])], np.concatenate(y[:half])[:, np.newaxis])
field = ChainLogLikelihood(X[:half], y[:half])
results, read = {}, {}
for name, risk in {"each digit alone": alone, "max-margin chain": chain, "random field": field}.items():
    results[name] = cut.Problem(risk, cut.L2(lam if risk is not alone else lam / 5)).solve(tol=1e-3)
    test = [x[np.newaxis] for x in np.concatenate(X[half:])] if risk is alone else X[half:]
    found = np.concatenate(decode(results[name].x, test))
    accuracy, read[name] = np.mean(found == np.concatenate(y[half:])), found
    print(f"{name:<17} {results[name].status}, {results[name].oracle_calls:>3} passes, test {accuracy:.3f}")

# %%
# Of the sequences that neither has seen, those where neighbours help most: what is read without them, and
# below it what the chain reads. What is wrong is red.
lengths = np.array([len(labels) for labels in y[half:]])
starts, truth = np.cumsum(lengths) - lengths, np.concatenate(y[half:])
right = {name: (labels == truth).astype(int) for name, labels in read.items()}
gains = np.add.reduceat(right["max-margin chain"] - right["each digit alone"], starts)
fig, axes = plt.subplots(5, 8, figsize=(8, 6.5))
for ax in axes.ravel():
    ax.set_axis_off()
for row, i in zip(axes, np.argsort(-gains, kind="stable"), strict=False):
    for ax, x, place in zip(row, X[half + i], range(starts[i], starts[i] + lengths[i]), strict=False):
        ax.imshow(x.reshape(8, 8), cmap="gray_r")
        for height, name in ((-0.15, "each digit alone"), (-0.4, "max-margin chain")):
            colour = "0.2" if right[name][place] else "red"
            ax.text(
                0.5, height, read[name][place], color=colour, ha="center", va="center", transform=ax.transAxes
            )
fig.subplots_adjust(hspace=0.7)
plt.show()

# %%
# The transition weights show the rule.
transitions = results["max-margin chain"].x[640:].reshape(10, 10)
plt.imshow(transitions, cmap="RdBu", vmin=-abs(transitions).max(), vmax=abs(transitions).max())
plt.xlabel("next digit")
plt.ylabel("digit")
plt.show()
assert np.mean(transitions.argmax(axis=1) == (3 * np.arange(10) + 1) % 10) >= 0.9

# %%
# The check
# ---------
# The Viterbi recursion written as inequalities makes the whole problem one convex programme: the best score
# that ends in s is :math:`V_t(s) \ge V_{t-1}(a) + T_{as} + \langle x_t, E_s\rangle + [s \ne y_t]`.
few = 4
w, S = cp.Variable(chain.dim), 10
E, T = cp.reshape(w[:640], (S, 64), order="C"), cp.reshape(w[640:], (S, S), order="C")
total, rows = 0.0, []
for x, labels in zip(X[:few], y[:few], strict=True):
    local = x @ E.T + (1.0 - np.eye(S)[labels])
    V = cp.Variable((len(labels), S))
    rows.append(V[0] >= local[0])
    for t in range(1, len(labels)):
        before = cp.reshape(V[t - 1], (S, 1), order="C") @ np.ones((1, S))
        after = np.ones((S, 1)) @ cp.reshape(V[t] - local[t], (1, S), order="C")
        rows.append(after >= before + T)
    pairs = np.zeros((S, S))
    np.add.at(pairs, (labels[:-1], labels[1:]), 1.0)
    truth = cp.sum(cp.multiply(np.eye(S)[labels].T @ x, E)) + cp.sum(cp.multiply(pairs, T))
    total += (cp.max(V[-1]) - truth) / few
whole = cp.Problem(cp.Minimize(total + 0.5 * lam * cp.sum_squares(w)), rows).solve(solver="CLARABEL")
part = ChainRisk(X[:few], y[:few], n_states=S)
result = cut.Problem(part, cut.L2(lam)).solve(tol=1e-5)
print(f"cutting planes {result.objective:.6f}, one convex programme {whole:.6f}")
assert result.certificate.verify().valid
assert result.lower_bound <= whole * (1 + 1e-7)
assert abs(result.objective - whole) <= 2e-5 * whole
