r"""The formula of each piece, which its reference page starts with.

Docstrings say it in a line of ASCII, for `help`; this is the same in LaTeX, for the pages.
"""

_SVM = r"\min_{w, b} \; \frac12 \|w\|^2 + C \sum_{i=1}^m c_i \,"
_MEAN = r"\min_{w, b} \; \frac{1}{\sum_i c_i} \sum_{i=1}^m c_i \, \ell(\langle w, x_i\rangle + b, y_i) + \alpha \, \Omega(w)"
_MODEL = r"f_t(x) = \max_{i \le t} \, (\langle a_i, x\rangle + b_i)"
_MKL = r"\min_{\beta \ge 0, \, \|\beta\|_p \le 1} \; \min_{f \in H_\beta, \, b} \; \frac12 \|f\|^2 + C \sum_{i=1}^m \ell(f(x_i) + b, y_i)"
_SOFT_MARGIN = r"\max_{w, \rho, \xi} \; \rho - \frac1\nu \sum_{i=1}^m \xi_i \quad \text{subject to} \quad y_i \sum_h w_h h(x_i) \ge \rho - \xi_i, \;\; \xi \ge 0, \;\; w \ge 0, \;\; \sum_h w_h = 1"
_CHAIN = r"F_w(x, s) = \sum_{t} \langle E_{s_t}, x_t\rangle + \sum_{t} T_{s_t s_{t+1}}"

_LOSSES = {
    "Hinge": r"\ell(t, y) = \max(0, \, 1 - y t)",
    "SquaredHinge": r"\ell(t, y) = \max(0, \, 1 - y t)^2",
    "ModifiedHuber": r"\ell(t, y) = \begin{cases} \max(0, 1 - y t)^2 & \text{if } y t \ge -1 \\ -4 y t & \text{else} \end{cases}",
    "Logistic": r"\ell(t, y) = \ln(1 + e^{-y t})",
    "Exponential": r"\ell(t, y) = e^{-y t}",
    "Squared": r"\ell(t, y) = \frac12 (t - y)^2",
    "Absolute": r"\ell(t, y) = |t - y|",
    "Quantile": r"\ell(t, y) = \max(\tau r, \, (\tau - 1) r), \qquad r = y - t",
    "EpsilonInsensitive": r"\ell(t, y) = \max(0, \, |t - y| - \varepsilon)",
    "SquaredEpsilonInsensitive": r"\ell(t, y) = \max(0, \, |t - y| - \varepsilon)^2",
    "Huber": r"\ell(t, y) = \begin{cases} \frac12 r^2 & \text{if } |r| \le \delta \\ \delta (|r| - \frac{\delta}{2}) & \text{else} \end{cases} \qquad r = t - y",
    "Poisson": r"\ell(t, y) = e^t - y t",
    "MulticlassHinge": r"\ell(s, y) = \max_j \, (c_{yj} + s_j) - s_y",
    "Softmax": r"\ell(s, y) = \ln \sum_j e^{s_j} - s_y",
    "ScalarLoss": r"\ell(t, y), \quad \text{convex in } t",
    "MarginLoss": r"\ell(t, y) = \varphi(y t), \qquad y \in \{-1, 1\}",
    "VectorLoss": r"\ell(s, y), \quad \text{convex in } s",
    "Pieces": r"\varphi'(s) = \text{slope}_j + \text{curvature}_j \, s \quad \text{for } \text{knot}_{j-1} < s < \text{knot}_j",
}

_REGULARIZERS = {
    "L2": r"g(x) = \frac{\lambda}{2} \sum_j w_j (x_j - c_j)^2",
    "L1": r"g(x) = \lambda \sum_j w_j |x_j|",
    "ElasticNet": r"g(x) = \lambda \left( r \|x\|_1 + \frac{1 - r}{2} \|x\|_2^2 \right)",
    "NegativeEntropy": r"g(x) = \lambda \sum_j x_j \ln x_j, \qquad x \ge 0",
    "RelativeEntropy": r"g(x) = \lambda \sum_j x_j \ln \frac{x_j}{q_j}, \qquad x \ge 0",
    "SquaredGroupNorm": r"g(x) = \frac{\lambda}{2} \left( \sum_k \rho_k^p \|x_k\|_2^p \right)^{2/p}",
    "GroupLasso": r"g(x) = \lambda \sum_k w_k \|x_k\|_2",
    "LInf": r"g(x) = \lambda \max_j |x_j|",
    "NuclearNorm": r"g(X) = \lambda \sum_k \sigma_k(X)",
    "SpectralNorm": r"g(X) = \lambda \, \sigma_{\max}(X)",
    "total_variation": r"g(x) = \lambda \sum_{i \sim j} |x_i - x_j|",
    "trend_filter": r"g(x) = \lambda \, \| D^{(k+1)} x \|_1",
    "QuadraticForm": r"g(x) = \lambda \left( \frac12 x^\top Q x + c^\top x \right), \qquad Q = Q^\top \succeq 0",
    "CvxpyRegularizer": r"g(x) = \lambda \, \omega(x)",
    "NoRegularizer": r"g(x) = 0",
    "RegularizerSum": r"g(x) = \lambda \sum_j g_j(x)",
    "regularizers.LinearImage": r"g(x) = h(D x)",
    "regularizers.Partial": r"g(x) = h(x_I)",
    "Regularizer": r"g(x) = \lambda \, \omega(x)",
    "regularizers.Norm": r"g(x) = \lambda \|x\|",
}

_SETS = {
    "WholeSpace": r"X = \mathbb{R}^n",
    "Box": r"X = \{x : l \le x \le u\}",
    "NonnegativeOrthant": r"X = \{x : x \ge 0\}",
    "LinfBall": r"X = \{x : \max_j |x_j - c_j| \le r\}",
    "L1Ball": r"X = \{x : \sum_j |x_j - c_j| \le r\}",
    "L2Ball": r"X = \{x : \|x - c\|_2 \le r\}",
    "NonnegativeBall": r"X = \{x : x \ge 0, \; \|x\|_p \le r\}",
    "Simplex": r"X = \{x : x \ge 0, \; \sum_j x_j = r\}",
    "CappedSimplex": r"X = \{x : 0 \le x_j \le u_j, \; \sum_j x_j = 1\}",
    "Polyhedron": r"X = \{x : A x \le b, \; A_{=} x = b_{=}\}",
    "PSDCone": r"X = \{x : X = X^\top \succeq 0\}, \qquad X \in \mathbb{R}^{n \times n} \text{ of the entries } x",
    "CvxpySet": r"X = \{x : \text{the constraints hold}\}",
    "SeparationOracle": r"x \notin X \;\Rightarrow\; (c, d) \text{ with } \langle c, z\rangle \le d \text{ for all } z \in X, \;\; \langle c, x\rangle > d",
    "HalfSpace": r"H = \{x : \langle c, x\rangle \le d\}",
    "HalfSpaces": r"H = \{x : C x \le d\}",
}

_RISKS = {
    "LinearRisk": r"f(w) = \sum_{i=1}^m c_i \, \ell(\langle x_i, w\rangle, y_i)",
    "MulticlassRisk": r"f(W) = \sum_{i=1}^m c_i \, \ell(W x_i, y_i)",
    "OrdinalRisk": r"f(w, b) = \sum_{i=1}^m c_i \sum_j \ell\left(\pm_{ij} (\langle w, x_i\rangle - b_j)\right), \qquad \pm_{ij} = \begin{cases} 1 & y_i > j \\ -1 & y_i \le j \end{cases}",
    "RankingRisk": r"f(w) = \frac{1}{\sum c} \sum_{(i, j) : \, y_i < y_j} c(y_i, y_j) \max(0, \, 1 + \langle w, x_i - x_j\rangle)",
    "MeasureRisk": r"f(w) = \max_{v \in \{-1, 1\}^m} \; \Delta(y, v) + \frac1m \sum_{i=1}^m (v_i - y_i) \langle w, x_i\rangle",
    "NoveltyRisk": r"f(w, \rho) = \frac1\nu \sum_{i=1}^m c_i \max(0, \, \rho - \langle w, x_i\rangle) - \rho",
    "LinearObjective": r"f(x) = \langle c, x\rangle",
    "ValueFunction": r"f(x) = \sum_s p_s \, Q_s(x)",
    "LagrangianDual": r"f(u) = \langle b, u\rangle - \sum_k \min_{x_k \in X_k} \langle c_k + A_k^\top u, x_k\rangle",
    "WeightedSum": r"f(x) = \sum_j c_j f_j(x)",
    "maximum": r"f(x) = \max_j f_j(x)",
    "Maximum": r"f(x) = \max_j f_j(x)",
    "CompositeObjective": r"F(x) = f(x) + g(x)",
    "risks.AffineRisk": r"f(x) = h(A x + b)",
    "risk": r"x \mapsto (f(x), s), \qquad s \in \partial f(x)",
    "OracleRisk": r"x \mapsto (f(x), s), \qquad s \in \partial f(x)",
    "Risk": r"f(z) \ge f(x) + \langle s, z - x\rangle \quad \text{for all } z",
    "ImagedRisk": r"f(x) = h(M x)",
    "StructuredRisk": r"f(w) = \frac1m \sum_{i=1}^m \max_y \; \Delta(y_i, y) + \langle w, \psi_i(y)\rangle, \qquad \psi_i(y) = \Psi(x_i, y) - \Psi(x_i, y_i)",
    "structured.ChainRisk": rf"f(w) = \frac1m \sum_{{i=1}}^m \max_s \; \Delta(y_i, s) + F_w(x_i, s) - F_w(x_i, y_i), \qquad {_CHAIN}",
    "structured.ChainLogLikelihood": rf"f(w) = \frac1m \sum_{{i=1}}^m \ln \sum_s e^{{F_w(x_i, s)}} - F_w(x_i, y_i), \qquad {_CHAIN}",
    "structured.ExampleSum": r"f(w) = \sum_i \max_y \; \langle a_i(y), w\rangle + b_i(y)",
    "distributed.DistributedRisk": r"f(x) = \sum_k \text{weight}_k \, f_k(x)",
}

_METHODS = {
    "Problem": r"\min_{x \in X} \; f(x) + g(x)",
    "Kelley": rf"x_{{t+1}} = \arg\min_{{x \in X}} \; f_t(x) + g(x), \qquad {_MODEL}",
    "BMRM": rf"x_{{t+1}} = \arg\min_{{x \in X}} \; f_t(x) + g(x), \qquad {_MODEL}",
    "OCAS": r"x_t = \arg\min_{x \in X} f_t(x) + g(x), \qquad x_b \leftarrow x_b + k^* (x_t - x_b), \qquad \text{cut at } (1 - \theta) x_b + \theta x_t",
    "LevelBundle": r"x_{t+1} = \arg\min_{x \in X} \; \|x - x_t\|^2 \quad \text{subject to} \quad f_t(x) + g(x) \le l + \kappa (u - l)",
    "ProximalBundle": r"x_t = \arg\min_{x \in X} \; f_t(x) + g(x) + \frac{u_t}{2} \|x - \hat x\|^2",
    "FrankWolfe": r"s_t = \arg\min_{s \in X} \langle \nabla f(x_t), s\rangle, \qquad x_{t+1} = x_t + \gamma_t (s_t - x_t)",
    "Direct": r"\min_{x, u} \; f(u) + g(x) \quad \text{subject to} \quad u = x, \; x \in X",
    "proof.certificate.Certificate": r"L(\alpha, \mu) = \langle b, \alpha\rangle - \langle d, \mu\rangle + \min_{x \in X_0} \left( g(x) + \langle A\alpha + C\mu, x\rangle \right) \;\le\; \min_{x \in X} f(x) + g(x)",
    "stopping.RelativeGap": r"\frac{u - l}{\max(10^{-12} \min(1, s), |u|)} \le \text{tol}",
    "stopping.AbsoluteGap": r"u - l \le \text{tol}_{\text{abs}}",
    "boosting.SoftMargin": _SOFT_MARGIN,
    "boosting.LPBoost": r"\min_d \; \max_h \; \sum_i d_i y_i h(x_i) \quad \text{over} \quad 0 \le d_i \le \frac1\nu, \;\; \sum_i d_i = 1",
    "boosting.ERLPBoost": r"\min_d \; \max_h \; \sum_i d_i y_i h(x_i) + \frac1\eta \sum_i d_i \ln(m d_i) \quad \text{over} \quad 0 \le d_i \le \frac1\nu, \;\; \sum_i d_i = 1",
    "boosting.Ensemble": r"x \mapsto \sum_k w_k h_k(x)",
    "mkl.MKL": rf"{_MKL} + \mu \sum_k \beta_k \ln(n \beta_k)",
    "mkl.MKLRisk": r"D(\beta) = \min_{f \in H_\beta, \, b} \; \frac12 \|f\|^2 + C \sum_{i=1}^m \ell(f(x_i) + b, y_i)",
    "mkl.SmoothedDual": r"f(\alpha) = -\sum_i \alpha_i + \mu \ln\left( \frac1n \sum_k e^{\alpha^\top G_k \alpha / (2 \mu)} \right)",
    "kernels.Linear": r"k(x, z) = \langle x, z\rangle",
    "kernels.Polynomial": r"k(x, z) = (\gamma \langle x, z\rangle + c_0)^d",
    "kernels.Gaussian": r"k(x, z) = \exp\left( -\frac{\|x - z\|^2}{2 \sigma^2} \right)",
    "kernels.Laplacian": r"k(x, z) = \exp\left( -\frac{\|x - z\|_1}{\sigma} \right)",
    "kernels.Cosine": r"k(x, z) = \frac{\langle x, z\rangle}{\|x\| \, \|z\|}",
    "kernels.KernelMachine": r"\min_{f, b} \; \frac12 \|f\|^2 + C \sum_{i=1}^m \ell(f(x_i) + b, y_i)",
}

_ESTIMATORS = {
    "LinearSVC": rf"{_SVM} \max(0, \, 1 - y_i (\langle w, x_i\rangle + b))",
    "LinearSVR": rf"{_SVM} \max(0, \, |\langle w, x_i\rangle + b - y_i| - \varepsilon)",
    "LinearClassifier": _MEAN,
    "LinearRegressor": _MEAN,
    "LinearRanker": r"\min_w \; \frac{1}{|P|} \sum_{(i, j) \in P} \max(0, \, 1 + \langle w, x_i - x_j\rangle) + \alpha \, \Omega(w), \qquad P = \{(i, j) : \text{one query}, \; y_i < y_j\}",
    "MeasureClassifier": r"\min_w \; \max_v \; \Delta(y, v) + \frac1m \sum_{i=1}^m (v_i - y_i) z_i + \alpha \, \Omega(w)",
    "LPBoostClassifier": _SOFT_MARGIN,
    "MKLClassifier": _MKL,
    "MKLRegressor": _MKL,
    "ChainSSVM": rf"\min_w \; \frac1m \sum_{{i=1}}^m \max_s \, [\Delta(y_i, s) + F_w(x_i, s) - F_w(x_i, y_i)] + \frac\alpha2 \|w\|^2, \qquad {_CHAIN}",
    "ChainCRF": rf"\min_w \; \frac1m \sum_{{i=1}}^m [\ln \sum_s e^{{F_w(x_i, s)}} - F_w(x_i, y_i)] + \frac\alpha2 \|w\|^2, \qquad {_CHAIN}",
}

FORMULAS = {f"cutplane.losses.{name}": formula for name, formula in _LOSSES.items()}
FORMULAS |= {f"cutplane.estimators.{name}": formula for name, formula in _ESTIMATORS.items()}
FORMULAS |= {f"cutplane.{n}": f for part in (_REGULARIZERS, _SETS, _RISKS, _METHODS) for n, f in part.items()}
