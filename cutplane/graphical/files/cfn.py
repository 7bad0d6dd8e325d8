"""Reading and writing cost function networks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.files.builder import ModelBuilder, factors_of
from cutplane.graphical.files.global_functions import Request, add_function
from cutplane.graphical.files.tokens import MAX_ENTRIES
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.text import PathOrFile, read_text, write_text
from cutplane.pieces.validation import Array, as_count

_WORD = re.compile(r'"[^"\n]*"|[{}\[\]]|[^\s,:{}\[\]"]+|"')
_NAMES = frozenset(
    "metric cost bounds values min max nb_states starts ends transitions comparator to vars1 vars2 "
    "defaultcost tuples capacity weights weightedvalues rhs".split()
)
"""Names of parameters, which a file may leave out because their order is fixed."""
_FOR_EACH = frozenset(["clique", "knapsack", "knapsackp"])
"""Keywords whose second parameter is a list with an element for each variable."""


class _Node(list[Any]):
    """A list of words and lists, and the number of the word with which it begins."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at


class _Words:
    """The words of a file; a word in lists is given by its number."""

    def __init__(self, path_or_file: PathOrFile) -> None:
        self.name, text = read_text(path_or_file)
        text = re.sub(r"^#.*", lambda found: " " * len(found[0]), text, flags=re.MULTILINE)
        self._text = text
        found = list(_WORD.finditer(text))
        self.words = [match[0].strip('"') for match in found]
        self._starts = [match.start() for match in found]
        self._is_bracket = [match[0] in "{}[]" for match in found]

    def tree(self) -> _Node:
        """Return the words as nested lists."""
        stack = [_Node(0)]
        for i, (word, is_bracket) in enumerate(zip(self.words, self._is_bracket, strict=True)):
            if not is_bracket:
                stack[-1].append(i)
            elif word in "{[":
                stack[-1].append(_Node(i))
                stack.append(stack[-1][-1])
            elif len(stack) > 1:
                stack.pop()
            else:
                self.fail(f"{word!r} closes nothing", i)
        if len(stack) > 1:
            self.fail("a bracket is not closed", stack[-1].at)
        return stack[0]

    def word(self, node: Any, name: str) -> str:
        """Return a word."""
        if isinstance(node, _Node):
            self.fail(f"expected {name}, got a list", node)
        return self.words[node]

    def number(self, node: Any, name: str, skip: int = 0) -> float:
        """Return a finite number, which follows so many characters of a word."""
        word = self.word(node, name)
        try:
            value = float(word[skip:].replace("_", "?"))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            self.fail(f"expected {name}, a finite number, got {word[:40]!r}", node)
        return value

    def integer(self, node: Any, name: str) -> int:
        """Return an integer."""
        value = self.number(node, name)
        if value != int(value):
            self.fail(f"expected {name}, an integer, got {self.words[node][:40]!r}", node)
        return int(value)

    def is_number(self, node: Any) -> bool:
        return not isinstance(node, _Node) and self.words[node][:1] in "0123456789-.+"

    def fail(self, reason: str, node: Any = None) -> NoReturn:
        """Raise `InvalidInputError` about a word or a list."""
        at = node.at if isinstance(node, _Node) else node
        where = (
            len(self._text)
            if at is None or not self._starts
            else self._starts[min(at, len(self._starts) - 1)]
        )
        raise InvalidInputError(f"{self.name}, line {self._text.count(chr(10), 0, where) + 1}: {reason}.")


def read_cfn(path_or_file: PathOrFile) -> GraphicalModel:
    r"""Read a cost function network from a file in the CFN format [1]_, which extends JSON.

    .. math:: E(x) = \sum_A c_A(x_A), \quad \text{or } E(x) = -\sum_A c_A(x_A)
        \text{ where the file says to maximise}

    Names, decimal and negative costs, tables with a default cost, tables that are shared by their names, and
    the cost functions by keywords of `read_wcsp` are read.

    Parameters
    ----------
    path_or_file : str, Path, or file object
        A file object may be open for text or for bytes. Contents compressed by gzip or xz are recognised.

    Returns
    -------
    GraphicalModel
        Variables and states are numbered as in the file; auxiliary variables may follow, see `read_wcsp`. A
        cost that no labelling within the bound ``mustbe`` of the file can have becomes +inf; a labelling of
        small costs may have a finite energy beyond the bound.

    Raises
    ------
    InvalidInputError
        If the file is not in this format or a keyword is not supported, the message names the line; or if its
        tables need more than 2**27 entries.

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
    words = _Words(path_or_file)
    parts = [
        node for top in words.tree() if isinstance(top, _Node) for node in top if isinstance(node, _Node)
    ]
    if len(parts) != 3:
        words.fail(f"expected an object with problem, variables and functions, got {len(parts)} lists")
    network = _Network(words, *parts)
    builder = ModelBuilder([len(states) for states in network.states], words.fail)
    tables = [table for function in network.functions if (table := network.table(function))]
    bound = network.bound - sum(table.least for table in tables)  # of what a cost is above the least one
    for table in tables:
        costs = table.costs.copy()
        costs[costs - table.least >= bound] = np.inf
        if table.states is None:
            builder.add(table.scope, costs.reshape(builder.shape(table.scope)))
        else:
            builder.add_tuples(table.scope, costs[0], table.states, costs[1:])
    for function in network.functions:
        if "type" in function.fields:
            network.add_global(function, builder, bound)
    return builder.model()


class _Function(NamedTuple):
    node: _Node
    scope: tuple[int, ...]
    fields: dict[str, Any]


class _Table(NamedTuple):
    """Costs of all tuples, or (with states) the default cost, then the costs of some tuples."""

    scope: tuple[int, ...]
    states: Array | None
    costs: Array

    @property
    def least(self) -> float:
        return float(self.costs.min(initial=0.0 if self.costs.size == 0 else math.inf))


class _Network:
    """The variables and the functions of a file.

    Attributes
    ----------
    sign : float
        -1 where the file says to maximise.
    bound : float
        The energy at which a labelling is infeasible.
    states : list of dict
        The numbers of the named states of each variable.
    functions : list of _Function
    """

    def __init__(self, words: _Words, problem: _Node, variables: _Node, functions: _Node) -> None:
        self._words = words
        bounds = [i for i in problem if not isinstance(i, _Node) and words.words[i][:1] in ("<", ">")]
        if len(bounds) != 1:
            words.fail('expected one bound, such as "mustbe": "<10.0"', problem)
        self.sign = 1.0 if words.words[bounds[0]][0] == "<" else -1.0
        self.bound = self.sign * words.number(bounds[0], "the bound", skip=1)
        self._variables: dict[str, int] = {}
        self.states: list[dict[str, int]] = []
        for name, node in self._named(
            variables, lambda node: isinstance(node, _Node) or words.is_number(node)
        ):
            if name in self._variables:
                words.fail(f"the variable {name!r} is defined twice", node)
            if name:
                self._variables[name] = len(self.states)
            self.states.append(self._domain(node))
        self.functions: list[_Function] = []
        self._tables: dict[str, _Function] = {}
        for name, node in self._named(functions, lambda node: isinstance(node, _Node)):
            self.functions.append(self._function(node))
            if name:
                self._tables[name] = self.functions[-1]

    def _named(self, nodes: _Node, is_value: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
        """Yield values with their names, "" for those that have none."""
        name = ""
        for node in nodes:
            if is_value(node):
                yield name, node
                name = ""
            elif isinstance(node, _Node) or name:
                self._words.fail("expected a value of the name before", node)
            else:
                name = self._words.words[node]
        if name:
            self._words.fail(f"{name!r} has no value", nodes)

    def _domain(self, node: Any) -> dict[str, int]:
        if isinstance(node, _Node):
            names = [self._words.word(i, "the name of a state") for i in node]
        else:
            size = abs(self._words.integer(node, "a number of states"))
            if size > MAX_ENTRIES:
                self._words.fail(f"a variable has {size} states, which is more than {MAX_ENTRIES}", node)
            names = list(map(str, range(size)))
        if len(set(names)) != len(names) or not names:
            self._words.fail("a variable must have at least one state, and none twice", node)
        return {name: i for i, name in enumerate(names)}

    def _function(self, node: _Node) -> _Function:
        fields: dict[str, Any] = {}
        for name, value in zip(node[::2], node[1::2], strict=False):
            fields[self._words.word(name, "the name of a field").replace("params", "parameters")] = value
        unknown = fields.keys() - {"scope", "defaultcost", "costs", "type", "parameters"}
        if len(node) % 2 or unknown or not isinstance(fields.get("scope"), _Node):
            self._words.fail("expected a function with a scope, and costs or a type and params", node)
        return _Function(node, tuple(self.variable(i) for i in fields["scope"]), fields)

    def variable(self, node: Any) -> int:
        """Return the number of a variable that is given by its name or by its number."""
        name = self._words.word(node, "a variable")
        u = self._variables.get(name, -1)
        if u < 0 and self._words.is_number(node):
            u = self._words.integer(node, "a variable")
        if not 0 <= u < len(self.states):
            self._words.fail(f"there is no variable {name!r}", node)
        return u

    def _state(self, u: int, node: Any) -> int:
        name = self._words.word(node, "a state")
        x = self.states[u].get(name, -1)
        if x < 0 and self._words.is_number(node):
            x = self._words.integer(node, "a state")
        if not 0 <= x < len(self.states[u]):
            self._words.fail(f"variable {u} has no state {name!r}", node)
        return x

    def table(self, function: _Function) -> _Table | None:
        """Return the costs of a function, None if it has a keyword."""
        node, scope, fields = function
        if "type" in fields:
            return None
        if len(set(scope)) != len(scope):
            self._words.fail("a function names a variable twice", node)
        costs, sizes = fields.get("costs"), [len(self.states[u]) for u in scope]
        if costs is not None and not isinstance(costs, _Node):
            return self._shared(function, sizes)
        default = fields.get("defaultcost")
        if default is None:
            if costs is None or len(costs) != math.prod(sizes):
                self._words.fail(
                    f"expected {math.prod(sizes)} costs, one for each tuple of states", costs or node
                )
            return _Table(scope, None, self.sign * self._numbers(costs))
        flat, width = _flat(costs or []), len(scope) + 1
        if len(flat) % width:
            self._words.fail(f"expected rows of {len(scope)} states and a cost", costs)
        states = [self._state(scope[i % width], flat[i]) for i in range(len(flat)) if i % width < len(scope)]
        values = self.sign * self._numbers([default, *flat[len(scope) :: width]])
        return _Table(scope, np.array(states, dtype=np.int64).reshape(-1, len(scope)), values)

    def _shared(self, function: _Function, sizes: list[int]) -> _Table:
        name = self._words.word(function.fields["costs"], "the name of a function")
        other = self._tables.get(name)
        if other is None or not isinstance(other.fields.get("costs"), _Node):
            self._words.fail(f"there is no function {name!r} with a table to share", function.node)
        table = self.table(other)
        if table is None or [len(self.states[u]) for u in other.scope] != sizes:
            self._words.fail(
                f"the variables of the function {name!r} have other numbers of states", function.node
            )
        return table._replace(scope=function.scope)

    def _numbers(self, nodes: Sequence[Any]) -> Array:
        return np.array([self._words.number(node, "a cost") for node in nodes])

    def add_global(self, function: _Function, builder: ModelBuilder, bound: float) -> None:
        """Add a function with a keyword."""
        node, scope, fields = function
        keyword = self._words.word(fields["type"], "the keyword of a function")
        if self.sign < 0.0:
            self._words.fail(
                f"the function {keyword!r} is only possible where the file says to minimise", node
            )
        given = _Parameters(self._words, self, scope, fields.get("parameters") or _Node(node.at), keyword)
        add_function(
            Request(builder, scope, given, lambda cost: math.inf if cost >= bound else cost), keyword
        )
        given.finish()


class _Parameters:
    """The parameters of a function with a keyword, in their order; their names are skipped."""

    def __init__(
        self, words: _Words, network: _Network, scope: Sequence[int], node: _Node, keyword: str
    ) -> None:
        self._words, self._network, self._scope, self._node = words, network, scope, node
        self._nodes = [i for i in node if isinstance(i, _Node) or words.words[i] not in _NAMES]
        if keyword in _FOR_EACH and len(self._nodes) == 2 and isinstance(self._nodes[1], _Node):
            self._nodes[1:] = self._nodes[1]

    def keyword(self, name: str, allowed: Sequence[str]) -> str:
        node = self._next(name)
        word = self._words.word(node, name)
        if word not in allowed:
            self._words.fail(f"expected {name}, one of {', '.join(allowed)}, got {word!r}", node)
        return word

    def cost(self, name: str) -> float:
        return self._words.number(self._next(name), name)

    def count(self, name: str) -> int:
        return self._words.integer(self._next(name), name)

    def rows(self, name: str, kinds: str) -> list[Any]:
        node = self._next(name)
        flat, width = _flat(node) if isinstance(node, _Node) else [node], len(kinds)
        if len(flat) % width:
            self._words.fail(f"expected {name}, rows of {width} numbers", node)
        read = {"i": self._words.integer, "c": self._words.number}
        values = [read[kinds[i % width]](part, name) for i, part in enumerate(flat)]
        return values if width == 1 else [tuple(values[i : i + width]) for i in range(0, len(values), width)]

    def halves(self) -> tuple[Sequence[int], Sequence[int]]:
        lists = [self._next("a list of variables") for _ in range(2)]
        first, second = ([self._network.variable(i) for i in _flat(node)] for node in lists)
        if not {*first, *second} <= set(self._scope):
            self._words.fail("the two lists name a variable that is not in the scope", self._node)
        return first, second

    def finish(self) -> None:
        """Fail if there are more parameters."""
        if self._nodes:
            self._words.fail("there are more parameters than the function has", self._nodes[0])

    def fail(self, reason: str) -> NoReturn:
        self._words.fail(reason, self._node)

    def _next(self, name: str) -> Any:
        if not self._nodes:
            self._words.fail(f"expected {name}", self._node)
        return self._nodes.pop(0)


def _flat(node: Any) -> list[Any]:
    """Return the words of a list and of the lists in it."""
    if not isinstance(node, list):
        return [node]
    return [word for part in node for word in (_flat(part) if isinstance(part, list) else [part])]


def write_cfn(model: GraphicalModel, path_or_file: PathOrFile, precision: int = 6) -> None:
    r"""Write a model to a file in the CFN format, with variables x0, x1, ... and unnamed states.

    Parameters
    ----------
    model : GraphicalModel
    path_or_file : str, Path, or file object
        A path that ends with ``.gz`` is compressed. A file object may be open for text or for bytes.
    precision : int, default 6
        Digits of costs after the decimal point, from 0 to 15. Readers of the format may compute with so many
        digits; `read_cfn` does not.

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
      "f2": {"scope": ["x0", "x1"], "costs": [0.0, 1.5, 3.5, 0.0]}
     }}
    <BLANKLINE>
    """
    digits = as_count("precision", precision, low=0)
    if digits > 15:
        raise InvalidInputError(f"precision must be at most 15, got {precision}.")
    factors = [((), np.array(model.constant)), *factors_of(model)]
    finite = [table[np.isfinite(table)] for _, table in factors]
    lows = [float(costs.min(initial=math.inf)) for costs in finite if costs.size]
    bound = 1.0 + sum(float(costs.max()) for costs in finite if costs.size)
    forbidden = bound + max(0.0, max(lows, default=0.0) - sum(lows))  # `read_cfn` says why

    def written(cost: float) -> str:
        return f"{min(cost, forbidden):.{digits}f}"

    variables = ", ".join(f'"x{u}": {k}' for u, k in enumerate(model.cardinalities.tolist()))
    functions = []
    for i, (scope, table) in enumerate(factors):
        names = ", ".join(f'"x{u}"' for u in scope)
        costs = ", ".join(map(written, np.ravel(table).tolist()))
        functions.append(f'  "f{i}": {{"scope": [{names}], "costs": [{costs}]}}')
    lines = [
        f'{{"problem": {{"name": "model", "mustbe": "<{written(bound)}"}},',
        f' "variables": {{{variables}}},',
        ' "functions": {',
        ",\n".join(functions),
        " }}",
    ]
    write_text("\n".join(lines) + "\n", path_or_file)
