"""Files with random mistakes, read by the package and by slow parsers that share nothing with it.

A mutated file is refused with its name, or read. Where it is read without a warning, the slow parser of its
format must read it too, and the same.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import highspy
import numpy as np

import cutplane as cut
from cutplane.datasets import read_conll, read_multilabel_arff
from cutplane.decomposition import read_smps
from cutplane.graphical import read_cfn, read_qpbo, read_uai, read_wcnf, read_wcsp

UAI = "MARKOV\n3\n2 3 2\n3\n2 1 0\n1 1\n2 0 2\n\n6\n 1 2.5\n 0 1\n 1 8e-3\n3\n .5 1e0 2.\n4\n 1 2 3 4\n"
EVIDENCE = "1\n2 1 2 0 1\n"
WCSP = (
    "n 3 3 4 10\n2 3 2\n2 1 0 4 2\n0 0 1\n2 1 10\n-1 2 0 1\n1 6\n1 0 0 -1\n2 0 2 1 3\n0 0 3\n0 1 7\n1 1 2\n"
)
CFN = """{"problem": {"name": "t", "mustbe": "<9.0"},
"variables": {"x": ["a", "b"], "y": 2, "z": 3},
"functions": {"f": {"scope": ["x", "y"], "costs": [1, 2, 3, 4.5]},
"g": {"scope": ["x"], "defaultcost": 0, "costs": ["a", 1]},
"k": {"scope": ["y", "z"], "defaultcost": 1.5, "costs": [[1, 2, 7], [0, 1, -2]]},
"l": {"scope": ["y", "x"], "costs": "f"}}}
"""
PLAIN_CFN = """# a comment
{problem {t >-9.0}
 variables [[a b] 2 -2] functions [{scope [0 1] costs [1 2 3 4.5]}
 g {scope [0 2] defaultcost 1 costs [b 1 -2]} {scope [2 1] costs f}
 f {scope [1 2] costs [0 1 2 8]} {scope [] costs [2]}]}
"""
CNFS = (
    "c x\np cnf 3 3\n1 -2 0\n2 3 -1 0\n-3 0\n",
    "p wcnf 3 4 20\n20 1 -2 0\n3 2 3 -1 0\n2.5 -3 0\n1 1 -1 0\n",
    "c x\nh 1 -2 0\n3 2 3 -1 0\n2 -3 0\n5 1 2 3 4 0\n%\n0\n",
)
QPBO = "3 4\n1 1 -1\n2 2 -1.5\n1 2 0.75\n3 1 2e-1\n"
ARFF = (
    "% a comment\n@relation 'r s'\n@attribute a numeric\n@attribute 'b c' real\n@attribute d {0,1}\n"
    "@attribute e {0,1}\n@data\n0.5,-1,1,0\n1e-3,2,0,0\n-7,11,1,1\n"
)
CONLL = "-DOCSTART- -X- O\n\nHe PRP B-NP\nsleeps VBZ B-VP\n\nYes UH B-INTJ\n. . O\n\n"
CORE = """NAME          tiny
* two machines
ROWS
 N  COST
 L  BUDGET
 E  RATIO
 G  CAP1
 L  CAP2
 E  DEM1
COLUMNS
    x1        COST      1.5            BUDGET    1.0
    x1        CAP1      -1.0           RATIO     -1.0
    x2        COST      2.0            CAP2      -1.0
    x3        COST      0.1            RATIO     1.0
    y1        COST      0.5            CAP1      -1.0
    y1        DEM1      1.0
    y2        COST      0.4            CAP2      1.0
    y2        DEM1      1.0
RHS
    RHS       BUDGET    12.0           DEM1      3.0
    RHS       COST      -4.0
RANGES
    RNG       BUDGET    5.0            CAP2      2.0
BOUNDS
 UP BND       x2        8.0
 MI BND       x3
 UP BND       x3        20.0
ENDATA
"""
TIME = "TIME          tiny\nPERIODS       LP\n    x1        BUDGET                   ONE\n"
TIME += "    y1        CAP1                     TWO\nENDATA\n"
STOCHS = [
    """STOCH         tiny
INDEP         DISCRETE
    RHS       DEM1      2.0            TWO       0.25
    RHS       DEM1      6.0            TWO       0.75
    y1        COST      0.5            TWO       0.5
    y1        COST      1.5            TWO       0.5
ENDATA
""",
    """STOCH         tiny
BLOCKS        DISCRETE
 BL DEMAND    TWO       0.25
    RHS       DEM1      2.0
    y1        COST      0.6
 BL DEMAND    TWO       0.75
    RHS       DEM1      6.0
ENDATA
""",
    """STOCH         tiny
SCENARIOS     DISCRETE
 SC low       ROOT      0.25           TWO
    RHS       DEM1      2.0
 SC high      ROOT      0.5            TWO
    RHS       DEM1      6.0            CAP1      5.0
 SC dear      high      0.25           TWO
    y2        COST      20.0
ENDATA
""",
]
WORDS = [
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "1",
    "3",
    "1e400",
    "1e-400",
    "1_0",
    "9" * 25,
    "x",
    "'",
    "{",
    "٣",
    "MAX",
]
WORDS += ["INTORG", "0x1", "1d2", "%", "*", "-0.5", "RHS", "2,5", "?", ""]
CHARACTERS = "0123456789.-+eE_, \t\n\"'{}@%*#xé\0\x0c\u2028"


class Refusal(Exception):
    """A slow parser does not read the file."""


def demand(condition: bool) -> None:
    """Refuse the file unless the condition holds."""
    if not condition:
        raise Refusal


def mutated(rng: np.random.Generator, text: str) -> str:
    """Return the text with one to three mistakes."""
    for _ in range(rng.integers(1, 4)):
        text = MISTAKES[rng.integers(len(MISTAKES))](rng, text)
    return text


def _characters(rng: np.random.Generator, text: str) -> str:
    place, kind = int(rng.integers(len(text) + 1)), rng.integers(3)
    new = "" if kind == 0 else CHARACTERS[rng.integers(len(CHARACTERS))]
    return text[:place] + new + text[place + (kind != 1) :]


def _words(rng: np.random.Generator, text: str) -> str:
    parts = re.split(r"(\s+)", text)
    places = [i for i, part in enumerate(parts) if part.strip()] or [0]
    a, b = (int(rng.choice(places)) for _ in range(2))
    kind = rng.integers(7)
    if kind == 0:
        parts[a] = ""
    elif kind == 1:
        parts[a] += f" {parts[a]}"
    elif kind == 2:
        parts[a], parts[b] = parts[b], parts[a]
    elif kind == 3:
        parts[a] = parts[b]
    elif kind == 4:
        parts[a] = WORDS[rng.integers(len(WORDS))]
    elif kind == 5:
        parts[a] = parts[a][1:] if parts[a].startswith("-") else f"-{parts[a]}"
    else:
        parts[a] = parts[a].swapcase()
    return "".join(parts)


def _lines(rng: np.random.Generator, text: str) -> str:
    lines = text.split("\n")
    a, b = (int(rng.integers(len(lines))) for _ in range(2))
    kind = rng.integers(6)
    if kind == 0:
        del lines[a]
    elif kind == 1:
        lines.insert(b, lines[a])
    elif kind == 2:
        lines[a], lines[b] = lines[b], lines[a]
    elif kind == 3:
        lines[a] += " " + (lines.pop(a + 1) if a + 1 < len(lines) else "")
    elif kind == 4:
        lines[a] = lines[a].strip() if rng.random() < 0.5 else f" {lines[a]}"
    else:
        lines[a] = lines[a].replace(" ", "\t")
    return "\n".join(lines)


def _whole(rng: np.random.Generator, text: str) -> str:
    kind = rng.integers(4)
    if kind == 0:
        return text[: rng.integers(len(text) + 1)]
    if kind == 1:
        return text + text
    if kind == 2:
        return text.replace("\n", "\r\n" if rng.random() < 0.5 else "\r")
    return "\ufeff" + text


MISTAKES = (_characters, _characters, _words, _words, _words, _lines, _lines, _whole)


def numbers(words: list[str]) -> list[float]:
    """Return finite numbers, whose exponents may be those of Fortran."""
    pattern = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([dDeE][+-]?\d+)?", re.ASCII)
    demand(all(map(pattern.fullmatch, words)))
    found = [float(word.upper().replace("D", "E")) for word in words]
    demand(all(map(math.isfinite, found)))
    return found


def whole_number(word: str) -> int:
    """Return an integer."""
    demand(re.fullmatch(r"[+-]?\d{1,4000}", word, re.ASCII) is not None)
    return int(word)


class Words:
    """The words of a file, one after the other."""

    def __init__(self, text: str):
        self.words = re.findall(r"[^ \t\n\r\x0b\x0c]+", text)

    def __len__(self) -> int:
        return len(self.words)

    def take(self) -> str:
        """Return the next word."""
        demand(bool(self.words))
        return self.words.pop(0)

    def integer(self, low: float = 0, high: float = math.inf, skip: int = 0) -> int:
        """Return the next word, an integer from low on and below high, after some other words."""
        del self.words[:skip]
        value = whole_number(self.take())
        demand(low <= value < high)
        return value


BLANK = " \t\n\r\x0b\x0c"
Energy = tuple[list[int], Callable[[tuple[int, ...]], float]]


def slow_uai(text: str) -> Energy:
    """Read a UAI file."""
    words = Words(text)
    demand(words.take().upper() in ("MARKOV", "BAYES"))
    n = words.integer()
    demand(n <= len(words))
    sizes = [words.integer(1, 2**27) for _ in range(n)]
    count = words.integer()
    demand(count <= len(words))
    scopes = [[words.integer(0, n) for _ in range(words.integer(0, 65))] for _ in range(count)]
    demand(all(len(set(scope)) == len(scope) for scope in scopes))
    tables = []
    for scope in scopes:
        size = words.integer()
        demand(size == math.prod(sizes[u] for u in scope) and size <= len(words))
        tables.append([decimal(words.take()) for _ in range(size)])
    demand(not len(words) and all(value >= 0 for table in tables for value in table))

    def energy(x: tuple[int, ...]) -> float:
        total = 0.0
        for scope, table in zip(scopes, tables, strict=True):
            place = 0
            for u in scope:
                place = place * sizes[u] + x[u]
            value = table[place]
            total += math.log(value.denominator) - math.log(value.numerator) if value else math.inf
        return total

    return sizes, energy


def decimal(word: str) -> Fraction:
    """Return a decimal number exactly."""
    found = re.fullmatch(r"([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,5}))?", word, re.ASCII)
    if found is None or not found[2] + found[3]:
        raise Refusal
    value = Fraction(int(found[2] + found[3]), 10 ** len(found[3])) * Fraction(10) ** int(found[4] or 0)
    return -value if found[1] == "-" else value


def slow_evidence(text: str) -> Energy:
    """Read an evidence file for the UAI model."""
    words = Words(text)
    sizes, energy = slow_uai(UAI)
    if text.split()[:1] != [f"{(len(words) - 1) / 2:g}"]:
        demand(words.integer() == 1)
    seen: dict[int, int] = {}
    for _ in range(words.integer()):
        u = words.integer(0, len(sizes))
        demand(u not in seen)
        seen[u] = words.integer(0, sizes[u])
    demand(not len(words))
    return sizes, lambda x: energy(x) if all(x[u] == state for u, state in seen.items()) else math.inf


def slow_wcsp(text: str) -> Energy:
    """Read a WCSP file."""
    words = Words(text)
    demand(words.take() not in ("MARKOV", "BAYES"))
    n, most, count, bound = (words.integer() for _ in range(4))
    demand(n <= len(words))
    sizes = [words.integer(1, most + 1) for _ in range(n)]
    functions: list[tuple[list[int], int, dict[tuple[int, ...], int]]] = []
    shared: list[tuple[int, list[int], dict[tuple[int, ...], int]]] = []
    demand(count <= len(words))
    for _ in range(count):
        arity = words.integer(-math.inf)
        demand(abs(arity) <= len(words))
        scope = [words.integer(0, n) for _ in range(abs(arity))]
        demand(len(set(scope)) == len(scope))
        default, n_tuples = words.integer(), words.integer(-math.inf)
        shape = [sizes[u] for u in scope]
        costs: dict[tuple[int, ...], int] = {}
        if n_tuples < 0:
            demand(-n_tuples <= len(shared))
            default, shape_then, costs = shared[-n_tuples - 1]
            demand(shape_then == shape)
        demand(n_tuples <= len(words))
        for _ in range(n_tuples):
            key = tuple(words.integer(0, size) for size in shape)
            cost = words.integer(0, 2**63)
            demand(min(costs.get(key, cost), bound) == min(cost, bound))  # a warning otherwise
            costs[key] = cost
        functions.append((scope, default, costs))
        if arity < 0:
            shared.append((default, shape, costs))
    demand(not len(words))

    def energy(x: tuple[int, ...]) -> float:
        total = 0.0
        for scope, default, costs in functions:
            cost = costs.get(tuple(x[u] for u in scope), default)
            total += cost if cost < bound else math.inf
        return total

    return sizes, energy


def finite(word: str) -> float:
    """Return a decimal number as a float."""
    value = decimal(word)
    demand(abs(value) < 2**1023)
    return float(value)


def nested(text: str) -> list[Any]:
    """Return the words of a CFN file, without quotation marks, in nested lists."""
    text = re.sub(r"(?m)^#.*", "", text)
    demand(all(line.count('"') % 2 == 0 for line in text.split("\n")))
    stack: list[list[Any]] = [[]]
    for word in re.findall(r'"[^"]*"|[][{}]|[^][{} \t\n\r\v\f,:"]+', text):
        if word in "[{":
            stack.append([])
        elif word in "]}":
            demand(len(stack) > 1)
            stack[-2].append(stack.pop())
        else:
            stack[-1].append(word.strip('"'))
    demand(len(stack) == 1)
    return stack[0]


def flat(parts: Any) -> list[str]:
    """Return all words of nested lists."""
    return [word for part in parts for word in (flat(part) if isinstance(part, list) else [part])]


def named(parts: list[Any], is_value: Callable[[str], bool]) -> list[tuple[str, Any]]:
    """Return values with their names, "" for none."""
    found, name = [], ""
    for part in parts:
        if isinstance(part, list) or is_value(part):
            found.append((name, part))
            name = ""
        else:
            demand(not name)
            name = part
    demand(not name)
    return found


def is_decimal(word: str) -> bool:
    """Tell whether a word is a number."""
    return re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", word, re.ASCII) is not None


def numbered(word: Any, names: list[str], count: int) -> int:
    """Return the number of a variable or of a state."""
    demand(isinstance(word, str))
    if word and word in names:
        return names.index(word)
    value = finite(word)
    demand(value == int(value) and 0 <= value < count)
    return int(value)


def slow_cfn(text: str) -> Energy:
    """Read a CFN file without keywords."""
    parts = [part for top in nested(text) if isinstance(top, list) for part in top if isinstance(part, list)]
    demand(len(parts) == 3)
    demand(all(isinstance(word, str) for word in parts[0]))
    bounds = [word for word in parts[0] if word[:1] in ("<", ">")]
    demand(len(bounds) == 1)
    sign, bound = (1 if bounds[0][0] == "<" else -1), finite(bounds[0][1:])
    names, states, sizes = [], [], []
    for name, value in named(parts[1], is_decimal):
        demand(not name or name not in names)
        if isinstance(value, str):
            demand(finite(value) == int(finite(value)))
        names.append(name)
        states.append(value if isinstance(value, list) else [])
        demand(all(isinstance(word, str) for word in states[-1]) and len(set(states[-1])) == len(states[-1]))
        sizes.append(len(value) if isinstance(value, list) else abs(int(finite(value))))
    demand(all(sizes) and sum(sizes) <= 2**27)
    functions = []
    for name, body in named(parts[2], lambda _: False):
        demand(len(body) % 2 == 0 and all(isinstance(word, str) for word in body[::2]))
        fields = dict(zip(body[::2], body[1::2], strict=True))
        demand("scope" in fields and isinstance(fields["scope"], list))
        demand(fields.keys() <= {"scope", "costs", "defaultcost"})
        scope = [numbered(word, names, len(sizes)) for word in fields["scope"]]
        demand(len(set(scope)) == len(scope))
        functions.append((name, scope, fields))
    tables: list[tuple[list[int], dict[tuple[int, ...], float]]] = []
    for _, scope, fields in functions:
        origin = scope
        if isinstance(fields.get("costs"), str):
            found = [one for one in functions if one[0] and one[0] == fields["costs"]][-1:]
            demand(bool(found) and isinstance(found[0][2].get("costs"), list))
            _, origin, fields = found[0]
        demand([sizes[u] for u in scope] == [sizes[u] for u in origin])
        keys, words = list(product(*(range(sizes[u]) for u in origin))), flat(fields.get("costs", []))
        if "defaultcost" in fields:
            demand(isinstance(fields["defaultcost"], str) and len(words) % (len(origin) + 1) == 0)
            table = dict.fromkeys(keys, finite(fields["defaultcost"]))
            rows = [words[i : i + len(origin) + 1] for i in range(0, len(words), len(origin) + 1)]
            for *key, cost in rows:
                key = tuple(numbered(w, states[u], sizes[u]) for w, u in zip(key, origin, strict=True))
                table[key] = finite(cost)
        else:
            demand(len(words) == len(keys))
            table = dict(zip(keys, map(finite, words), strict=True))
        least = min(sign * cost for cost in table.values())
        tables.append(
            (scope, {key: (sign * cost, sign * cost - least) for key, cost in table.items()}, least)
        )
    rest = sign * bound - sum(least for *_, least in tables)

    def energy(x: tuple[int, ...]) -> float:
        costs = [table[tuple(x[u] for u in scope)] for scope, table, _ in tables]
        return sum(math.inf if above >= rest else cost for cost, above in costs)

    return sizes, energy


def slow_wcnf(text: str) -> Energy:
    """Read a DIMACS file."""
    lines = [line for line in re.sub(r"(?m)^c.*|^%[\s\S]*", "", text).split("\n") if line.strip(BLANK)]
    n, count, top, weighted, words = None, None, math.inf, True, Words("\n".join(lines))
    if words.words[:1] == ["p"]:
        demand(words.words[1:2] in (["cnf"], ["wcnf"]))
        weighted = words.words[1] == "wcnf"
        n, count = words.integer(skip=2), words.integer()
        place, line = 4, 0
        while place > len(Words(lines[line])):
            place, line = place - len(Words(lines[line])), line + 1
        if place < len(Words(lines[line])):
            top = words.integer(1)
    clauses = []
    while len(words):
        weight = 1.0
        if weighted:
            weight = math.inf if words.words[0] == "h" else finite(words.words[0])
            words.take()
            demand(weight >= 0)
        literals = []
        while literal := words.integer(-math.inf):
            demand(n is None or abs(literal) <= n)
            literals.append(literal)
        clauses.append((math.inf if weight >= top else weight, literals))
    demand(count in (None, len(clauses)))
    n = max([abs(v) for _, c in clauses for v in c], default=0) if n is None else n
    demand(n <= 2**26)
    return [2] * n, lambda x: sum(w for w, c in clauses if not any((v > 0) == x[abs(v) - 1] for v in c))


def slow_qpbo(text: str) -> Energy:
    """Read a QPBO file."""
    words = Words(text)
    n, count = words.integer(-math.inf), words.integer(-math.inf)
    demand(abs(n) <= 2**26 and 3 * abs(count) == len(words))
    rows = []
    for _ in range(abs(count)):
        i, j = words.integer(1, abs(n) + 1), words.integer(1, abs(n) + 1)
        rows.append((i - 1, j - 1, finite(words.take()) * (1 if i == j else 2) * (1 if count > 0 else -1)))
    values = (0, 1) if n >= 0 else (1, -1)
    return [2] * abs(n), lambda x: sum(w * values[x[i]] * values[x[j]] for i, j, w in rows)


def slow_arff(text: str) -> Any:
    """Read an ARFF file with two labels."""
    stage, kinds, rows = 0, [], []
    for line in text.split("\n"):
        line = line.strip()
        if not line or line.startswith("%"):
            continue
        word = line.split()[0].lower()
        if stage == 2:
            values = numbers([entry.strip() for entry in line.split(",")])
            demand(len(values) == len(kinds))
            demand(all(kind is None or value in kind for value, kind in zip(values, kinds, strict=True)))
            rows.append(values)
        elif word == "@relation":
            demand(stage == 0)
            stage = 1
        elif word == "@attribute":
            demand(stage == 1)
            rest = line[len("@attribute") :].strip()
            quote = rest[:1] if rest[:1] in ("'", '"') else ""
            if quote:
                end = 1
                while end < len(rest) and rest[end] != quote:
                    end += 2 if rest[end] == "\\" else 1
                rest = rest[end + 1 :]
                demand(not rest or rest[0].isspace() or rest[0] == "{")
            elif "{" in rest:
                rest = rest[rest.index("{") :] if rest[0] != "{" else ""
            else:
                rest = rest.split(None, 1)[1] if len(rest.split(None, 1)) == 2 else ""
            rest = rest.strip()
            nominal = re.fullmatch(r"\{([^{}]*)\}", rest)
            demand(nominal is not None or rest.lower() in ("numeric", "real", "integer"))
            kinds.append(numbers([one.strip() for one in nominal[1].split(",")]) if nominal else None)
        else:
            demand(line.lower() == "@data" and stage == 1 and len(kinds) > 0)
            stage = 2
    demand(bool(rows) and len(kinds) > 2)
    labels = [row[-2:] for row in rows]
    demand(all(label in (0.0, 1.0) for row in labels for label in row))
    return [row[:-2] for row in rows], labels


def slow_conll(text: str) -> Any:
    """Read sentences."""
    sentences, widths = [[]], set()
    for line in text.split("\n"):
        if line.startswith("-DOCSTART-"):
            continue
        columns = tuple(line.split())
        if columns:
            sentences[-1].append(columns)
            widths.add(len(columns))
        else:
            sentences.append([])
    demand(len(widths) == 1)
    return [sentence for sentence in sentences if sentence]


def content(text: str) -> list[list[str]]:
    """Return the words of the lines of an SMPS file, the first of them preceded by a blank if it is data."""
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("*")]
    demand(bool(lines) and lines[-1].split() == ["ENDATA"] and not lines[-1][0].isspace())
    return [(["DATA"] if line[0].isspace() else []) + line.split() for line in lines[:-1]]


def safe(name: str) -> str:
    """Return another name for one that HiGHS takes for a keyword."""
    return f"{name}_" if name.upper() in KEYWORDS else name


KEYWORDS = set(
    "NAME OBJSENSE ROWS COLUMNS RHS RANGES BOUNDS ENDATA MAX MIN QUADOBJ QMATRIX FREE FR MI PL".split()
)


def for_highs(text: str) -> str:
    """Return a core with keywords in capitals and a name of each set, which HiGHS needs."""
    lines, section = [], ""
    for line in text.split("\n"):
        words = line.split()
        if words and not line.startswith("*"):
            data = line[0].isspace()
            words[0] = words[0].upper() if not data or section in ("ROWS", "BOUNDS", "OBJSENSE") else words[0]
            section = section if data else words[0]
            if data:
                kept = int(section in ("ROWS", "BOUNDS", "OBJSENSE"))
                words[kept:] = map(safe, words[kept:])
            valued = words[0] not in ("FR", "MI", "PL")
            if data and section in ("RHS", "RANGES") and len(words) % 2 == 0:
                words.insert(0, section)
            elif data and section == "BOUNDS" and len(words) == 2 + valued:
                words.insert(1, "SET")
            elif data and section == "BOUNDS" and len(words) > 2:
                words[1] = "SET"  # which HiGHS takes for a column if there is one of that name
            lines.append(" " * data + " ".join(words))
    return "\n".join(lines)


def slow_core(text: str) -> Any:
    """Return costs, constant, sign, rows and bounds of a core, as HiGHS reads it."""
    text = for_highs(text)
    demand(text.endswith("\nENDATA"))
    path = Path(FOLDER[0], "highs.mps")
    path.write_text(text + "\n")
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    demand(model.readModel(str(path)) == highspy.HighsStatus.kOk)
    lp = model.getLp()
    demand(all(kind == highspy.HighsVarType.kContinuous for kind in lp.integrality_))
    parts = np.array(lp.a_matrix_.value_), np.array(lp.a_matrix_.index_), np.array(lp.a_matrix_.start_)
    A = np.zeros((lp.num_row_, lp.num_col_))
    for j in range(lp.num_col_):
        for place in range(parts[2][j], parts[2][j + 1]):
            A[parts[1][place], j] = parts[0][place]
    return [
        list(lp.row_names_), list(lp.col_names_), lp.sense_ == highspy.ObjSense.kMaximize, lp.offset_,
        list(lp.col_cost_), list(lp.col_lower_), list(lp.col_upper_), list(lp.row_lower_),
        list(lp.row_upper_), A.tolist(),
    ]  # fmt: skip


def read_core(path: Path) -> Any:
    """Return the same of the package's reader."""
    from cutplane.decomposition.mps import Lines, MpsReader

    lp = Lines(path).parsed(lambda lines: MpsReader(False).read(lines))
    if lp.unused:
        warnings.warn("rows of type N", stacklevel=1)
    return [
        list(map(safe, lp.rows)), list(map(safe, lp.columns)), lp.sign < 0.0, lp.constant,
        lp.cost.tolist(), lp.lower.tolist(), lp.upper.tolist(), lp.row_lower.tolist(),
        lp.row_upper.tolist(), lp.A.toarray().tolist(),
    ]  # fmt: skip


COLUMN_NAMES, ROW_NAMES = ["x1", "x2", "x3", "y1", "y2"], ["BUDGET", "RATIO", "CAP1", "CAP2", "DEM1"]


def slow_time(text: str) -> tuple[int, int]:
    """Return how many columns and rows of the core are of the first stage."""
    lines = content(text)
    demand([line[0].upper() for line in lines] == ["TIME", "PERIODS", "DATA", "DATA"])
    demand(lines[1][1:] in ([], ["LP"], ["IMPLICIT"]) and len(lines[2]) == len(lines[3]) == 4)
    demand(
        lines[2][1:3] in (["x1", "BUDGET"], ["x1", "COST"])
        and "TWO" in (lines[2][3], lines[3][3])
        and lines[2][3] != lines[3][3]
    )
    demand(lines[3][1] in COLUMN_NAMES and lines[3][2] in ROW_NAMES)
    return COLUMN_NAMES.index(lines[3][1]), ROW_NAMES.index(lines[3][2])


def read_time(path: Path) -> tuple[int, int]:
    """Return the same of the package's reader."""
    program = read_smps(sibling(path, ".cor", CORE), path, sibling(path, ".sto", STOCHS[0]))
    return program.cost.size, len(ROW_NAMES) - program.core.row_lower.size


def slow_stoch(text: str) -> Any:
    """Return the groups of outcomes, each a probability and values by column and row."""
    lines = content(text)
    demand(len(lines) > 2 and lines[0][0].upper() == "STOCH")
    kind, section, groups = "", 0, {}
    names: dict[str, dict[tuple[str, str], float]] = {}
    given: set[tuple[str, str]] = set()
    for line in lines[1:]:
        if line[0] != "DATA":
            demand(section == 0 or any(key[0] == section for key in groups))
            kind, section, names = line[0].upper(), section + 1, {}
            demand(kind in ("INDEP", "BLOCKS", "SCENARIOS"))
            demand(line[1:] in (["DISCRETE"], ["DISCRETE", "REPLACE"]))
            continue
        demand(section > 0 and len(line) > 3)
        words = line[1:]
        if kind == "INDEP":
            demand(len(words) in (4, 5) and words[3:-1] in ([], ["ONE"], ["TWO"]))
            key = words[0], words[1]
            groups.setdefault((section, key), []).append(
                [numbers(words[-1:])[0], {key: numbers(words[2:3])[0]}]
            )
        elif kind == "BLOCKS" and words[0] == "BL" and len(words) == 4:
            demand(words[2] in ("ONE", "TWO"))
            group, given = groups.setdefault((section, words[1]), []), set()
            group.append([numbers(words[3:])[0], dict(group[0][1]) if group else {}])
            now = group[-1][1]
        elif kind == "SCENARIOS" and words[0] == "SC" and len(words) == 5:
            demand(words[4] in ("ONE", "TWO"))
            group, given = groups.setdefault((section, ""), []), set()
            demand(words[1] not in names and (words[2] in ("ROOT", "'ROOT'") or words[2] in names))
            names[words[1]] = now = dict(names.get(words[2], {}))
            group.append([numbers(words[3:4])[0], now])
        else:
            demand(len(words) in (3, 5) and any(key[0] == section for key in groups))
            for row, value in zip(words[1::2], words[2::2], strict=True):
                demand((words[0], row) not in given)
                given.add((words[0], row))
                now[words[0], row] = numbers([value])[0]
    demand(any(key[0] == section for key in groups))
    seen: set[tuple[str, str]] = set()
    for group in groups.values():
        demand(abs(sum(p for p, _ in group) - 1.0) <= 1e-9 and all(0 <= p <= 1 for p, _ in group))
        keys = {key for _, values in group for key in values}
        demand(not keys & seen)
        seen |= keys
    for column, row in seen:
        demand(row in (*ROW_NAMES[2:], "COST") and column in (*COLUMN_NAMES, "RHS"))
        demand(column == "RHS" or row != "COST" or column in ("y1", "y2"))
        demand(row != "CAP2" or column != "RHS")  # it has a range
        demand((column, row) in PLACES or column == "RHS")  # a warning otherwise
    return [[(round(p, 12), values) for p, values in group] for group in groups.values()]


PLACES = {("y1", "COST"), ("y2", "COST"), ("x1", "CAP1"), ("x2", "CAP2"), ("y1", "CAP1"), ("y2", "CAP2")}
PLACES |= {("y1", "DEM1"), ("y2", "DEM1")}


def read_stoch(path: Path) -> Any:
    """Return the same of the package's reader, which must be able to set the scenarios up."""
    program = read_smps(sibling(path, ".cor", CORE), sibling(path, ".tim", TIME), path)
    program.value_function()
    return [
        [(round(p, 12), values) for p, values in zip(one.probabilities, one.outcomes, strict=True)]
        for one in program.random
    ]


def sibling(path: Path, ending: str, text: str) -> Path:
    """Return the file of that name, which is written unless it is there."""
    other = path.with_name(f"given{ending}")
    if not other.exists():
        other.write_text(text)
    return other


def slow_result(text: Any) -> Any:
    """Return what the archive of `ARCHIVE` held before its bytes were changed."""
    return summary(cut.load(ARCHIVE[0]))


def summary(result: Any) -> Any:
    """Return a checksum of a result."""
    c = result.certificate
    return [result.x.tolist(), result.objective, result.lower_bound, c.offsets.tolist(), c.slopes.tolist()]


FOLDER: list[str] = ["."]
"""Where slow parsers may write."""
ARCHIVE: list[Path] = []


@dataclass(frozen=True)
class Format:
    """Files of a format without a mistake, the reader, and the slow parser."""

    texts: tuple[str, ...]
    read: Callable[[Path], Any]
    slow: Callable[[str], Any]
    lines: bool = True


FORMATS = {
    "uai": Format((UAI,), read_uai, slow_uai),
    "evidence": Format((EVIDENCE,), lambda path: read_uai(io.StringIO(UAI), path), slow_evidence),
    "wcsp": Format((WCSP,), read_wcsp, slow_wcsp),
    "cfn": Format((CFN, PLAIN_CFN), read_cfn, slow_cfn),
    "wcnf": Format(CNFS, read_wcnf, slow_wcnf),
    "qpbo": Format(
        tuple(QPBO.replace("3 4", head) for head in ("3 4", "3 -4", "-3 4", "-3 -4")), read_qpbo, slow_qpbo
    ),
    "arff": Format(
        (ARFF,), lambda path: [part.tolist() for part in read_multilabel_arff(path, 2)], slow_arff
    ),
    "conll": Format((CONLL,), read_conll, slow_conll),
    "core": Format((CORE, CORE.replace("ROWS\n", "OBJSENSE\n    MAX\nROWS\n", 1)), read_core, slow_core),
    "time": Format((TIME,), read_time, slow_time),
    "stoch": Format(tuple(STOCHS), read_stoch, slow_stoch),
    "npz": Format((), lambda path: summary(cut.load(path)), slow_result, lines=False),
}


def trial(name: str, seed: int, folder: Path) -> tuple[str, str]:
    """Read a mutated file; return "same", "other", "refused", "warned", or "broken" and what is broken."""
    rng = np.random.default_rng([seed, *name.encode()])
    kind, path, text = FORMATS[name], folder / f"mutated.{name}", ""
    FOLDER[0] = str(folder)
    if name == "npz":
        data = bytearray(_archive(folder).read_bytes())
        for _ in range(rng.integers(1, 4)):
            place = int(rng.integers(len(data)))
            if rng.random() < 0.1:
                del data[place:]
                data += b"\0" * (not data)
            else:
                data[place] = rng.integers(256)
        path.write_bytes(data)
    else:
        text = mutated(rng, kind.texts[rng.integers(len(kind.texts))])
        path.write_bytes(text.encode())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = kind.read(path)
        except cut.InvalidInputError as error:
            if not re.search(rf"{path.name}|given\.sto", str(error)) or (
                kind.lines and not re.search(LINE, str(error))
            ):
                return "broken", f"the error names no file or line: {error}"
            return "refused", str(error)
        except Exception as error:
            return "broken", f"{type(error).__name__}: {error}"
    if said:
        return "warned", str(said[0].message)
    try:
        expected = kind.slow(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    except Refusal:
        return "broken", f"read as {found!r}, but the text is not of this format"
    if not agree(found, expected):
        return "broken", f"read as {found!r}, but the text says {expected!r}"
    if name == "npz":
        return "same", ""
    return ("same" if any(_same(kind, found, text) for text in kind.texts) else "other"), ""


LINE = r", line \d|is no text file|in UTF-8|holds no token|no 2 labels beside|last 2 attributes|too large for"
"""Errors about a line, or about the whole of a file."""


def _same(kind: Format, found: Any, text: str) -> bool:
    return agree(found, kind.slow(text))


def agree(found: Any, expected: Any) -> bool:
    """Tell whether a model or a list is what it should be."""
    if not isinstance(found, cut.graphical.GraphicalModel):
        return _equal(found, expected)
    sizes, energy = expected
    if found.cardinalities.tolist()[: len(sizes)] != list(sizes):
        return False
    if math.prod(sizes) > 10_000:
        return True
    labellings = ((x, np.array(x, dtype=np.int64)) for x in product(*map(range, sizes)))
    if found.n_variables > len(sizes):
        labellings = ((x, found.complete(y)) for x, y in labellings)
    return all(_equal(found.energy(y), energy(x)) for x, y in labellings)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, float | int) and isinstance(b, float | int):
        return a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    return a == b


def _archive(folder: Path) -> Path:
    if not ARCHIVE or not ARCHIVE[0].exists():
        problem = cut.Problem(cut.LinearObjective(np.array([1.0, -2.0])), feasible_set=cut.Box(-1, 1, dim=2))
        ARCHIVE[:] = [problem.solve().save(folder / "whole")]
    return ARCHIVE[0]
