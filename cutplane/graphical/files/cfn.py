"""Reading and writing cost function networks."""

from __future__ import annotations

import math
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, NoReturn

import numpy as np

from cutplane.graphical.files.builder import FactorBlock, ModelBuilder, SparseTables, as_digits, blocks_of
from cutplane.graphical.files.global_functions import KEYWORDS, KeywordFunction, add_function
from cutplane.graphical.files.tokens import MAX_ENTRIES, Words, shown
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.text import PathOrFile, write_text
from cutplane.pieces.validation import Array

_NAMES = frozenset(
    b"metric cost bounds values min max nb_states starts ends transitions comparator to vars1 vars2 "
    b"defaultcost tuples capacity weights weightedvalues rhs".replace(b"_", b"\xff").split()
)
"""Names of parameters, which a file may omit because their order is fixed."""
_OPEN = ord("[")
_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


class _Lists(Words):
    """The words of a file as nested lists; the number of a list is the number of its opening bracket.

    `structure` has "w" for each word, "[" and "]" for brackets of both kinds; `ends` has the number of the
    closing bracket of each opening one, and `levels` the number of lists around each word or bracket.
    """

    def __init__(self, path_or_file: PathOrFile) -> None:
        super().__init__(path_or_file, comments=rb"^#.*", nested=True)
        kinds = np.full(256, ord("w"), dtype=np.uint8)
        kinds[list(b"[{")], kinds[list(b"]}")] = _OPEN, ord("]")
        kinds = kinds[np.frombuffer(self._text, dtype=np.uint8)[self._starts[:-1]]]
        opens = kinds == _OPEN
        self.levels = np.cumsum(opens.astype(np.int8) - (kinds == ord("]")), dtype=np.int32)
        if self.levels.min(initial=0) < 0:
            place = int(np.argmax(self.levels < 0))
            self.fail(f"{shown(self.at(place))!r} has no opening bracket", place)
        if self.levels[-1:].any():
            place = np.flatnonzero(opens & (self.levels == self.levels[-1]))[-1]
            self.fail("a bracket is not closed", int(place))
        self.levels -= opens
        brackets = np.flatnonzero(kinds != ord("w"))
        pairs = brackets[np.argsort(self.levels[brackets], kind="stable")].reshape(-1, 2)
        self.ends = np.zeros(self.n_words, dtype=np.int32)
        self.ends[pairs[:, 0]] = pairs[:, 1]
        self.structure = kinds.tobytes()

    def is_list(self, i: int) -> bool:
        return self.structure[i] == _OPEN

    def parts(self, i: int) -> Array:
        """Return the words and the lists in a list."""
        inner = slice(i + 1, int(self.ends[i]))
        kinds = np.frombuffer(self.structure, dtype=np.uint8)[inner]
        return i + 1 + np.flatnonzero((self.levels[inner] == self.levels[i] + 1) & (kinds != ord("]")))

    def flat(self, i: int) -> Array:
        """Return the words in a list and in its lists, or the one word."""
        end = max(i + 1, int(self.ends[i]))
        return i + np.flatnonzero(np.frombuffer(self.structure, dtype=np.uint8)[i:end] == ord("w"))

    def words(self, places: Array) -> Iterator[bytes]:
        for begin, end in zip(self._starts[places].data, self._starts[places + 1].data, strict=True):
            yield self._text[begin:end].rstrip(self._spaces).strip(b'"')

    def word(self, i: int, what: str) -> bytes:
        if self.is_list(i):
            self.fail(f"expected {what}, got a list", i)
        return self.at(i).strip(b'"')

    def number(self, i: int, what: str) -> float:
        word = self.word(i, what)
        if not _NUMBER.fullmatch(word) or not math.isfinite(value := float(word)):
            self.fail(f"expected {what}, a finite number, got {shown(word)!r}", i)
        return value

    def integer(self, i: int, what: str) -> int:
        value = self.number(i, what)
        if value != int(value):
            self.fail(f"expected {what}, an integer, got {shown(self.at(i))}", i)
        return int(value)

    def numbers(self, places: Array, what: str) -> Array:
        try:
            values = np.fromiter(map(float, self.words(places)), np.float64, places.size)
        except ValueError:
            values = np.array(math.nan)
        if not np.isfinite(values).all():
            values = np.array([self.number(i, what) for i in places.tolist()])
        return values

    def numbered(self, i: int, what: str, numbers: dict[bytes, int], count: int) -> int:
        """Return the number of a variable or of a state, which a word names."""
        name = self.word(i, f"a {what}")
        number = numbers.get(name, -1)
        if number < 0 and _NUMBER.fullmatch(name):
            number = self.integer(i, f"a {what}")
        if not 0 <= number < count:
            self.fail(f"there is no {what} {shown(name)!r}", i)
        return number

    def named(
        self, i: int, is_value: Callable[[bytes], Any] = lambda _: False
    ) -> Iterator[tuple[bytes, int]]:
        """Yield the names of the values in a list, b"" for values without a name; lists are values."""
        name, places = b"", self.parts(i)
        for place, word in zip(places.data, self.words(places), strict=True):
            if self.is_list(place) or is_value(word):
                yield name, place
                name = b""
            elif name:
                self.fail(f"{shown(name)!r} has no value", place)
            else:
                name = word
        if name:
            self.fail(f"{shown(name)!r} has no value", int(self.ends[i]))


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
    text = _Lists(path_or_file)
    lists = [i for i in np.flatnonzero(text.levels == 1).tolist() if text.is_list(i)]
    if len(lists) != 3:
        text.fail(f"expected an object with problem, variables and functions, got {len(lists)} lists", 0)
    builder = _Network(text, *lists).builder
    del text  # as large as the model
    return builder.model()


class _Network:
    """Adds the variables and the functions of a file to a model."""

    def __init__(self, text: _Lists, problem: int, variables: int, functions: int) -> None:
        self.text = text
        words = [text.word(i, "a name or a bound") for i in text.parts(problem).tolist()]
        bounds = [word for word in words if word[:1] in (b"<", b">")]
        if len(bounds) != 1 or not _NUMBER.fullmatch(bounds[0][1:]):
            text.fail('expected one bound, such as "mustbe": "<10.0"', problem)
        self._sign = 1.0 if bounds[0].startswith(b"<") else -1.0
        self._variables: dict[bytes, int] = {}
        self._states: dict[int, dict[bytes, int]] = {}
        self._shared: list[tuple[Array, Array, int]] = []
        sizes: list[int] = []
        for name, i in text.named(variables, _NUMBER.fullmatch):
            if name in self._variables:
                text.fail(f"the variable {shown(name)!r} is defined twice", i)
            if name:
                self._variables[name] = len(sizes)
            sizes.append(self._size(i, len(sizes)))
        text.check_states(sum(sizes), variables)
        self._cardinalities = np.array(sizes, dtype=np.int64)
        self.builder = ModelBuilder(sizes, partial(text.fail, number=functions))
        keywords = list(self._add_tables([i for _, i in text.named(functions)]))
        self._add_shared({name: i for name, i in text.named(functions) if name})
        params = (text.flat(i) for *_, params in keywords for i in params)
        negative = any(word.startswith(b"-") for words in params for word in text.words(words))
        bound = math.inf if negative else self._sign * float(bounds[0][1:])  # they make up for any cost
        bound = self.builder.forbid_above(bound)
        for i, scope, keyword, params in keywords:
            if self._sign < 0.0:
                text.fail(f"the function {keyword!r} is only possible where the file says to minimise", i)
            function = _CfnFunction(self, i, scope, keyword, params, bound)
            add_function(function, keyword)
            function.finish()

    def _size(self, i: int, u: int) -> int:
        """Return the number of states of variable u, and keep their names."""
        if not self.text.is_list(i):
            size = abs(self.text.integer(i, "a number of states"))
            if size > MAX_ENTRIES:
                self.text.fail(f"a variable has {size} states, which is more than {MAX_ENTRIES}", i)
        else:
            names = [self.text.word(j, "the name of a state") for j in self.text.parts(i).tolist()]
            numbers = self._states[u] = {name: j for j, name in enumerate(names)}
            size = len(names) if len(names) == len(numbers) else 0
        if not size:
            self.text.fail("a variable must have at least one state, and no name twice", i)
        return size

    def variables(self, places: Array) -> Array:
        """Return the numbers of variables, each given by its name or by its number."""
        words, n = self.text.words(places.ravel()), self._cardinalities.size
        numbers = np.fromiter((self._variables.get(word, -1) for word in words), np.int64, places.size)
        for i in np.flatnonzero(numbers < 0).tolist():
            numbers[i] = self.text.numbered(int(places.flat[i]), "variable", self._variables, n)
        return numbers.reshape(places.shape)

    def _add_tables(self, functions: list[int]) -> Iterator[tuple[int, list[int], str, list[int]]]:
        """Add functions with tables; yield place, scope, keyword and parameters of functions by keyword."""
        text = self.text
        for places, _, fields in self._alike(functions):
            scopes, costs = self._scopes(places, fields), fields.get(b"costs", 0)
            if b"type" in fields:
                keywords, at = text.words(places + fields[b"type"]), fields.get(b"params")
                for i, scope, keyword in zip(places.tolist(), scopes.tolist(), keywords, strict=True):
                    yield i, scope, shown(keyword), [] if at is None else text.parts(i + at).tolist()
            elif costs and not text.is_list(places[0] + costs):
                self._shared.append((places, scopes, costs))
            else:
                self._add_costs(places, fields, scopes)

    def _add_shared(self, named: dict[bytes, int]) -> None:
        """Add functions whose tables are the tables of functions with these names."""
        text = self.text
        for places, scopes, costs in self._shared:
            owners = [named.get(word, int(places[0])) for word in text.words(places + costs)]
            for alike, rows, fields in self._alike(owners):
                user = int(places[rows[0]])
                name = f"the function {shown(text.at(user + costs))}"
                if not fields.get(b"costs") or not text.is_list(alike[0] + fields[b"costs"]):
                    text.fail(f"there is no {name[4:]} with a table to share", user)
                shapes = self._cardinalities[scopes[rows]], self._cardinalities[self._scopes(alike, fields)]
                if not np.array_equal(shapes[0], shapes[1]):
                    text.fail(f"the variables of {name} have other numbers of states", user)
                self._add_costs(alike, fields, scopes[rows])

    def _alike(self, functions: list[int]) -> Iterator[tuple[Array, Array, dict[bytes, int]]]:
        """Yield functions with the same brackets and fields, their rows, and relative places of fields."""
        text, groups = self.text, defaultdict(list)
        for row, i in enumerate(functions):
            groups[text.structure[i : text.ends[i]]].append(row)
        for group in groups.values():
            places = np.array([functions[row] for row in group])
            parts = text.parts(functions[group[0]]) - functions[group[0]]
            rows_of = defaultdict(list)
            for row, *names in zip(group, *(text.words(places + k) for k in parts[::2]), strict=True):
                rows_of[tuple(names)].append(row)
            for names, rows in rows_of.items():
                places = np.array([functions[row] for row in rows])
                fields = dict(zip(names, parts[1::2].tolist(), strict=False))
                if b"parameters" in fields:
                    fields[b"params"] = fields.pop(b"parameters")
                unknown = fields.keys() - {b"scope", b"defaultcost", b"costs", b"type", b"params"}
                lists = [places[0] + fields.get(name, 0) for name in (b"scope", b"params")]
                if parts.size % 2 or unknown or not all(map(text.is_list, lists)) or b"scope" not in fields:
                    text.fail("expected a function with a scope, and costs or a type and params", places[0])
                yield places, np.array(rows), fields

    def _scopes(self, places: Array, fields: dict[bytes, int]) -> Array:
        words = places[:, None] + self.text.parts(places[0] + fields[b"scope"]) - places[0]
        scopes, sizes = self.variables(words), np.full(places.size, words.shape[1])
        self.text.check_scopes(sizes, scopes.ravel(), words.ravel(), self._cardinalities.size)
        return scopes

    def _add_costs(self, places: Array, fields: dict[bytes, int], scopes: Array) -> None:
        """Add the tables at these places, without a keyword, as functions of `scopes`."""
        text, costs, width = self.text, fields.get(b"costs", 0), scopes.shape[1] + 1
        words = text.flat(places[0] + costs) if costs else np.empty(0, dtype=np.int64)
        self.builder.check_room(places.size * words.size)
        arities, words = np.full(places.size, width - 1), places[:, None] + words - places[0]
        if b"defaultcost" not in fields:
            sizes = self._cardinalities[scopes].prod(axis=1, dtype=np.float64)
            for i in np.flatnonzero(sizes != words.shape[1])[:1].tolist():
                text.fail(
                    f"expected {sizes[i]:.0f} costs, one for each tuple of states, got {words.shape[1]}",
                    int(places[i]) + costs,
                )
            self.builder.add_all(arities, scopes.ravel(), self._sign * text.numbers(words.ravel(), "a cost"))
            return
        if words.shape[1] % width:
            text.fail(f"expected rows of {width - 1} states and a cost", places[0] + costs)
        rows = words.reshape(places.size, -1, width)
        variables = np.broadcast_to(scopes[:, None], rows[..., :-1].shape).ravel()
        states = [
            text.numbered(i, "state", self._states.get(u, {}), size)
            for i, u, size in zip(
                rows[..., :-1].ravel().tolist(),
                variables.tolist(),
                self._cardinalities[variables].tolist(),
                strict=True,
            )
        ]
        tables = SparseTables(
            arities=arities,
            scopes=scopes.ravel(),
            defaults=self._sign * text.numbers(places + fields[b"defaultcost"], "a default cost"),
            owners=np.repeat(np.arange(places.size), rows.shape[1]),
            states=np.array(states, dtype=np.int64),
            costs=self._sign * text.numbers(rows[..., -1].ravel(), "a cost"),
        )
        self.builder.add_tuples(tables)


class _CfnFunction(KeywordFunction):
    """A function whose parameters are words or lists; their names are skipped."""

    def __init__(
        self, network: _Network, i: int, scope: list[int], keyword: str, params: list[int], bound: float
    ) -> None:
        super().__init__(network.builder, scope, bound)
        self._network, self._text, self._place = network, network.text, i
        self._params = deque(i for i in params if self._text.at(i).strip(b'"') not in _NAMES)
        is_for_each = "*" in KEYWORDS.get(keyword, ("", None))[0] and len(self._params) == 2
        if is_for_each and self._text.is_list(self._params[1]):
            self._params.extend(self._text.parts(self._params.pop()).tolist())

    def read(self, kind: str, what: str) -> Any:
        i = self._next(what)
        if kind == "w":
            return shown(self._text.word(i, what))
        if kind == "v":
            return int(self._network.variables(np.array([i]))[0])
        return self._text.number(i, what) if kind == "c" else self._text.integer(i, what)

    def length(self, what: str, width: int = 1) -> int:
        flat = self._text.flat(self._next(what)).tolist()
        if len(flat) % width:
            self.fail(f"expected {what}, rows of {width} numbers")
        self._params.extendleft(reversed(flat))
        return len(flat) // width

    def finish(self) -> None:
        if self._params:
            self._next("")
            self.fail("there are more parameters than the function has")

    def fail(self, reason: str) -> NoReturn:
        self._text.fail(reason, self._place)

    def _next(self, what: str) -> int:
        if not self._params:
            self.fail(f"expected {what}")
        self._place = self._params.popleft()
        return self._place


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
    digits = as_digits(precision)

    def blocks() -> Iterator[FactorBlock]:
        yield FactorBlock([[]], np.round([model.constant], digits), np.ones(1, dtype=np.int64))
        for block in blocks_of(model):
            yield block._replace(costs=np.round(block.costs, digits))

    lows, highs = [0.0], [1.0]
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
    forbidden = 1.0 + bound + max(0.0, max(lows) - math.fsum(lows))  # for `forbid_above`

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
