"""Reading formulas of clauses and quadratic functions, whose variables have two states."""

from __future__ import annotations

import math

import numpy as np

from cutplane.graphical.files.builder import ModelBuilder, SparseTables
from cutplane.graphical.files.tokens import Tokens
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.text import PathOrFile


def read_wcnf(path_or_file: PathOrFile) -> GraphicalModel:
    r"""Read a formula in conjunctive normal form, with weighted clauses, from a DIMACS file (Max-SAT).

    .. math:: E(x) = \sum_{C \text{ violated by } x} w_C

    Three formats are read: ``p cnf``, where each clause has the weight 1; ``p wcnf``, where each clause
    begins with its weight, and is hard if the weight is at least the top weight; and the format of the MaxSAT
    Evaluations since 2022, without a line ``p``, where hard clauses begin with ``h``.

    Parameters
    ----------
    path_or_file : str, Path, or file object
        A file object may be open for text or for bytes. Contents compressed by gzip or xz are recognised.

    Returns
    -------
    GraphicalModel
        State 1 of variable u is "true" for the variable u + 1 of the file. A violated hard clause costs +inf.
        Long clauses become chains of small tables, whose auxiliary variables are appended.

    Raises
    ------
    InvalidInputError
        If the file is not in this format; the message names the line.

    References
    ----------
    .. [1] "Partial weighted MaxSAT format", https://toulbar2.github.io/toulbar2/formats/cnfwcnfformat.html
    .. [2] "MaxSAT Evaluation 2022: rules", https://maxsat-evaluations.github.io/2022/rules.html

    Examples
    --------
    >>> import io
    >>> from cutplane.graphical import read_wcnf
    >>> model = read_wcnf(io.StringIO("c at least one, rather the second\nh 1 2 0\n3 -1 0\n2 -2 0"))
    >>> result = model.map()
    >>> result.labelling.tolist(), result.energy
    ([0, 1], 2.0)
    """
    tokens = Tokens(path_or_file, comments=rb"^c.*|^%[\s\S]*")
    n, count, top, weighted = None, None, math.inf, True
    if tokens.next_is("p"):
        tokens.word("p")
        kind = tokens.word("the format")
        if kind not in ("cnf", "wcnf"):
            tokens.fail(f"expected the format, one of cnf, wcnf, got {kind!r}")
        weighted = kind == "wcnf"
        n, count = tokens.integer("the number of variables"), tokens.integer("the number of clauses")
        if not tokens.ends_line():
            top = tokens.integer("the top weight", low=1)
    clauses: list[tuple[float, set[int]]] = []
    while tokens.n_left:
        weight = 1.0
        if weighted and tokens.next_is("h"):
            tokens.word("h")
            weight = math.inf
        elif weighted:
            weight = tokens.real("the weight of a clause", low=0.0)
        literals: set[int] = set()
        while literal := tokens.integer("a literal", low=-math.inf):
            if n is not None and abs(literal) > n:
                tokens.fail(f"the literal {literal} is beyond the {n} variables of the file")
            literals.add(literal)
        clauses.append((math.inf if weight >= top else weight, literals))
    if count is not None and count != len(clauses):
        tokens.fail(f"there are {len(clauses)} clauses, but the file says {count}")
    if n is None:
        n = max((abs(literal) for _, literals in clauses for literal in literals), default=0)
    tokens.check_states(2 * n, tokens.position - 1)
    kept = [one for one in clauses if not any(-literal in one[1] for literal in one[1])]
    flat = np.array([v for _, one in kept for v in sorted(one, key=abs)], dtype=np.int64)
    builder = ModelBuilder([2] * n, tokens.fail)
    builder.add_tuples(
        SparseTables(
            arities=np.array([len(one) for _, one in kept], dtype=np.int64),
            scopes=np.abs(flat) - 1,
            defaults=np.zeros(len(kept)),
            owners=np.arange(len(kept)),
            states=(flat < 0).astype(np.int64),
            costs=np.array([weight for weight, _ in kept]),
        )
    )
    return builder.model()


def read_qpbo(path_or_file: PathOrFile) -> GraphicalModel:
    r"""Read a quadratic function of binary variables from a file in the QPBO format [1]_.

    .. math:: E(x) = \pm \sum_i W_{ii} x_i^2 \pm 2 \sum_{i < j} W_{ij} x_i x_j

    If the number of variables in the file is positive, their values are 0 and 1; if it is negative, the
    values are 1 and -1. If the number of coefficients is positive, the function is minimised; if it is
    negative, the function is maximised, and the energy is minus the function.

    Parameters
    ----------
    path_or_file : str, Path, or file object
        A file object may be open for text or for bytes. Contents compressed by gzip or xz are recognised.

    Returns
    -------
    GraphicalModel
        The states 0 and 1 are the values 0 and 1, or the values 1 and -1.

    Raises
    ------
    InvalidInputError
        If the file is not in this format; the message names the line.

    References
    ----------
    .. [1] "QPBO format", https://toulbar2.github.io/toulbar2/formats/qpboformat.html

    Examples
    --------
    >>> import io
    >>> from cutplane.graphical import read_qpbo
    >>> model = read_qpbo(io.StringIO("2 3\n1 1 -1\n2 2 -1\n1 2 0.75"))
    >>> model.energy([1, 0]), model.energy([1, 1])
    (-1.0, -0.5)
    """
    tokens = Tokens(path_or_file)
    n = tokens.integer("the number of variables", low=-math.inf)
    count = tokens.integer("the number of coefficients", low=-math.inf)
    values = np.array([0.0, 1.0] if n >= 0 else [1.0, -1.0])
    sign = 1.0 if count >= 0 else -1.0
    tokens.expect(3 * abs(count), "the coefficients")
    tokens.check_states(2 * abs(n), tokens.position - 1)
    builder = ModelBuilder([2] * abs(n), tokens.fail)
    for _ in range(abs(count)):
        i, j = (tokens.integer("a variable", low=1, high=abs(n) + 1) - 1 for _ in range(2))
        weight = sign * tokens.real("a coefficient")
        if i == j:
            builder.add((i,), weight * values**2)
        else:
            builder.add((i, j), 2.0 * weight * np.outer(values, values))
    tokens.finish("the last coefficient")
    return builder.model()
