"""Model files: energies against slow parsers that share nothing with the fast ones; errors by their lines."""

import gzip
import io
import math
import tempfile
import warnings

import numpy as np
import pytest
from fuzz.mutated_files import FORMATS, agree
from graphical_models import SPECIAL, random_model
from hypothesis import given, settings
from hypothesis import strategies as st

from cutplane.exceptions import InvalidInputError
from cutplane.graphical import (
    GraphicalModel,
    read_cfn,
    read_qpbo,
    read_uai,
    read_wcnf,
    read_wcsp,
    write_cfn,
    write_uai,
    write_wcsp,
)
from cutplane.pieces.text import write_text

INF = math.inf
TEXTS = ["uai", "evidence", "wcsp", "cfn", "wcnf", "qpbo"]
CFN = """{"problem": {"name": "t", "mustbe": "<9.0"},
"variables": {"x": ["a", "b"], "y": 2},
"functions": {"f": {"scope": ["x", "y"], "costs": [1, 2, 3, 4]},
"g": {"scope": ["x"], "defaultcost": 0, "costs": ["a", 1]},
"h": {"scope": ["x", "y"], "type": "wsum",
      "params": {"metric": "hard", "cost": 9, "comparator": "<=", "to": 1}}}}
"""
UAI = "MARKOV\n2\n2 3\n2\n2 1 0\n1 1\n\n6\n1 2  0 1\n1 8\n3\n.5 1e0 2.\n"
WCSP = "name 3 3 3 10\n2 3 2\n2 1 0 4 2\n0 0 1\n2 1 10\n-1 2 0 1\n1 6\n1 0 0 -1\n"


def labellings(rng, model, count=20):
    return [rng.integers(0, model.cardinalities) for _ in range(count)]


ROUND_TRIPS = {
    "uai": (write_uai, {}),
    "wcsp": (write_wcsp, {"precision": 9}),
    "cfn": (write_cfn, {"precision": 9}),
}
"""How models are written, and returned energies are scaled by the digits."""
EXTREME = [
    GraphicalModel([2], [((0,), [1e5, 1e5 + 1399.0])]),
    GraphicalModel([2, 2], [((0, 1), [[-5000.0, INF], [-6000.0, -5000.5]])], constant=-1e6),
    GraphicalModel([3, 1], [((0,), [0.0, -705.0, 690.0])], constant=1e-9),
    GraphicalModel([2], constant=-3.0),
    GraphicalModel([], constant=1e4),
    GraphicalModel([2, 2], constant=INF),
    GraphicalModel([2, 2], [((0,), [-50.0, -60.0]), ((0, 1), np.full((2, 2), INF))], constant=-5.0),
    GraphicalModel([1] * 64, [(range(64), np.full((1,) * 64, 2.5))]),
]


def assert_comes_back(kind, model, rng):
    """Compare with the model as it is read, and as a slow parser reads it."""
    write, options = ROUND_TRIPS[kind]
    file = io.StringIO()
    offset, unit = write(model, file, **options) or 0.0, 1e-9 if kind == "wcsp" else 1.0
    back, (sizes, slow) = (
        FORMATS[kind].read(io.StringIO(file.getvalue())),
        FORMATS[kind].slow(file.getvalue()),
    )
    n, tolerance = model.n_variables, {"rel": 1e-12, "abs": 1e-7 if options else 1e-12}
    assert sizes == model.cardinalities.tolist() == back.cardinalities[:n].tolist()
    for x in labellings(rng, model):
        energy = pytest.approx(model.energy(x), **tolerance)
        assert offset + unit * back.energy(back.complete(x) if back.n_variables > n else x) == energy
        assert offset + unit * slow(x) == energy
    return file.getvalue()


@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("kind", ROUND_TRIPS)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([1e-3, 1.0, 40.0, 3000.0]))
def test_a_model_that_is_written_and_read_has_the_same_energies(kind, seed, hard, scale):
    rng = np.random.default_rng(seed)
    shape = random_model(rng, hard=hard)
    factors = [shape.factor(a) for a in range(shape.n_factors)]
    offsets = scale * rng.normal(size=shape.n_factors)
    factors = [
        (scope, min(scale, 40.0) * table + t) for (scope, table), t in zip(factors, offsets, strict=True)
    ]
    factors += [((u,), shape.unary(u)) for u in range(shape.n_variables)]
    assert_comes_back(
        kind, GraphicalModel(shape.cardinalities, factors, constant=scale * shape.constant), rng
    )


@pytest.mark.every
@pytest.mark.parametrize("kind", ROUND_TRIPS)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_models_come_back(kind, name):
    assert_comes_back(kind, SPECIAL[name], np.random.default_rng(0))


@pytest.mark.every
@pytest.mark.parametrize("kind", ROUND_TRIPS)
@pytest.mark.parametrize("model", EXTREME)
def test_extreme_energies_come_back(kind, model):
    text = assert_comes_back(kind, model, np.random.default_rng(0))
    if kind == "uai":
        assert "inf" not in text and "nan" not in text
        values = [float(word) for word in text.split()[1:]]
        assert all(value == 0.0 or value >= np.finfo(float).tiny for value in values)


@pytest.mark.every
@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("chunk", [2**22, 7])
def test_files_without_mistakes_are_read_as_their_text_says(kind, chunk, monkeypatch):
    monkeypatch.setattr("cutplane.graphical.files.tokens._CHUNK", chunk)
    for text in FORMATS[kind].texts:
        assert agree(FORMATS[kind].read(io.StringIO(text)), FORMATS[kind].slow(text))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_uai_tables_are_read_in_the_order_of_the_scopes_of_the_file(seed):
    rng = np.random.default_rng(seed)
    cardinalities = rng.integers(1, 5, 5)
    scopes = [rng.permutation(5)[: rng.integers(0, 5)] for _ in range(6)]
    values = [rng.choice([0.0, 1.0, 2e-5, 7e3], math.prod(cardinalities[scope])) for scope in scopes]
    parts = [["BAYES", 5], cardinalities, [6], *([len(scope), *scope] for scope in scopes)]
    parts += [[table.size, *table] for table in values]
    text = "\r\n".join("\t ".join(map(str, part)) for part in parts)
    model = read_uai(io.StringIO(text))
    assert agree(model, FORMATS["uai"].slow(text))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([None, 5, 1e9, INF]))
def test_wcsp_costs_are_those_of_the_file(seed, upper_bound):
    rng = np.random.default_rng(seed)
    cardinalities = rng.integers(2, 4, 5)
    lines, shared = [], []
    for _ in range(7):
        old = shared[rng.integers(len(shared))] if shared and rng.random() < 0.4 else None
        scope = rng.permutation(5)[: rng.integers(0, 5)].tolist() if old is None else list(old[0])
        default = int(rng.integers(0, 12)) if old is None else old[1]
        if old is not None:
            lines.append([len(scope), *scope, default, -old[2]])
            continue
        define = bool(scope) and rng.random() < 0.5
        keys = {tuple(rng.integers(0, cardinalities[scope])) for _ in range(rng.integers(4))}
        tuples = [(*key, rng.integers(0, 20)) for key in keys]
        lines.append([-len(scope) if define else len(scope), *scope, default, len(tuples)])
        lines += tuples
        if define:
            shared.append((scope, default, len(shared) + 1))
    parts = [["name", 5, 3, 7, 10], cardinalities, *lines]
    text = "\n".join(" ".join(map(str, part)) for part in parts)
    model = read_wcsp(io.StringIO(text), upper_bound)
    bound = 10 if upper_bound is None else 10**30 if upper_bound == INF else int(upper_bound)
    assert agree(model, FORMATS["wcsp"].slow(text.replace("name 5 3 7 10", f"name 5 3 7 {bound}")))


def test_a_shared_cost_function_serves_other_scopes():
    """All different, by one table, as in the format's description."""
    text = "different 3 3 3 1\n3 3 3\n-2 0 1 0 3\n0 0 1\n1 1 1\n2 2 1\n2 0 2 0 -1\n2 1 2 0 -1\n"
    model = read_wcsp(io.StringIO(text))
    finite = [x for x in np.ndindex(3, 3, 3) if model.energy(np.array(x)) == 0.0]
    assert len(finite) == 6 and all(len(set(x)) == 3 for x in finite)


def test_wcsp_costs_are_compared_exactly_and_may_exceed_64_bits_only_in_the_bound():
    text = "big 1 3 1 {bound}\n3\n1 0 0 2\n0 9007199254740993\n1 9007199254740994\n"
    costs = read_wcsp(io.StringIO(text.format(bound=9007199254740994))).unary(0)
    assert costs.tolist() == [9007199254740992.0, INF, 0.0]
    assert np.isfinite(read_wcsp(io.StringIO(text.format(bound=10**30))).unary(0)).all()


READERS = {
    "text file": lambda path: path.open(),
    "binary file": lambda path: path.open("rb"),
    "Path": lambda path: path,
    "str": str,
}


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("source", READERS)
def test_files_are_written_and_read_in_every_form(tmp_path, source, suffix):
    model = read_uai(io.StringIO(UAI))
    path = tmp_path / f"model.uai{suffix}"
    write_uai(model, str(path) if source == "str" else path)
    assert path.read_bytes().startswith(b"\x1f\x8b" if suffix else b"MARKOV")
    if suffix and source == "text file":
        opened = gzip.open(path, "rt")
    else:
        opened = READERS[source](path)
    back = read_uai(opened)
    if hasattr(opened, "close"):
        opened.close()
    assert back.energy([1, 2]) == model.energy([1, 2]) and back.energy([0, 1]) == INF


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_that_cannot_be_finished_is_as_before(suffix, tmp_path):
    def full_disk():
        yield "MARKOV"
        raise OSError("No space left on device")

    path, link = tmp_path / f"model.uai{suffix}", tmp_path / f"link{suffix}"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    with pytest.raises(OSError, match="No space"):
        write_text(full_disk(), link)
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 2
    write_uai(read_uai(io.StringIO(UAI)), link)
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o640 and len(list(tmp_path.iterdir())) == 2
    assert read_uai(path).n_variables == 2


@pytest.mark.parametrize("mode", ["w+", "w+b"])
def test_open_files_are_written_as_text_or_bytes(mode):
    with tempfile.TemporaryFile(mode) as file:
        write_uai(read_uai(io.StringIO(UAI)), file)
        file.seek(0)
        assert read_uai(file).cardinalities.tolist() == [2, 3]


@pytest.mark.parametrize(
    "evidence", ["1\n1 1 2\n", "1 1 2", b"1 1 2\n", {1: 2}, {np.int64(1): np.int32(2)}, "0", "1\n0\n"]
)
def test_evidence_leaves_one_state(evidence, tmp_path):
    n_left = 3 if evidence in ("0", "1\n0\n") else 1
    if isinstance(evidence, bytes):
        path = tmp_path / "model.uai.evid"
        path.write_bytes(evidence)
        evidence = path
    elif isinstance(evidence, str):
        evidence = io.StringIO(evidence)
    model, plain = read_uai(io.StringIO(UAI), evidence), read_uai(io.StringIO(UAI))
    assert model.unary(1)[-n_left:].tolist() == plain.unary(1)[-n_left:].tolist()
    assert (model.unary(1)[:-n_left] == INF).all() and model.unary(0).tolist() == plain.unary(0).tolist()


def test_potentials_beyond_the_range_of_a_float_are_read():
    text = "MARKOV 1 5 1 1 0 5 1e-400 0.0e-5 3e500 4.9e-324 1"
    ln10 = math.log(10)
    expected = [400 * ln10, INF, -math.log(3) - 500 * ln10, -math.log(4.9e-324), 0.0]
    assert read_uai(io.StringIO(text)).unary(0) == pytest.approx(np.array(expected), rel=1e-14)
    assert not np.signbit(read_uai(io.StringIO(text)).unary(0)[4])


@pytest.mark.parametrize(
    "model, fragment",
    [
        (
            GraphicalModel([2], [((0,), [0.0, 1401.0])]),
            r"the variables \(0,\) has energies from 0 to 1401",
        ),
        (GraphicalModel([2, 2], [((0, 1), [[0, 0], [INF, 2e6]])]), r"The factor of the variables \(0, 1\)"),
        (GraphicalModel([2], constant=8e6), "constant 8e.06 is too large"),
    ],
)
def test_energies_that_no_potential_can_hold_are_refused_before_anything_is_written(
    model, fragment, tmp_path
):
    with pytest.raises(InvalidInputError, match=fragment):
        write_uai(model, tmp_path / "model.uai")
    assert not list(tmp_path.iterdir())


UAI_ERRORS = [
    ("", 1, "MARKOV or BAYES should follow"),
    ("\n\n", 1, "ends too early"),
    ("MARKED\n2", 1, "not with 'MARKED'"),
    ("MARKOV\ntwo", 2, "expected the number of variables, an integer, got 'two'"),
    ("MARKOV\n2.0", 2, "got '2.0'"),
    ("MARKOV\n1_0", 2, "got '1_0'"),
    ("MARKOV\n-1", 2, "the number of variables is -1"),
    ("MARKOV\n3\n2 2\n", 3, "3 words should follow: the numbers of states"),
    ("MARKOV\n2\n2 x\n0", 3, "got 'x'"),
    ("MARKOV\n2\n2\n0\n0", 4, "variable 1 has 0 states"),
    ("MARKOV\n1\n99999999999\n0", 3, "1e+11 states"),
    ("MARKOV\n1\n99999999999999999999\n0", 3, "at most 64 bits"),
    ("MARKOV\n99999999999\n2\n0", 4, "ends too early"),
    (UAI + "\n7\n", 14, "'7' follows the last table"),
    (UAI.split("\n\n")[0], 6, "the size of the table of factor 0 should follow"),
    ("2 1 0", "2 1 2", 5, "a variable is 2, but must be at least 0 and less than 2"),
    ("2 1 0", "2 1 -1", 5, "a variable is -1"),
    ("2 1 0", "2 1 1", 5, "the variable 1 twice"),
    ("2 1 0", "2 1 0.5", 5, "a variable, an integer of at most 64 bits, got '0.5'"),
    ("2 1 0", "-2 1 0", 5, "the arity of a factor is -2"),
    ("2 1 0", "65 " + "0 " * 65, 5, "65 variables is too large"),
    ("2 1 0", f"2 1 {2**70}", 5, f"at most 64 bits, got '{2**70}'"),  # numpy reads 2**63 - 1
    ("\n6\n", "\n5\n", 8, "has 5 entries, its variables need 6"),
    ("\n6\n", "\n6.\n", 8, "the size of the table of factor 0, an integer, got '6.'"),
    *(("1 8", f"1 {bad}", 10, f"a potential is {bad}") for bad in ("-8", "nan", "inf", "-1e-400")),
    *(("1 8", f"1 {bad}", 10, f"expected a potential, got '{bad}'") for bad in ("8,0", "1_0")),
    ("1 8", "1 8-2", 10, "expected a potential, got '8-2'"),  # numpy reads two numbers
    ("1 8", "1 1e-99999999999999999999", 10, "exponent of the potential 1e-9"),
    ("1 8", "1 -1e999", 10, "a potential is -inf"),
    ("1 8", "1 " + "z" * 100, 10, "got '" + "z" * 40 + "...'"),
    (" 2.", "", 12, "ends too early; 3 words should follow: the table of factor 1"),
]
WCSP_ERRORS = [
    ("", 1, "the name of the problem should follow"),
    ("name 1 2 0", 1, "the upper bound should follow"),
    ("name 1 2 0 -5\n2", 1, "the upper bound is -5"),
    ('{"problem": {"name": "p",\n"mustbe": "<10"}}', 1, "in the CFN format"),
    (UAI, 1, "in the UAI format; use read_uai"),
    (WCSP + "0 0 0", 9, "'0' follows the last cost function"),
    ("huge 3 999 1 9\n" + "999 " * 3 + "\n3 0 1 2 0 0", 3, "entries; all tables"),
    (f"wide 70 1 1 9\n{'1 ' * 70}\n-70 {' '.join(map(str, range(70)))} 0 0", 3, "70 variables is too"),
    ("name 3 3", "name 3 2", 2, "variable 1 has 3 states, but the first line says at most 2"),
    ("2 3 2\n", "2 3 -2\n", 2, "variable 2 has -2 states"),
    ("2 1 0 4 2", "2 1 3 4 2", 3, "a variable is 3"),
    ("2 1 0 4 2", "2 0 0 4 2", 3, "the variable 0 twice"),
    ("2 1 0 4 2", "2 1 0 -4 2", 3, "a default cost is -4"),
    ("2 1 0 4 2", "2 1 0 -1 sgrammar var 1", 3, "'sgrammar' is not supported"),
    ("2 1 10", "2 1 -10", 5, "the cost of a tuple is -10"),
    ("2 1 10", "3 1 10", 5, "a state of a tuple is 3, but must be at least 0 and less than 3"),
    ("2 1 10", "2 -1 10", 5, "a state of a tuple is -1"),
    ("2 1 10", "2 1 1.5", 5, "got '1.5'"),
    ("2 1 10", f"2 1 {2**63}", 5, "at most 64 bits"),
    ("0 -1", "0 -2", 8, "the number of tuples is -2, but must be at least -1"),
    ("1 0 0 -1", "1 1 0 -1", 8, "the shared cost function 1 has states (2,), its user has (3,)"),
    ("-1 2 0 1", "-1 2 0 9999", 8, "19998 words should follow"),
]


@pytest.mark.parametrize("seed", range(40))
def test_cost_functions_read_at_once_are_those_read_one_by_one(seed, monkeypatch):
    """The first file is whole; in the others a word is replaced, and so may be the message."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 6)
    functions = []
    for _ in range(60):
        scope = rng.permutation(6)[: rng.integers(0, 5)]
        rows = np.stack([rng.integers(0, sizes[scope], (40, scope.size))[i] for i in range(40)])
        rows = np.unique(rows, axis=0)[: rng.integers(0, 40)]
        functions.append(f"{scope.size} {' '.join(map(str, scope))} {rng.integers(0, 9)} {len(rows)}")
        functions += [" ".join(map(str, [*row, rng.integers(0, 12)])) for row in rows]
    functions[0:0] = ["-1 0 3 0"]
    functions += ["1 0 0 -1"]
    words = f"large 6 3 62 10 {' '.join(map(str, sizes))}".split() + "\n ".join(functions).split(" ")
    if seed:
        words[rng.integers(len(words))] = str(rng.choice(["-1", "7", "x", "2.5", "1-2", "3", str(2**64)]))
    text, found = " ".join(words), []
    for many in (2**15, 1):
        monkeypatch.setattr("cutplane.graphical.files.wcsp._MANY", many)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                model = read_wcsp(io.StringIO(text))
                factors = map(model.factor, range(model.n_factors))
                parts = model.cardinalities, model.unaries, model.constant
                found.append([np.asarray(part).tolist() for part in parts])
                found[-1] += sorted((factor.variables, factor.table.tolist()) for factor in factors)
            except InvalidInputError as error:
                found.append([str(error)])
            found[-1].append([str(warning.message) for warning in heard])
    assert found[0] == found[1], text
    if not seed:
        assert len(found[0]) > 2 and agree(model, FORMATS["wcsp"].slow(text))


@pytest.mark.parametrize("seed", range(10))
def test_files_written_in_blocks_are_those_written_at_once(seed, monkeypatch):
    model, texts = random_model(np.random.default_rng(seed), n=8, hard=0.2), []
    for block in (2**18, 5):
        monkeypatch.setattr("cutplane.graphical.files.builder._BLOCK", block)
        file = io.StringIO()
        write_uai(model, file)
        write_wcsp(model, file)
        write_cfn(model, file)
        texts.append(file.getvalue())
    assert texts[0] == texts[1]


CFN_ERRORS = [
    ('"f": {', '"f": {{', 1, "a bracket is not closed"),
    ("}}}}", "}}}}}", 6, "'}' has no opening bracket"),
    ('"mustbe": "<9.0"', "", 1, "one bound"),
    ("<9.0", "<nine", 1, "expected one bound"),
    ('"y": 2', '"x": 2', 2, "'x' is defined twice"),
    ('"y": 2', '"y": 0', 2, "at least one state"),
    ('"y": 2', '"y": 9999999999', 2, "more than"),
    ('["a", "b"]', '["a", "a"]', 2, "no name twice"),
    ('["x", "y"], "costs"', '["x", "z"], "costs"', 3, "no variable 'z'"),
    ('["x", "y"], "costs"', '["x", "x"], "costs"', 3, "the variable 0 twice"),
    ("3, 4]", "3]", 3, "expected 4 costs"),
    ("3, 4]", "3, four]", 3, "'four'"),
    ('["a", 1]', '["c", 1]', 4, "no state 'c'"),
    ('["a", 1]', '["a", 1, "b"]', 4, "rows of 1 states and a cost"),
    ('["a", 1]', '"k"', 4, 'no function "k"'),
    ('["a", 1]', '"f"', 4, "other numbers of states"),
    ('"defaultcost"', '"default"', 4, "expected a function with a scope"),
    ("wsum", "sgrammar", 5, "not supported"),
    ('"to": 1', '"to": 1.5', 6, "an integer"),
    ('"to": 1', '"to": 1, "max": 3', 6, "more parameters"),
    (', "to": 1', "", 6, "expected the right-hand side"),
    ('"hard"', '"soft"', 6, "one of hard, lin, quad"),
    ('"<9.0"', '">9.0"', 5, "only possible where the file says to minimise"),
]
EVIDENCE_ERRORS = [
    ("", 1, "the number of samples should follow"),
    ("2\n1 0 0\n1 0 1", 1, "there are 2 samples"),
    ("2\n0 1\n", 2, "ends too early; an observed variable should follow"),
    ("1\n5 0", 2, "an observed variable is 5"),
    ("1\n1 3", 2, "the state of variable 1 is 3, but must be at least 0 and less than 3"),
    ("2 1 0\n1 2", 2, "the variable 1 is observed twice"),
    ("1 1 0 1 2", 1, "'2' follows the evidence"),
]
OTHER_ERRORS = [
    ("cfn", CFN + '"', 7, "a quotation mark is not closed"),
    ("cfn", CFN.replace('"f"', '"f'), 3, "a quotation mark is not closed"),
    ("cfn", "{{p <9} {x 2 y 3}\n{f {scope [x] costs [1 2]} g {scope [y] costs f}}}", 2, "other numbers of"),
    ("uai", "MARKOV\n2\n2 2\n1 " + 25 * "9" + " 0 1\n4\n1 2 3 4\n", 4, "a factor of 9999"),
    ("wcsp", "n 2 2 1 10\n2 2\n2 0 1 0 2\n0 1 -\n1 1 2\n", 4, "got '-'"),
    ("wcsp", "n 2 2 1 10\n2 2\n2 0 1 0 2\n0 - 1-0\n1 1 2\n", 4, "got '-'"),
    ("wcsp", "n 2 2 1 10\n2 2\n2 0 1 0 2\n0 + 3\n1 1 2\n4\n", 4, "got '+'"),
    ("wcnf", "p cnf 2 1\n1 3 0", 2, "the literal 3"),
    ("wcnf", "p cnf 2 2\n1 2 0", 2, "there are 1 clauses"),
    ("wcnf", "p dnf 2 2\n1 2 0", 1, "one of cnf, wcnf"),
    ("wcnf", "p wcnf 2 1 9\n-1 2 0", 2, "at least 0"),
    ("wcnf", "p cnf 2 1\n1 2", 2, "ends too early"),
    ("wcnf", "p cnf 9999999999 0", 1, "more than"),
    ("qpbo", "2 1\n1 3 1", 2, "a variable is 3"),
    ("qpbo", "2 1\n1 2 inf", 2, "must be finite"),
    ("qpbo", "2 1\n1 2 -1e400", 2, "must be finite"),
    ("qpbo", "2 2\n1 2 1", 2, "6 words should follow"),
    ("wcsp", "t 3 2 1 9\n2 2 2\n3 0 1 2 -1 >= 0 0", 3, "has 2 variables, not 3"),
    ("wcsp", "t 3 2 1 9\n2 2 2\n3 0 1 2 -1 woverlap hard 1 == 0", 3, "same length"),
    ("wcsp", "t 3 2 1 9\n2 2 2\n3 0 1 2 -1 ssame 1 1 1 0 0", 3, "without repetitions"),
    ("wcsp", "t 3 2 1 9\n2 2 2\n2 0 1 -1 ssame 1 1 1 0 2", 3, "the variable 2 is not one"),
    ("wcsp", "t 3 2 1 9\n2 2 2\n3 0 1 2 -1 sgcc var 1 1 0 0 1", 3, "use 'dec'"),
    ("wcsp", "t 3 2 1 9\n2 2 2\n3 0 1 2 -1 sregular var 1 2 1 0 1 1 1 0 0 2", 3, "2 states"),
    ("wcsp", "t 3 2 1 9\n2 2 2\n3 0 1 2 -1 wregular 1 1 0 -4 1 0 0 0", 3, "a cost is -4"),
    ("wcsp", "t 3 2 1 9\n2 2 2\n3 0 1 2 -1 knapsackv 1 1 5 1 1", 3, "the weight of the variable 5"),
]
READ = {
    "uai": read_uai,
    "wcsp": read_wcsp,
    "evid": lambda path: read_uai(io.StringIO(UAI), path),
    "cfn": read_cfn,
    "wcnf": read_wcnf,
    "qpbo": read_qpbo,
}
TEXT = {"uai": UAI, "wcsp": WCSP, "cfn": CFN}
ERRORS = {"uai": UAI_ERRORS, "wcsp": WCSP_ERRORS, "evid": EVIDENCE_ERRORS, "cfn": CFN_ERRORS}
ERRORS = [(kind, *case) for kind, cases in ERRORS.items() for case in cases] + OTHER_ERRORS
"""Texts, or words and what replaces them in the text of the format; the line; a part of the message."""


@pytest.mark.parametrize(
    "kind, text, line, fragment",
    [
        (kind, change[0] if len(change) == 1 else TEXT[kind].replace(*change), line, fragment)
        for kind, *change, line, fragment in ERRORS
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name_and_line(kind, text, line, fragment, tmp_path):
    path = tmp_path / f"model.{kind}"
    path.write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        READ[kind](path)
    message = str(caught.value)
    assert message.startswith(f"{path}, line {line}: ") and fragment in message


@pytest.mark.parametrize("costs, line", [([3, 4], 5), ([3, 4, 3], 6), ([3, 3, 4], 6)])
@pytest.mark.parametrize("n_states", [2, 5])
def test_a_tuple_that_is_given_twice_is_said(costs, line, n_states):
    """Also in a table of many variables, which is no table."""
    n = 2 if n_states == 2 else 6
    rows = "\n".join(f"{'1 ' * n}{cost}" for cost in costs)
    text = f"t {n} 9 1 10\n{f'{n_states} ' * n}\n{n} {' '.join(map(str, range(n)))} 0 {len(costs)}\n{rows}\n"
    with pytest.warns(UserWarning, match=rf"the file, line {line}: the tuple \(1, .*1\) is given again"):
        model = read_wcsp(io.StringIO(text))
    assert model.energy(model.complete([1] * n)) == costs[-1]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("kind", TEXTS)
def test_byte_order_marks_and_line_ends_change_nothing(kind, encoding, ends, tmp_path):
    read, text, mark = FORMATS[kind].read, FORMATS[kind].texts[0], "\ufeff" * (encoding == "utf-16-be")
    path = tmp_path / "marked"
    path.write_bytes((mark + text.replace("\n", ends)).encode(encoding))
    model, plain = read(path), read(io.StringIO(text))
    assert model.terms([0] * model.n_variables).tolist() == plain.terms([0] * model.n_variables).tolist()
    path.write_bytes((mark + text.replace("\n", ends) + "x }").encode(encoding))
    with pytest.raises(InvalidInputError, match=f"line {text.count(chr(10)) + 1}: "):
        read(path)


def test_what_is_no_text_is_refused():
    with pytest.raises(InvalidInputError, match="is no text file: its byte 3 is zero"):
        read_uai(io.BytesIO(b"PK\3\0"))


@pytest.mark.parametrize("data", [gzip.compress(UAI.encode(), mtime=0)[:-9], b"\x1f\x8bnothing"])
def test_damaged_archives_are_refused(data):
    with pytest.raises(InvalidInputError, match="cannot be decompressed"):
        read_uai(io.BytesIO(data))


def test_what_is_no_file_is_refused():
    with pytest.raises(InvalidInputError, match="path or a file object, got int"):
        read_uai(7)
    with pytest.raises(FileNotFoundError):
        read_uai("no such file.uai")
    with pytest.raises(InvalidInputError, match="upper_bound"):
        read_wcsp(io.StringIO(WCSP), upper_bound=-1)


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({1: 1.5}, "variable 1 has the state 1.5; it must be an integer from 0 to 2"),
        ({1: True}, "variable 1 has the state True"),
        ({1: "2"}, "variable 1 has the state '2'"),
        ({1: -1}, "variable 1 has the state -1"),
        ({1: 3}, "variable 1 has the state 3"),
        ({1: None}, "variable 1 has the state None"),
        ({2: 0}, "names the variable 2; it must be an integer from 0 to 1"),
        ({-1: 0}, "names the variable -1"),
        ({0.5: 0}, "names the variable 0.5"),
        ({"0": 0}, "names the variable '0'"),
        ({True: 0}, "names the variable True"),
    ],
)
def test_evidence_that_names_no_state_is_refused(evidence, message):
    with pytest.raises(InvalidInputError, match=message):
        read_uai(io.StringIO(UAI), evidence)


def test_files_compressed_by_xz_are_read(tmp_path):
    lzma = pytest.importorskip("lzma")
    path = tmp_path / "model.wcsp.xz"
    path.write_bytes(lzma.compress(b"t 1 2 1 9\n2\n1 0 3 1\n1 5\n"))
    assert read_wcsp(path).unary(0).tolist() == [3.0, 5.0]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InvalidInputError, match="cannot be decompressed"):
        read_wcsp(path)
