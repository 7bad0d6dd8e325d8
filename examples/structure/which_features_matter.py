r"""
Which features matter
=====================

Give every feature kernels of its own, let a support vector machine use their weighted sum, and learn the
weights :math:`\beta` of the kernels together with the machine:

.. math::

   \min_{\beta \ge 0, \, \|\beta\|_p \le 1} \; \min_{f, b} \; \tfrac{1}{2} \|f\|^2_{\beta}
   + C \sum_i \max(0, 1 - y_i (f(x_i) + b)),
   \qquad K_\beta = \sum_k \beta_k K_k .

With p = 1 most weights are zero. The features that are left are those that matter, and the certificate says
how much the others could add.

The data are scikit-learn's 569 breast cancers with 30 measurements. To know part of the answer beforehand, 30
*probes* are added: the same columns with their rows shuffled together, which have the same distribution but
nothing to do with the labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import cutplane as cut
from cutplane.kernels import KernelBank, single_feature_kernels
from cutplane.mkl import MKL, UniformWeights

data = load_breast_cancer()
probes = np.random.default_rng(0).permutation(data.data)
X, y = np.hstack([data.data, probes]), np.where(data.target, 1.0, -1.0)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=300, stratify=y, random_state=0)
scaler = StandardScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)

# %%
# A linear kernel and four Gaussian ones per feature make 300 kernels. Each is divided by its mean diagonal,
# lest it gain from its scale alone.
kernels = single_feature_kernels(X.shape[1], widths=[0.5, 1, 2, 4], degrees=[1])
bank = KernelBank(kernels, X_train, normalize="trace")
sparse = MKL(bank, y_train, C=1.0).solve(tol=1e-3)
print(sparse)

# %%
# The largest weights, and the way there: each iteration trains one machine, which gives a cut for the lower
# bound and an objective for the upper one.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
sparse.plot_weights(left)
sparse.plot(right)
right.set(ylabel="objective", ylim=(0.0, 2.0 * sparse.objective))

# %%
# The certificate
# ---------------
# Any dual variables a of a machine give a cut :math:`\sum_k \beta_k s_k + o` below the objective, with
# :math:`s_k = -\frac{1}{2} a'K_k a` and :math:`o = \sum_i y_i a_i`. A weighted mean of the cuts is again one;
# its least value over the simplex is that at the kernel with the least slope. Two lines recompute the bound.
certificate = sparse.certificate
slopes = certificate.multipliers @ certificate.slopes
bound = slopes.min() + certificate.multipliers @ certificate.offsets
print(f"{bound:.4f} = {sparse.lower_bound:.4f} <= optimum <= {sparse.objective:.4f}")
print(certificate.verify())

# %%
# scikit-learn's support vector machine with the learnt kernel agrees.
kernel = bank.weighted_sum(sparse.weights)
svc = SVC(C=1.0, kernel="precomputed", tol=1e-6).fit(kernel, y_train)
a = np.zeros(y_train.size)
a[svc.support_] = svc.dual_coef_[0]
svc_objective = np.abs(a).sum() - 0.5 * a @ kernel @ a
print(f"SVC: {svc_objective:.4f}")

# %%
# Other norms
# -----------
# With p = 2, and with equal weights, no kernel is left out. Added up per feature, the weights show how well
# the real features are told from the probes.
results = {
    "norm 1": sparse,
    "norm 2": MKL(bank, y_train, C=1.0, norm=2).solve(tol=1e-3),
    "equal": MKL(bank, y_train, C=1.0).solve(UniformWeights()),
}
of_feature = np.array([kernel.features for kernel in kernels])
shares = {}
fig, axes = plt.subplots(3, 1, figsize=(8, 6), layout="constrained", sharex=True)
for ax, (name, result) in zip(axes, results.items(), strict=True):
    weights = np.bincount(of_feature, result.weights) / result.weights.sum()
    shares[name] = weights[30:].sum()
    ax.bar(np.arange(60), weights, color=["C0"] * 30 + ["C3"] * 30)
    ax.set(title=f"{name}: {np.count_nonzero(weights)} features, {shares[name]:.0%} of the weight on probes")
axes[-1].set_xlabel("feature: 0 to 29 are real, 30 to 59 are probes")

best = np.argsort(-np.bincount(of_feature, sparse.weights))[:5]
print("most weight:", ", ".join(data.feature_names[j] if j < 30 else f"probe {j}" for j in best))

# %%
# On new examples
# ---------------
# C means something else under each norm, since the sum of the weights does; so each is shown along its path,
# which reuses the cuts of one C for the next. The accuracies hardly differ if C is chosen well: what norm 1
# buys is the selection.
Cs = np.logspace(-1, 1, 5)
paths = {
    "norm 1": MKL(bank, y_train).path(Cs, tol=1e-2),
    "norm 2": MKL(bank, y_train, norm=2).path(Cs, tol=1e-2),
    "equal": MKL(bank, y_train).path(Cs, method=UniformWeights()),
}
fig, ax = plt.subplots(layout="constrained")
accuracy = {}
for name, path in paths.items():
    signs = np.array([np.sign(result.predict(X_test)) for result in path])
    accuracy[name] = (signs == y_test).mean(axis=1)
    ax.semilogx(Cs, accuracy[name], "o-", label=name)
ax.set(xlabel="C", ylabel="test accuracy", ylim=(0.9, 1.0))
ax.legend()
for name in paths:
    print(f"{name:7} test accuracy {accuracy[name].round(3)}")

assert sparse.status is cut.Status.OPTIMAL and certificate.verify().valid
assert np.isclose(bound, sparse.lower_bound)
assert sparse.lower_bound <= svc_objective <= sparse.objective * (1 + 1e-6)
assert shares["norm 1"] < shares["norm 2"] < shares["equal"]
