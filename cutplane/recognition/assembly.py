"""The pieces of a problem, put together from the terms of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cutplane.problem import Problem
from cutplane.recognition.constraints import feasible_set
from cutplane.recognition.images import has_matrix
from cutplane.recognition.regularizers import Penalty
from cutplane.recognition.risks import bias_sign, linear_costs, linear_risk
from cutplane.recognition.scores import multiclass_risk
from cutplane.recognition.stack import Stack
from cutplane.recognition.terms import Reading, read
from cutplane.regularizers.base import Regularizer
from cutplane.regularizers.cvxpy import CvxpyRegularizer
from cutplane.regularizers.none import NoRegularizer
from cutplane.risks.base import Risk
from cutplane.risks.combination import WeightedSum
from cutplane.risks.cvxpy import CvxpyRisk
from cutplane.risks.objective import LinearObjective


def assembled(model: Any, sign: float) -> tuple[Problem, float, tuple[Any, ...], Stack]:
    """Return the problem, the constant it leaves out, the terms that cvxpy evaluates, and the variables."""
    reading = read(model.objective.expr, sign)
    stack = _stacked(model.variables(), reading)
    penalty, risks, constant = Penalty(stack), [], reading.constant
    costs, others = np.zeros(stack.dim), list(reading.others)
    remaining = list(reading.rows)
    for scores in reading.scores:
        likelihood = multiclass_risk(scores, remaining, stack)
        if likelihood is None:
            others.append(scores.expression)
        else:
            risks.append(likelihood[0])
            remaining = [rows for rows in remaining if rows is not likelihood[1]]
    for rows in remaining:
        if rows.is_linear:
            slope, height = linear_costs(rows, stack)
            costs += slope
            constant += height
        elif not rows.image.has_data:
            if not penalty.takes(rows):
                others.append(rows.expression)
        elif (found := linear_risk(rows, stack)) is not None:
            risks.append(found[0])
            constant += found[1]
        else:
            others.append(rows.expression)
    others += [weight * form for weight, form in reading.quadratics if not penalty.takes_form(weight, form)]
    regularizer = penalty.regularizer()
    if costs.any() or not (risks or others):
        risks.append(LinearObjective(costs))
    regularizer, left = _regularizer(regularizer, others, stack, bool(risks))
    if left:
        risks.append(CvxpyRisk(stack.substituted(sum(left[1:], start=left[0])), stack.variable))
    risk: Risk = risks[0] if len(risks) == 1 else WeightedSum.of(*((1.0, risk) for risk in risks))
    problem = Problem(risk, regularizer, feasible_set(model.constraints, stack))
    return problem, constant + penalty.constant, tuple(others), stack


def _stacked(variables: Sequence[Any], reading: Reading) -> Stack:
    """Return the variables in the order in which a bias is an intercept: last, and with the sign it has."""
    biases = [bias for rows in reading.rows if (bias := bias_sign(rows.image)) is not None]
    last = biases[0][0] if biases else None
    first = [variable for variable in variables if variable is not last]
    if last is None:
        return Stack(first)
    return Stack([*first, last], [last] if biases[0][1] < 0.0 else [])


def _regularizer(
    found: Regularizer | None, others: list[Any], stack: Stack, has_risk: bool
) -> tuple[Regularizer, list[Any]]:
    """Return the regularizer, and the terms that remain: a single one without data may be it."""
    plain = [term for term in others if not has_matrix(term)]
    if found is not None or len(plain) != 1 or (len(others) == 1 and not has_risk):
        return found or NoRegularizer(), others
    rest = [term for term in others if term is not plain[0]]
    return CvxpyRegularizer(stack.substituted(plain[0]), stack.variable), rest
