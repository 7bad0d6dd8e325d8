"""Model files: energies against slow parsers that share nothing with the fast ones; errors by their lines."""

import gzip
import io
import math
import tempfile
import warnings

import numpy as np
import pytest
from graphical_models import SPECIAL, random_model
from hypothesis import given, settings
from hypothesis import strategies as st

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.files.cfn import write_cfn
from cutplane.graphical.files.uai import read_uai, write_uai
from cutplane.graphical.files.wcsp import read_wcsp, write_wcsp
from cutplane.graphical.model import GraphicalModel

INF = math.inf
UAI = "MARKOV\n2\n2 3\n2\n2 1 0\n1 1\n\n6\n1 2  0 1\n1 8\n3\n.5 1e0 2.\n"
WCSP = "name 3 3 3 10\n2 3 2\n2 1 0 4 2\n0 0 1\n2 1 10\n-1 2 0 1\n1 6\n1 0 0 -1\n"


def uai_energy(text, x):
    """Parse word by word and look one labelling up, the slow way."""
    words = iter(text.split())
    next(words)
    cardinalities = [int(next(words)) for _ in range(int(next(words)))]
    scopes = [[int(next(words)) for _ in range(int(next(words)))] for _ in range(int(next(words)))]
    energy = 0.0
    for scope in scopes:
        table = [float(next(words)) for _ in range(int(next(words)))]
        place = 0
        for u in scope:
            place = place * cardinalities[u] + int(x[u])
        energy += -math.log(table[place]) if table[place] > 0 else INF
    assert next(words, None) is None
    return energy


def wcsp_energy(text, x, upper_bound=None):
    words = iter(text.split())
    next(words)
    n, _, count, bound = (int(next(words)) for _ in range(4))
    bound = bound if upper_bound is None else upper_bound
    for _ in range(n):
        next(words)
    energy, shared = 0, []
    for _ in range(count):
        arity = int(next(words))
        states = [int(x[int(next(words))]) for _ in range(abs(arity))]
        default, n_tuples = int(next(words)), int(next(words))
        costs = shared[-n_tuples - 1] if n_tuples < 0 else {}
        for _ in range(max(n_tuples, 0)):
            key = tuple(int(next(words)) for _ in states)
            costs[key] = int(next(words))
        if arity < 0:
            shared.append(costs)
        cost = costs.get(tuple(states), default)
        energy += cost if cost < bound else INF
    return energy


def labellings(rng, model, count=20):
    return [rng.integers(0, model.cardinalities) for _ in range(count)]


def written(model):
    file = io.StringIO()
    write_uai(model, file)
    return file.getvalue()


def assert_same(model, back, rng, text=None):
    assert (back.cardinalities == model.cardinalities).all()
    for x in labellings(rng, model):
        energy = model.energy(x)
        assert back.energy(x) == pytest.approx(energy, rel=1e-12, abs=1e-12)
        if text is not None:
            assert uai_energy(text, x) == pytest.approx(energy, rel=1e-12, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([1e-3, 1.0, 40.0, 3000.0]))
def test_a_model_that_is_written_and_read_has_the_same_energies(seed, hard, scale):
    rng = np.random.default_rng(seed)
    shape = random_model(rng, hard=hard)
    factors = [shape.factor(a) for a in range(shape.n_factors)]
    offsets = scale * rng.normal(size=shape.n_factors)
    factors = [
        (scope, min(scale, 40.0) * table + t) for (scope, table), t in zip(factors, offsets, strict=True)
    ]
    factors += [((u,), shape.unary(u)) for u in range(shape.n_variables)]
    model = GraphicalModel(shape.cardinalities, factors, constant=scale * shape.constant)
    text = written(model)
    assert_same(model, read_uai(io.StringIO(text)), rng, text)


@pytest.mark.parametrize("name", SPECIAL)
def test_special_models_come_back(name):
    model = SPECIAL[name]
    text = written(model)
    assert_same(model, read_uai(io.StringIO(text)), np.random.default_rng(0), text)


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
    for x in labellings(rng, model):
        assert model.energy(x) == pytest.approx(uai_energy(text, x), rel=1e-12, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([None, 5, 1e9, INF]))
@pytest.mark.filterwarnings("ignore:.*given again")
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
        tuples = [
            (*rng.integers(0, cardinalities[scope]), rng.integers(0, 20)) for _ in range(rng.integers(4))
        ]
        lines.append([-len(scope) if define else len(scope), *scope, default, len(tuples)])
        lines += tuples
        if define:
            shared.append((scope, default, len(shared) + 1))
    parts = [["name", 5, 3, 7, 10], cardinalities, *lines]
    text = "\n".join(" ".join(map(str, part)) for part in parts)
    model = read_wcsp(io.StringIO(text), upper_bound)
    for x in rng.integers(0, cardinalities, (20, 5)):
        assert model.energy(model.complete(x)) == wcsp_energy(text, x, upper_bound)


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


@pytest.mark.parametrize("mode", ["w+", "w+b"])
def test_open_files_are_written_as_text_or_bytes(mode):
    with tempfile.TemporaryFile(mode) as file:
        write_uai(read_uai(io.StringIO(UAI)), file)
        file.seek(0)
        assert read_uai(file).cardinalities.tolist() == [2, 3]


@pytest.mark.parametrize("evidence", ["1\n1 1 2\n", "1 1 2", b"1 1 2\n", {1: 2}])
def test_evidence_leaves_one_state(evidence, tmp_path):
    if isinstance(evidence, bytes):
        evidence, content = tmp_path / "model.uai.evid", evidence
        evidence.write_bytes(content)
    elif isinstance(evidence, str):
        evidence = io.StringIO(evidence)
    model, plain = read_uai(io.StringIO(UAI), evidence), read_uai(io.StringIO(UAI))
    assert model.energy([1, 1]) == INF and np.isfinite(plain.energy([1, 1]))
    assert model.energy([1, 2]) == plain.energy([1, 2])


@pytest.mark.parametrize("text", ["0", "1\n0\n"])
def test_no_evidence_changes_nothing(text):
    model = read_uai(io.StringIO(UAI), io.StringIO(text))
    assert model.energy([1, 1]) == read_uai(io.StringIO(UAI)).energy([1, 1])


def test_potentials_beyond_the_range_of_a_float_are_read():
    text = "MARKOV 1 5 1 1 0 5 1e-400 0.0e-5 3e500 4.9e-324 1"
    ln10 = math.log(10)
    expected = [400 * ln10, INF, -math.log(3) - 500 * ln10, -math.log(4.9e-324), 0.0]
    assert read_uai(io.StringIO(text)).unary(0) == pytest.approx(np.array(expected), rel=1e-14)
    assert not np.signbit(read_uai(io.StringIO(text)).unary(0)[4])


@pytest.mark.parametrize(
    "model",
    [
        GraphicalModel([2], [((0,), [1e5, 1e5 + 1399.0])]),
        GraphicalModel([2, 2], [((0, 1), [[-5000.0, INF], [-6000.0, -5000.5]])], constant=-1e6),
        GraphicalModel([3, 1], [((0,), [0.0, -705.0, 690.0])], constant=1e-9),
        GraphicalModel([2], constant=-3.0),
        GraphicalModel([], constant=1e4),
        GraphicalModel([2, 2], constant=INF),
        GraphicalModel([1] * 64, [(range(64), np.full((1,) * 64, 2.5))]),
    ],
)
def test_extreme_energies_come_back(model):
    text = written(model)
    assert "inf" not in text and "nan" not in text
    values = [float(word) for word in text.split()[1:]]
    assert all(value == 0.0 or value >= np.finfo(float).tiny for value in values)
    assert_same(model, read_uai(io.StringIO(text)), np.random.default_rng(0), text)


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
    (UAI.replace("2 1 0", "2 1 2"), 5, "a variable is 2, but must be at least 0 and less than 2"),
    (UAI.replace("2 1 0", "2 1 -1"), 5, "a variable is -1"),
    (UAI.replace("2 1 0", "2 1 1"), 5, "the variable 1 twice"),
    (UAI.replace("2 1 0", "2 1 0.5"), 5, "a variable, an integer of at most 64 bits, got '0.5'"),
    (UAI.replace("2 1 0", "-2 1 0"), 5, "the arity of a factor is -2"),
    (UAI.replace("2 1 0", "65 " + "0 " * 65), 5, "65 variables is too large"),
    (UAI.replace("\n6\n", "\n5\n"), 8, "has 5 entries, its variables need 6"),
    (UAI.replace("\n6\n", "\n6.\n"), 8, "the size of the table of factor 0, an integer, got '6.'"),
    (UAI.replace("1 8", "1 -8"), 10, "a potential is -8"),
    (UAI.replace("1 8", "1 nan"), 10, "a potential is nan"),
    (UAI.replace("1 8", "1 inf"), 10, "a potential is inf, but must be finite"),
    (UAI.replace("1 8", "1 -1e-400"), 10, "a potential is -1e-400"),
    (UAI.replace("1 8", "1 1e-99999999999999999999"), 10, "exponent of the potential 1e-9"),
    (UAI.replace("1 8", "1 -1e999"), 10, "a potential is -inf"),
    (UAI.replace("1 8", "1 8,0"), 10, "expected a potential, got '8,0'"),
    (UAI.replace("1 8", "1 1_0"), 10, "expected a potential, got '1_0'"),
    (UAI.replace("1 8", "1 " + "z" * 100), 10, "got '" + "z" * 40 + "...'"),
    (UAI.replace(" 2.", ""), 12, "ends too early; 3 words should follow: the table of factor 1"),
    (UAI + "\n7\n", 14, "'7' follows the last table"),
    (UAI.split("\n\n")[0], 6, "the size of the table of factor 0 should follow"),
    (UAI.replace("1 8", "1 8-2"), 10, "expected a potential, got '8-2'"),  # numpy reads two numbers
    (UAI.replace("2 1 0", f"2 1 {2**70}"), 5, f"at most 64 bits, got '{2**70}'"),  # numpy reads 2**63 - 1
    (UAI.replace("2 1 0", "2 1 -1"), 5, "a variable is -1"),
    (UAI.replace("2 1 0", "2 1 1"), 5, "the variable 1 twice"),
]
WCSP_ERRORS = [
    ("", 1, "the name of the problem should follow"),
    ("name 1 2 0", 1, "the upper bound should follow"),
    ("name 1 2 0 -5\n2", 1, "the upper bound is -5"),
    ('{"problem": {"name": "p",\n"mustbe": "<10"}}', 1, "in the CFN format"),
    (UAI, 1, "in the UAI format; use read_uai"),
    (WCSP.replace("name 3 3", "name 3 2"), 2, "variable 1 has 3 states, but the first line says at most 2"),
    (WCSP.replace("2 3 2\n", "2 3 -2\n"), 2, "variable 2 has -2 states"),
    (WCSP.replace("2 1 0 4 2", "2 1 3 4 2"), 3, "a variable is 3"),
    (WCSP.replace("2 1 0 4 2", "2 0 0 4 2"), 3, "the variable 0 twice"),
    (WCSP.replace("2 1 0 4 2", "2 1 0 -4 2"), 3, "a default cost is -4"),
    (WCSP.replace("2 1 0 4 2", "2 1 0 -1 sgrammar var 1"), 3, "'sgrammar' is not supported"),
    (WCSP.replace("2 1 10", "2 1 -10"), 5, "the cost of a tuple is -10"),
    (WCSP.replace("2 1 10", "3 1 10"), 5, "the state 3 of a variable that has 3 states"),
    (WCSP.replace("2 1 10", "2 -1 10"), 5, "the state -1 of a variable that has 2 states"),
    (WCSP.replace("2 1 10", "2 1 1.5"), 5, "got '1.5'"),
    (WCSP.replace("2 1 10", f"2 1 {2**63}"), 5, "at most 64 bits"),
    (WCSP.replace("0 -1", "0 -2"), 8, "the number of tuples is -2, but must be at least -1"),
    (
        WCSP.replace("1 0 0 -1", "1 1 0 -1"),
        8,
        "the shared cost function 1 has states (2,), its user has (3,)",
    ),
    (WCSP.replace("-1 2 0 1", "-1 2 0 9999"), 8, "19998 words should follow"),
    (WCSP + "0 0 0", 9, "'0' follows the last cost function"),
    (
        "huge 3 999 1 9\n" + "999 " * 3 + "\n3 0 1 2 0 0",
        3,
        "entries; all tables",
    ),
    (
        "wide 70 1 1 9\n" + "1 " * 70 + "\n-70 " + " ".join(map(str, range(70))) + " 0 0",
        3,
        "70 variables is too",
    ),
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
        x = rng.integers(0, sizes)
        assert len(found[0]) > 2 and model.energy(model.complete(x)) == wcsp_energy(text, x)


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


EVIDENCE_ERRORS = [
    ("", 1, "the number of samples should follow"),
    ("2\n1 0 0\n1 0 1", 1, "there are 2 samples"),
    ("2\n0 1\n", 2, "ends too early; an observed variable should follow"),
    ("1\n5 0", 2, "an observed variable is 5"),
    ("1\n1 3", 2, "the state of variable 1 is 3, but must be at least 0 and less than 3"),
    ("2 1 0\n1 2", 2, "the variable 1 is observed twice"),
    ("1 1 0 1 2", 1, "'2' follows the evidence"),
]
READ = {
    "uai": read_uai,
    "wcsp": read_wcsp,
    "evid": lambda path: read_uai(io.StringIO(UAI), path),
}


@pytest.mark.parametrize(
    "kind, text, line, fragment",
    [
        (kind, *case)
        for kind, cases in [("uai", UAI_ERRORS), ("wcsp", WCSP_ERRORS), ("evid", EVIDENCE_ERRORS)]
        for case in cases
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name_and_line(kind, text, line, fragment, tmp_path):
    path = tmp_path / f"model.{kind}"
    path.write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        READ[kind](path)
    message = str(caught.value)
    assert message.startswith(f"{path}, line {line}: ") and fragment in message


def test_a_tuple_that_is_given_twice_is_said():
    with pytest.warns(UserWarning, match=r"the file, line 5: the tuple \(2, 1\) is given again"):
        model = read_wcsp(io.StringIO(WCSP.replace("0 0 1\n", "2 1 3\n").replace("2 1 10\n", "2 1 4\n")))
    assert model.factor(0).table[1, 2] == 4.0


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("kind", READ)
def test_byte_order_marks_and_line_ends_change_nothing(kind, encoding, ends, tmp_path):
    text = {"uai": UAI, "wcsp": WCSP, "evid": "1\n1 1 2\n"}[kind]
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    path, plain = tmp_path / "marked", tmp_path / "plain"
    plain.write_text(text)
    path.write_bytes((mark + text.replace("\n", ends)).encode(encoding))
    x = [0] * READ[kind](plain).n_variables
    assert READ[kind](path).terms(x).tolist() == READ[kind](plain).terms(x).tolist()
    path.write_bytes((mark + text.replace("\n", ends) + "x y").encode(encoding))
    with pytest.raises(InvalidInputError, match=f"line {text.count(chr(10)) + 1}: 'x' follows"):
        READ[kind](path)


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
    text = "MARKOV\n2\n2 3\n1\n2 0 1\n6\n1 2 3 4 5 6"
    with pytest.raises(InvalidInputError, match=message):
        read_uai(io.StringIO(text), evidence)


def test_evidence_may_be_of_numpy_integers():
    text = "MARKOV\n2\n2 3\n1\n2 0 1\n6\n1 2 3 4 5 6"
    model = read_uai(io.StringIO(text), {np.int64(1): np.int32(2)})
    assert np.isinf(model.unary(1)).tolist() == [True, True, False]


@pytest.mark.parametrize("tuples", ["0 1 -\n1 1 2", "0 - 1-0\n1 1 2", "0 + 3\n1 1 2\n4"])
def test_a_sign_alone_is_no_integer(tuples):
    with pytest.raises(InvalidInputError, match=r"line 4: expected .* a state or a cost, .* got '[-+]'"):
        read_wcsp(io.StringIO(f"n 2 2 1 10\n2 2\n2 0 1 0 2\n{tuples}\n"))


def test_an_arity_of_more_than_64_bits_is_too_large():
    with pytest.raises(InvalidInputError, match=r"line 4: a factor of 9{25} variables is too large"):
        read_uai(io.StringIO("MARKOV\n2\n2 2\n1 " + 25 * "9" + " 0 1\n4\n1 2 3 4\n"))
