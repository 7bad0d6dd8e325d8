"""Reading and writing models in the UAI format, and reading evidence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factors import entries_of
from cutplane.graphical.files.builder import FactorBlock, blocks_of
from cutplane.graphical.files.tokens import MAX_ARITY, Tokens
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.text import PathOrFile, write_text
from cutplane.pieces.validation import Array

_LIMIT = 700.0
"""Largest absolute energy, because exp of it, and of minus it, is a normal float."""
_MAX_CONSTANTS = 10_000
"""Most potentials of a constant, because each is one more factor for the readers of the file."""


def read_uai(
    path_or_file: PathOrFile, evidence: PathOrFile | Mapping[int, int] | None = None
) -> GraphicalModel:
    r"""Read a model from a file in the UAI format [1]_.

    .. math:: E(x) = - \sum_A \ln \varphi_A(x_A)

    The file contains the potentials :math:`\varphi_A \geq 0`; a potential of 0 becomes an energy of +inf.
    Both kinds of networks, ``MARKOV`` and ``BAYES``, are read in the same way. A labelling of least energy is
    a most probable labelling.

    Parameters
    ----------
    path_or_file : str, Path, or file object
        A file object may be open for text or for bytes. Contents compressed by gzip are recognised.
    evidence : mapping of int to int, str, Path, or file object, optional
        The states of observed variables, or a file with them (``.evid``). The file contains the number of
        observed variables, and then pairs of a variable and its state; a 1, the number of samples, may
        precede all of these. The other states of observed variables get an energy of +inf.

    Returns
    -------
    GraphicalModel

    Raises
    ------
    InvalidInputError
        If the file is not in this format (the message names the line), or the evidence names a variable or a
        state that does not exist.

    See Also
    --------
    write_uai : The reverse.

    Notes
    -----
    A potential that is too small or too large for a float is read correctly, because its logarithm is a
    float.

    References
    ----------
    .. [1] "UAI 2010 approximate inference challenge: file format",
       https://www.cs.huji.ac.il/project/UAI10/fileFormat.php

    Examples
    --------
    >>> import io
    >>> from cutplane.graphical import read_uai
    >>> text = '''MARKOV
    ... 2
    ... 2 3
    ... 1
    ... 2 1 0
    ... 6
    ... 1 2  0 1  1 8'''
    >>> model = read_uai(io.StringIO(text))
    >>> model.cardinalities.tolist(), model.factor(0).variables
    ([2, 3], (0, 1))
    >>> round(model.energy([1, 2]), 6), model.energy([0, 1])
    (-2.079442, inf)
    >>> read_uai(io.StringIO(text), evidence=io.StringIO("1 1 0")).energy([1, 2])
    inf
    """
    tokens = Tokens(path_or_file)
    kind = tokens.word("MARKOV or BAYES")
    if kind.upper() not in ("MARKOV", "BAYES"):
        tokens.fail(f"a UAI file begins with MARKOV or BAYES, not with {kind!r}")
    n = tokens.integer("the number of variables")
    cardinalities = tokens.cardinalities(n)
    count = tokens.integer("the number of factors")
    tokens.expect(count, "the scopes of the factors")
    first, arities = tokens.position, []
    for _ in range(count):
        arities.append(tokens.integer("the arity of a factor"))
        if arities[-1] > MAX_ARITY:
            tokens.fail(f"a factor of {arities[-1]} variables is too large; {MAX_ARITY} are possible")
        tokens.skip(arities[-1], "the variables of a factor")
    arities, places = np.array(arities, dtype=np.int64), np.arange(first, tokens.position)
    tokens.position = first
    scopes = _without_sizes(tokens.integers(places.size, "a variable"), arities)
    tokens.check_scopes(arities, scopes, _without_sizes(places, arities), n)
    sizes = entries_of(cardinalities, arities, scopes)
    energies = _energies(tokens, int(min(count + sizes.sum(), tokens.n_left)))
    for number, needed in enumerate(sizes.tolist()):
        size = tokens.integer(f"the size of the table of factor {number}")
        if size != needed:
            tokens.fail(f"the table of factor {number} has {size} entries, its variables need {needed:.0f}")
        tokens.skip(size, f"the table of factor {number}")
    tokens.finish("the last table")
    del tokens  # as large as the model
    energies = _without_sizes(energies, sizes.astype(np.int64))
    model = GraphicalModel.from_flat(cardinalities, arities, scopes, energies)
    if evidence is None:
        return model
    if not isinstance(evidence, Mapping):
        tokens = Tokens(evidence)
        samples = _samples(tokens, cardinalities.tolist())
        if len(samples) != 1:
            tokens.fail(f"there are {len(samples)} samples; use `read_evidence`, and condition on one", 0)
        evidence = samples[0]
    return model.condition(evidence)


def _without_sizes(values: Array, sizes: Array) -> Array:
    """Return the values of lists without the size at the beginning of each list."""
    return np.delete(values, np.cumsum(1 + sizes) - 1 - sizes)


def _energies(tokens: Tokens, count: int) -> Array:
    """Return -ln of the next `count` words, without reading them."""
    values = tokens.numbers(count, "a potential")
    wrong = np.flatnonzero(np.isnan(values) | (np.signbit(values) & (values != 0.0)))
    for i in wrong.tolist():
        tokens.fail(f"a potential is {values[i]:g}, but must be finite and at least 0", tokens.position + i)
    with np.errstate(divide="ignore"):
        energies = 0.0 - np.log(values)
    for i in np.flatnonzero(np.isinf(energies)).tolist():
        word = tokens.at(tokens.position + i).decode()
        try:
            potential = Decimal(word)
        except InvalidOperation:
            tokens.fail(f"the exponent of the potential {word:.40} is too large", tokens.position + i)
        if potential < 0 or potential.is_infinite():
            tokens.fail(f"a potential is {word:.40}, but must be finite and at least 0", tokens.position + i)
        if potential:
            energies[i] = -float(potential.ln())
    return energies


def read_evidence(path_or_file: PathOrFile, model: GraphicalModel) -> list[dict[int, int]]:
    """Read observed states from a file in the format of UAI evidence, for `GraphicalModel.condition`.

    Parameters
    ----------
    path_or_file : str, Path, or file object
        For one sample, the number of observed variables, then pairs of a variable and its state. For several
        samples, the number of samples, then each sample in this form.
    model : GraphicalModel

    Returns
    -------
    list of dict
        The state of each observed variable, for each sample.

    Raises
    ------
    InvalidInputError
        If the file is not in this format, names a variable twice in a sample, or names a variable or a state
        that the model does not have; the message names the line.

    Examples
    --------
    >>> import io
    >>> from cutplane.graphical import GraphicalModel, read_evidence
    >>> read_evidence(io.StringIO("2  1 0 1  2 0 0 1 2"), GraphicalModel([2, 3]))
    [{0: 1}, {0: 0, 1: 2}]
    """
    return _samples(Tokens(path_or_file), model.cardinalities.tolist())


def _samples(tokens: Tokens, cardinalities: list[int]) -> list[dict[int, int]]:
    is_single = tokens.next_is(f"{(tokens.n_left - 1) / 2:g}")
    samples = 1 if is_single else tokens.integer("the number of samples")
    evidence: list[dict[int, int]] = []
    for _ in range(samples):
        observed: dict[int, int] = {}
        for _ in range(tokens.integer("the number of observed variables")):
            u = tokens.integer("an observed variable", high=len(cardinalities))
            if u in observed:
                tokens.fail(f"the variable {u} is observed twice")
            observed[u] = tokens.integer(f"the state of variable {u}", high=cardinalities[u])
        evidence.append(observed)
    tokens.finish("the evidence")
    return evidence


def write_uai(model: GraphicalModel, path_or_file: PathOrFile) -> None:
    r"""Write a model to a file in the UAI format, as a Markov network.

    .. math:: \varphi_A(x_A) = e^{-\theta_A(x_A)}

    An energy of +inf becomes a potential of 0. `read_uai` returns energies with the relative accuracy of a
    float, and an absolute accuracy of about 1e-16 per factor.

    A factor with energies below -700 or above 700 is shifted towards 0. The constant plus all shifts is
    written as factors of one variable with equal potentials, because few programs read factors without
    variables. Therefore `read_uai` returns it as part of the unary costs.

    Parameters
    ----------
    model : GraphicalModel
        The unary costs of a variable are written if they are not all 0.
    path_or_file : str, Path, or file object
        A path that ends with ``.gz`` is compressed. A file object may be open for text or for bytes.

    Raises
    ------
    InvalidInputError
        If a float cannot hold the potentials: the energies of one factor differ by more than 1400, or the
        constant is greater than 7e6.

    See Also
    --------
    read_uai : The reverse.

    Examples
    --------
    >>> import io
    >>> from cutplane.graphical import GraphicalModel, read_uai, write_uai
    >>> file = io.StringIO()
    >>> write_uai(GraphicalModel([2, 2], [((0, 1), [[0, float("inf")], [float("inf"), 0]])]), file)
    >>> print(file.getvalue())
    MARKOV
    2
    2 2
    1
    2 0 1
    <BLANKLINE>
    4
    1.0 0.0 0.0 1.0
    <BLANKLINE>
    >>> file = io.StringIO()
    >>> write_uai(GraphicalModel([2], [((0,), [0, 1200])], constant=5000), file)
    >>> round(read_uai(io.StringIO(file.getvalue())).energy([1]), 9)
    6200.0
    """
    shifts = [_shifts(block) for block in blocks_of(model)]
    total = math.fsum([model.constant, *(shift for block in shifts for shift in block.tolist())])
    flat = np.zeros(1) if model.constant == math.inf else _constants(total)
    scope = [int(model.cardinalities.argmin())] if model.n_variables else []
    size = int(model.cardinalities[scope[0]]) if scope else 1

    def parts() -> Iterator[str]:
        count = sum(block.size for block in shifts) + flat.size
        cardinalities = " ".join(map(str, model.cardinalities.tolist()))
        yield f"MARKOV\n{model.n_variables}\n{cardinalities}\n{count}\n"
        for scopes in (*(block.scopes for block in blocks_of(model)), [scope] * flat.size):
            yield "".join([f"{' '.join(map(str, (len(one), *one)))}\n" for one in scopes])
        yield "\n"
        for block, shift in zip(blocks_of(model), shifts, strict=True):
            words = list(map(repr, np.exp(np.repeat(shift, block.sizes) - block.costs).tolist()))
            yield "".join([f"{end - begin}\n{' '.join(words[begin:end])}\n" for begin, end in block.ends])
        yield "".join([f"{size}\n{' '.join([repr(one)] * size)}\n" for one in flat.tolist()])

    write_text(parts(), path_or_file)


def _shifts(block: FactorBlock) -> Array:
    """Return numbers to subtract from the energies of each factor, so that their exponentials are floats."""
    sizes = np.abs(np.where(np.isfinite(block.costs), block.costs, 0.0))
    shifts = np.zeros(block.sizes.size)
    for i in np.flatnonzero(np.maximum.reduceat(sizes, block.starts) > _LIMIT).tolist():
        table = block.costs[slice(*block.ends[i])]
        low, high = (float(extreme(table[np.isfinite(table)])) for extreme in (np.min, np.max))
        if high - low > 2.0 * _LIMIT:
            raise InvalidInputError(
                f"The factor of the variables {tuple(block.scopes[i])} has energies from {low:g} to "
                f"{high:g}; a UAI file holds exp(-energy), which is a float if they differ by at most "
                f"{2.0 * _LIMIT:g}. Multiply all energies of the model by {2.0 * _LIMIT / (high - low):.2g}, "
                "or make the high ones inf."
            )
        shifts[i] = low + 0.5 * (high - low)
    return shifts


def _constants(constant: float) -> Array:
    """Return potentials whose product is exp(-constant)."""
    if abs(constant) > _LIMIT * _MAX_CONSTANTS:
        raise InvalidInputError(
            f"The constant {constant:g} is too large for a UAI file, which holds exp(-energy); at most "
            f"{_LIMIT * _MAX_CONSTANTS:g} is possible. Subtract a constant from the energies."
        )
    count = math.ceil(abs(constant) / _LIMIT)
    return np.full(count, math.exp(-constant / max(count, 1)))
