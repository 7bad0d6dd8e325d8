"""Reading and writing cost function networks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple, NoReturn

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.files.builder import FactorBlock, ModelBuilder, blocks_of
from cutplane.graphical.files.global_functions import FunctionRequest, add_function
from cutplane.graphical.files.tokens import MAX_ENTRIES
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.text import PathOrFile, read_text, write_text
from cutplane.pieces.validation import Array, as_count

_WORD = re.compile(r'"[^"\n]*"|[{}\[\]]|[^\s,:{}\[\]"]+|"')
_NAMES = frozenset(
    "metric cost bounds values min max nb_states starts ends transitions comparator to vars1 vars2 "
    "defaultcost tuples capacity weights weightedvalues rhs".split()
)
"""Names of parameters, which a file may omit because their order is fixed."""
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_FOR_EACH = frozenset(["clique", "knapsack", "knapsackp"])
"""Keywords whose second parameter is a list with an element for each variable."""


class _List(list[Any]):
    """A list of words and lists, its place in the text, and errors about it."""

    __slots__ = "_name", "_text", "start"

    def __init__(self, name: str, text: str, start: int) -> None:
        super().__init__()
        self._name, self._text, self.start = name, text, start

    def new(self, start: int) -> _List:
        """Return an empty list of the same text."""
        return _List(self._name, self._text, start)

    def word(self, i: int, what: str) -> str:
        """Return the word at place i; an error says that `what` was expected."""
        if isinstance(self[i], _List):
            self.fail(f"expected {what}, got a list", i)
        return self[i].strip('"')

    def number(self, i: int, what: str) -> float:
        """Return the finite number at place i."""
        word = self.word(i, what)
        if not _NUMBER.fullmatch(word) or not math.isfinite(value := float(word)):
            self.fail(f"expected {what}, a finite number, got {word[:40]!r}", i)
        return value

    def integer(self, i: int, what: str) -> int:
        """Return the integer at place i."""
        value = self.number(i, what)
        if value != int(value):
            self.fail(f"expected {what}, an integer, got {self[i][:40]}", i)
        return int(value)

    def numbers(self, what: str) -> Array:
        """Return all words as numbers."""
        return np.array([self.number(i, what) for i in range(len(self))])

    def flat(self) -> _List:
        """Return the words of this list and of the lists in it."""
        words = self.new(self.start)
        for part in self:
            words += part.flat() if isinstance(part, _List) else [part]
        return words

    def fail(self, reason: str, i: int = 0) -> NoReturn:
        """Raise `InvalidInputError` about the word or list at place i."""
        place, depth = self.start, 0
        for match in _WORD.finditer(self._text, self.start):
            if depth == 1 and match[0] not in "}]":
                i -= 1
            depth += (match[0] in "{[") - (match[0] in "}]")
            if i < 0 or depth == 0:
                place = match.start()
                break
        raise InvalidInputError(f"{self._name}, line {self._text.count(chr(10), 0, place) + 1}: {reason}.")


def _parse(path_or_file: PathOrFile) -> _List:
    """Return the words of a file as nested lists; equal words are one object, to save memory."""
    name, text = read_text(path_or_file)
    text = re.sub(r"^#.*", lambda found: " " * len(found[0]), text, flags=re.MULTILINE)
    found, stack, words = _List(name, text, 0), [], {}
    for match in _WORD.finditer(text):
        word = match[0]
        if word in "{[":
            stack.append(found)
            found = found.new(match.start())
            stack[-1].append(found)
        elif word not in "}]":
            found.append(words.setdefault(word, word))
        elif stack:
            found = stack.pop()
        else:
            found.new(match.start()).fail(f"{word!r} has no opening bracket")
    if stack:
        found.fail("a bracket is not closed", -1)
    return found


def read_cfn(path_or_file: PathOrFile) -> GraphicalModel:
    r"""Read a cost function network from a file in the CFN format [1]_, which extends JSON.

    .. math:: E(x) = \sum_A c_A(x_A), \quad \text{or } E(x) = -\sum_A c_A(x_A)
        \text{ if the file says to maximise}

    The file may have names, decimal and negative costs, tables with a default cost, tables shared by name,
    and the cost functions of `read_wcsp` with a keyword.

    Parameters
    ----------
    path_or_file : str, Path, or file object
        A file object may be open for text or for bytes. Contents compressed by gzip or xz are recognised.

    Returns
    -------
    GraphicalModel
        Variables and states are numbered as in the file; auxiliary variables may follow, see `read_wcsp`. A
        cost becomes +inf if all labellings with it violate the bound ``mustbe`` of the file. A labelling with
        many smaller costs may have a finite energy that violates this bound.

    Raises
    ------
    InvalidInputError
        If the file is not in this format, or a keyword is not supported (the message names the line); or if
        its tables need more than 2**27 entries.

    References
    ----------
    .. [1] "CFN format (.cfn suffix)", https://toulbar2.github.io/toulbar2/formats/cfnformat.html

    Examples
    --------
    >>> import io
    >>> from cutplane.graphical import read_cfn
    >>> text = '''{ "problem": {"name": "colours", "mustbe": "<10.0"},
    ... "variables": {"wall": ["red", "blue"], "door": ["red", "blue", "white"]},
    ... "functions": {"taste": {"scope": ["door"], "costs": [0.5, -1.5, 2.5]},
    ...   "differ": {"scope": ["wall", "door"], "defaultcost": 0,
    ...              "costs": ["red", "red", 20, "blue", "blue", 20]}}}'''
    >>> model = read_cfn(io.StringIO(text))
    >>> model.energy([0, 1]), model.energy([1, 1])
    (-1.5, inf)
    """
    text = _parse(path_or_file)
    parts = [part for top in text if isinstance(top, _List) for part in top if isinstance(part, _List)]
    if len(parts) != 3:
        text.fail(f"expected an object with problem, variables and functions, got {len(parts)} lists")
    network = _Network(*parts)
    builder = ModelBuilder([len(states) for states in network.states], text.fail)
    tables = [network.table(function) for function in network.functions if "type" not in function.fields]
    bound = network.bound - sum(table.least for table in tables)  # of the cost minus the least cost
    if any(function.may_be_negative for function in network.functions):
        bound = math.inf  # because it may make up for any cost
    for scope, states, costs in tables:
        costs = np.where(costs - costs.min() >= bound, np.inf, costs)
        if states is None:
            builder.add(scope, costs.reshape(builder.shape(scope)))
        else:
            builder.add_tuples(scope, costs[0], states, costs[1:])
    for function in network.functions:
        if "type" in function.fields:
            network.add_global(function, builder, bound)
    return builder.model()


class _Function(NamedTuple):
    text: _List
    scope: tuple[int, ...]
    fields: dict[str, Any]

    @property
    def may_be_negative(self) -> bool:
        """Whether it has a keyword and a negative parameter, for example the cost of a transition."""
        words = self.fields["params"].flat() if "type" in self.fields else ()
        return any(word.strip('"').startswith("-") for word in words)


class _Costs(NamedTuple):
    """Costs of all tuples, or (with states) the default cost, then the costs of some tuples."""

    scope: tuple[int, ...]
    states: Array | None
    costs: Array

    @property
    def least(self) -> float:
        return float(self.costs.min())


class _Network:
    """The variables and the functions of a file.

    Attributes
    ----------
    sign : float
        -1 if the file says to maximise.
    bound : float
        The energy at which a labelling is infeasible.
    states : list of dict
        The numbers of the named states of each variable.
    functions : list of _Function
    """

    def __init__(self, problem: _List, variables: _List, functions: _List) -> None:
        words = [problem.word(i, "a name or a bound") for i in range(len(problem))]
        bounds = [i for i, word in enumerate(words) if word[:1] in ("<", ">")]
        if len(bounds) != 1 or not _NUMBER.fullmatch(words[bounds[0]][1:]):
            problem.fail('expected one bound, such as "mustbe": "<10.0"')
        self.sign = 1.0 if words[bounds[0]][0] == "<" else -1.0
        self.bound = self.sign * float(words[bounds[0]][1:])
        self._variables: dict[str, int] = {}
        self.states: list[dict[str, int]] = []
        for name, i in _named(variables, _is_number):
            if name in self._variables:
                variables.fail(f"the variable {name!r} is defined twice", i)
            if name:
                self._variables[name] = len(self.states)
            self.states.append(_domain(variables, i))
        self.functions: list[_Function] = []
        self._by_name: dict[str, _Function] = {}
        for name, i in _named(functions, lambda _: False):
            self.functions.append(self._function(functions[i]))
            if name:
                self._by_name[name] = self.functions[-1]

    def _function(self, text: _List) -> _Function:
        names = [text.word(i, "the name of a field") for i in range(0, len(text), 2)]
        fields = dict(zip(names, text[1::2], strict=False))
        fields["params"] = fields.pop("parameters", fields.get("params", text.new(text.start)))
        unknown = fields.keys() - {"scope", "defaultcost", "costs", "type", "params"}
        lists = fields.get("scope"), fields["params"]
        if len(text) % 2 or unknown or not all(isinstance(each, _List) for each in lists):
            text.fail("expected a function with a scope, and costs or a type and params")
        scope = tuple(self.variable(fields["scope"], i) for i in range(len(fields["scope"])))
        if len(set(scope)) != len(scope):
            text.fail("a function names a variable twice")
        return _Function(text, scope, fields)

    def variable(self, text: _List, i: int) -> int:
        """Return the number of a variable, given by its name or by its number."""
        return _numbered(text, i, "variable", self._variables, len(self.states))

    def table(self, function: _Function) -> _Costs:
        """Return the costs of a function without a keyword."""
        text, scope, fields = function
        costs, sizes = fields.get("costs", text.new(text.start)), [len(self.states[u]) for u in scope]
        if not isinstance(costs, _List):
            other = self._by_name.get(costs.strip('"'))
            if other is None or not isinstance(other.fields.get("costs"), _List):
                text.fail(f"there is no function {costs} with a table to share")
            if [len(self.states[u]) for u in other.scope] != sizes:
                text.fail(f"the variables of the function {costs} have other numbers of states")
            return self.table(other)._replace(scope=scope)
        costs, width = costs.flat(), len(scope) + 1
        if "defaultcost" not in fields:
            if len(costs) != math.prod(sizes):
                costs.fail(
                    f"expected {math.prod(sizes)} costs, one for each tuple of states, got {len(costs)}"
                )
            return _Costs(scope, None, self.sign * costs.numbers("a cost"))
        if len(costs) % width:
            costs.fail(f"expected rows of {len(scope)} states and a cost")
        states = [
            [
                _numbered(costs, i + j, "state", self.states[u], len(self.states[u]))
                for j, u in enumerate(scope)
            ]
            for i in range(0, len(costs), width)
        ]
        default = _single(text, fields["defaultcost"]).number(0, "a default cost")
        values = [default, *(costs.number(i, "a cost") for i in range(width - 1, len(costs), width))]
        return _Costs(
            scope, np.array(states, dtype=np.int64).reshape(-1, len(scope)), self.sign * np.array(values)
        )

    def add_global(self, function: _Function, builder: ModelBuilder, bound: float) -> None:
        """Add a function with a keyword."""
        text, scope, fields = function
        keyword = str(fields["type"]).strip('"')
        if self.sign < 0.0:
            text.fail(f"the function {keyword!r} is only possible where the file says to minimise")
        given = _CfnParameters(self, function, keyword)
        add_function(
            FunctionRequest(builder, scope, given, lambda cost: math.inf if cost >= bound else cost), keyword
        )
        given.finish()


def _named(text: _List, is_value: Callable[[str], bool]) -> Iterator[tuple[str, int]]:
    """Yield the names of values, "" for values without a name, and their places; lists are values."""
    name = ""
    for i, part in enumerate(text):
        if isinstance(part, _List) or is_value(part):
            yield name, i
            name = ""
        elif name:
            text.fail(f"{name!r} has no value", i)
        else:
            name = text.word(i, "a name")
    if name:
        text.fail(f"{name!r} has no value", len(text) - 1)


def _single(text: _List, part: Any) -> _List:
    """Return a list of one part of a list."""
    single = text.new(text.start)
    single.append(part)
    return single


def _is_number(word: str) -> bool:
    return _NUMBER.fullmatch(word.strip('"')) is not None


def _numbered(text: _List, i: int, what: str, numbers: dict[str, int], count: int) -> int:
    """Return the number of a variable or of a state, which a word names."""
    name = text.word(i, f"a {what}")
    number = numbers.get(name, -1)
    if number < 0 and _is_number(name):
        number = text.integer(i, f"a {what}")
    if not 0 <= number < count:
        text.fail(f"there is no {what} {name!r}", i)
    return number


def _domain(text: _List, i: int) -> dict[str, int]:
    """Return the numbers of the states of a variable by their names."""
    if isinstance(text[i], _List):
        names = [text[i].word(j, "the name of a state") for j in range(len(text[i]))]
    else:
        size = abs(text.integer(i, "a number of states"))
        if size > MAX_ENTRIES:
            text.fail(f"a variable has {size} states, which is more than {MAX_ENTRIES}", i)
        names = list(map(str, range(size)))
    if len(set(names)) != len(names) or not names:
        text.fail("a variable must have at least one state, and no name twice", i)
    return {name: j for j, name in enumerate(names)}


class _CfnParameters:
    """The parameters of a function with a keyword, in their order; their names are skipped."""

    def __init__(self, network: _Network, function: _Function, keyword: str) -> None:
        self._network, self._scope = network, function.scope
        params: _List = function.fields["params"]
        self._params = params.new(params.start)
        self._params += [part for part in params if isinstance(part, _List) or part.strip('"') not in _NAMES]
        if keyword in _FOR_EACH and len(self._params) == 2 and isinstance(self._params[1], _List):
            self._params[1:] = self._params[1]

    def keyword(self, name: str, allowed: Sequence[str]) -> str:
        word = self._next(name).word(0, name)
        if word not in allowed:
            self.fail(f"expected {name}, one of {', '.join(allowed)}, got {word!r}")
        return word

    def cost(self, name: str) -> float:
        return self._next(name).number(0, name)

    def count(self, name: str) -> int:
        return self._next(name).integer(0, name)

    def rows(self, name: str, kinds: str) -> list[Any]:
        flat, width = self._next(name).flat(), len(kinds)
        if len(flat) % width:
            flat.fail(f"expected {name}, rows of {width} numbers")
        read = {"i": flat.integer, "c": flat.number}
        values = [read[kinds[i % width]](i, name) for i in range(len(flat))]
        return values if width == 1 else [tuple(values[i : i + width]) for i in range(0, len(values), width)]

    def halves(self) -> tuple[Sequence[int], Sequence[int]]:
        lists = [self._next("a list of variables").flat() for _ in range(2)]
        first, second = ([self._network.variable(part, i) for i in range(len(part))] for part in lists)
        if not {*first, *second} <= set(self._scope):
            self.fail("the two lists name a variable that is not in the scope")
        return first, second

    def finish(self) -> None:
        """Fail if there are more parameters."""
        if self._params:
            self.fail("there are more parameters than the function has")

    def fail(self, reason: str) -> NoReturn:
        self._params.fail(reason)

    def _next(self, name: str) -> _List:
        """Return a list of the next parameter."""
        if not self._params:
            self.fail(f"expected {name}")
        return _single(self._params, self._params.pop(0))


def write_cfn(model: GraphicalModel, path_or_file: PathOrFile, precision: int = 6) -> None:
    r"""Write a model to a file in the CFN format, with variables x0, x1, ... and unnamed states.

    Parameters
    ----------
    model : GraphicalModel
    path_or_file : str, Path, or file object
        A path that ends with ``.gz`` is compressed. A file object may be open for text or for bytes.
    precision : int, default 6
        Digits of costs after the decimal point, from 0 to 15. Other programs may compute with this precision;
        `read_cfn` does not.

    Raises
    ------
    InvalidInputError
        If `precision` is out of range.

    See Also
    --------
    read_cfn : The reverse. Energies agree up to half a unit of the last digit for each factor.

    Examples
    --------
    >>> import io
    >>> from cutplane.graphical import GraphicalModel, write_cfn
    >>> file = io.StringIO()
    >>> inf = float("inf")
    >>> write_cfn(GraphicalModel([2, 2], [((0, 1), [[0, 1.5], [inf, 0]]), ((0,), [1, 0])]), file, 1)
    >>> print(file.getvalue())
    {"problem": {"name": "model", "mustbe": "<3.5"},
     "variables": {"x0": 2, "x1": 2},
     "functions": {
      "f0": {"scope": [], "costs": [0.0]},
      "f1": {"scope": ["x0"], "costs": [1.0, 0.0]},
      "f2": {"scope": ["x0", "x1"], "costs": [0.0, 1.5, 4.5, 0.0]}
     }}
    <BLANKLINE>
    """
    digits = as_count("precision", precision, low=0)
    if digits > 15:
        raise InvalidInputError(f"precision must be at most 15, got {precision}.")

    def blocks() -> Iterator[FactorBlock]:
        yield FactorBlock([[]], np.round([model.constant], digits), np.zeros(1, dtype=np.int64))
        for block in blocks_of(model):
            yield block._replace(costs=np.round(block.costs, digits))

    lows, highs = [], [1.0]
    for block in blocks():
        finite = np.isfinite(block.costs)
        has_finite = np.logical_or.reduceat(finite, block.starts)
        low, high = (
            extreme.reduceat(np.where(finite, block.costs, other), block.starts)[has_finite]
            for extreme, other in ((np.minimum, np.inf), (np.maximum, -np.inf))
        )
        lows += low.tolist()
        highs += high.tolist()
    bound = math.fsum(highs)
    forbidden = 1.0 + bound + max(0.0, max(lows, default=0.0) - sum(lows))  # explained in `read_cfn`

    def parts() -> Iterator[str]:
        variables = ", ".join([f'"x{u}": {k}' for u, k in enumerate(model.cardinalities.tolist())])
        yield f'{{"problem": {{"name": "model", "mustbe": "<{min(bound, forbidden):.{digits}f}"}},\n'
        yield f' "variables": {{{variables}}},\n "functions": {{\n'
        numbers, separator = count(), ""
        for block in blocks():
            words = [f"{cost:.{digits}f}" for cost in np.minimum(block.costs, forbidden).tolist()]
            functions = []
            for scope, (begin, end) in zip(block.scopes, block.ends, strict=True):
                names = ", ".join([f'"x{u}"' for u in scope])
                costs = ", ".join(words[begin:end])
                functions.append(f'  "f{next(numbers)}": {{"scope": [{names}], "costs": [{costs}]}}')
            yield separator + ",\n".join(functions)
            separator = ",\n"
        yield "\n }}\n"

    write_text(parts(), path_or_file)
