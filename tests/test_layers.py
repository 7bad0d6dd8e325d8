"""The laws between the layers, read off the imports of every file."""

import ast
import importlib
import inspect
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import cutplane
from cutplane.pieces.capabilities import Capability

ROOT = Path(cutplane.__file__).parent
FILES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.rglob("*.py"))}

FORMULATION = ("risks", "regularizers", "sets", "losses", "measures", "pieces")
MASTERS = ("masters",)
PROOF = ("proof",)
ALGORITHM = ("engine", "methods")
SPECIAL = ("linear", "kernels", "mkl", "boosting", "graphical", "decomposition", "structured", "tracking")
FACES = ("estimators", "report", "distributed", "datasets", "testing")
HEAVY = ("cvxpy", "sklearn", "matplotlib", "pandas", "rich", "numba", "highspy", "dask", "torch", "jax")


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(FILES[name].read_text())


@cache
def imports(name: str) -> set[str]:
    """Every name the file imports, in functions and for typing too: a and a.b for `from a import b`."""
    package = ["cutplane", *name.split(".")[:-1]]
    found = set()
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *filter(None, [node.module])])
            found |= {source, *(f"{source}.{alias.name}" for alias in node.names)}
    return found


def within(module: str, parts: tuple[str, ...]) -> bool:
    return any(module == part or module.startswith(part + ".") for part in parts)


def offenders(layer: tuple[str, ...], forbidden: tuple[str, ...], allowed: tuple[str, ...] = ()) -> list[str]:
    banned = tuple(f"cutplane.{part}" for part in forbidden)
    excused = tuple(f"cutplane.{part}" for part in allowed)
    return [
        f"{name} imports {target}"
        for name in FILES
        if within(name, layer)
        for target in sorted(imports(name))
        if within(target, banned) and not within(target, excused)
    ]


def test_imports_are_seen_at_any_depth():
    assert "cutplane.risks.sums.WeightedSum" in imports("risks.base")  # inside a method
    assert "cutplane.methods.base" in imports("engine.run")  # under TYPE_CHECKING
    assert offenders(("engine",), ("masters",))  # a layer that does import another one


def test_formulation_knows_neither_algorithm_nor_solver():
    assert offenders(FORMULATION, (*ALGORITHM, *MASTERS, *PROOF, "problem", "result")) == []


def test_proof_knows_what_a_problem_is_and_nothing_else():
    """It imports what all layers share, and the protocols of the pieces: no pass, no search, no solver."""
    known = ("pieces", "runtime", "exceptions", "status", "risks.base", "regularizers.base", "sets.base")
    readable = tuple(f"cutplane.{part}" for part in (*PROOF, *known))
    assert [
        f"{name} imports {target}"
        for name in FILES
        if within(name, PROOF)
        for target in sorted(imports(name))
        if within(target, ("cutplane",)) and not within(target, readable)
    ] == []


def test_masters_know_neither_engine_nor_methods():
    assert offenders(MASTERS, (*ALGORITHM, "problem", "result")) == []


def test_engine_knows_no_method_but_their_interface():
    concrete = tuple(name for name in FILES if name.startswith("methods.") and name != "methods.base")
    exported = tuple(
        f"methods.{method}" for method in cutplane.methods.__all__ if method not in ("Method", "Step")
    )
    assert offenders(("engine",), concrete + exported) == []


def test_the_core_knows_no_special_problem():
    """The choice of a method alone knows the portfolio of linear moves, who follows a path, and machines."""
    core = tuple(
        name
        for name in FILES
        if within(name, (*FORMULATION, *MASTERS, *PROOF, *ALGORITHM, "problem", "result"))
    )
    assert offenders(tuple(name for name in core if name != "methods.auto"), SPECIAL) == []
    machines = ("kernels.decomposition", "kernels.newton", "tracking.methods")
    allowed = ("linear.portfolio", *machines)
    assert offenders(("methods.auto",), SPECIAL, allowed) == []


def test_only_the_front_knows_the_faces():
    on_demand = ("report.plotting", "report.progress")
    assert offenders((*FORMULATION, *MASTERS, *ALGORITHM, *SPECIAL), FACES, on_demand) == []


def test_what_all_layers_share_knows_no_layer():
    above = tuple(layer for layer in FORMULATION if layer != "pieces")
    assert offenders(("runtime",), (*above, *MASTERS, *ALGORITHM, *SPECIAL, *FACES)) == []
    assert offenders(("pieces",), above) == []


def test_no_file_imports_the_package_itself():
    modules = {"cutplane." + name.removesuffix(".__init__") for name in FILES}
    through_top = {"cutplane", *(f"cutplane.{name}" for name in vars(cutplane))} - modules
    assert [
        (name, found)
        for name in FILES
        if name not in ("__init__", "warmup")  # a user's script
        if (found := imports(name) & through_top)
    ] == []


def test_no_circle_of_imports_is_large():
    """Imports in functions and for typing count: a stranger who follows them comes to an end."""
    nodes = {"cutplane." + name: imports(name) for name, path in FILES.items() if path.name != "__init__.py"}
    edges = {name: [found for found in nodes[name] if found in nodes and found != name] for name in nodes}
    below = {name: reachable(name, edges) for name in nodes}
    circles = {frozenset(other for other in below[name] if name in below[other]) for name in nodes}
    largest = max(circles, key=len)
    assert len(largest) <= 3, sorted(largest)


def test_names_of_classes_are_unique():
    """Except the two estimates of the public interfaces: of a risk's value, and of a method's seconds."""
    places = {}
    for name in FILES:
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.ClassDef) and node.name != "Estimate":
                places.setdefault(node.name, []).append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def reachable(start: str, edges: dict[str, list[str]]) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        for name in edges[ahead.pop()]:
            if name not in found:
                found.add(name)
                ahead.append(name)
    return found


def test_import_is_light():
    code = (
        f"import sys, json, cutplane; print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == []


def undocumented(parent: ast.Module | ast.ClassDef, prefix: str) -> list[str]:
    missing = [] if ast.get_docstring(parent) else [prefix]
    for node in parent.body:
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if not named or node.name.startswith("_") or "overload" in map(ast.unparse, node.decorator_list):
            continue
        path = f"{prefix}.{node.name}"
        if isinstance(node, ast.ClassDef):
            missing += undocumented(node, path)
        elif not ast.get_docstring(node) and not (isinstance(parent, ast.ClassDef) and explained_above(path)):
            missing.append(path)
    return missing


def explained_above(path: str) -> bool:
    """A method that overrides one with a docstring, or offers a capability, needs none of its own."""
    *module, owner, name = path.split(".")
    bases = getattr(importlib.import_module("cutplane." + ".".join(module)), owner).__mro__[1:]
    return name in {kind.value for kind in Capability} or any(
        getattr(vars(base).get(name), "__doc__", None) for base in bases
    )


def test_every_public_name_has_a_docstring():
    assert [missing for name in FILES for missing in undocumented(tree(name), name)] == []


def test_every_exported_name_has_a_docstring_of_its_own():
    exported = {name: item for name, item in vars(cutplane).items() if not name.startswith("_")}
    assert [
        name for name, item in exported.items() if not inspect.isdatadescriptor(item) and not item.__doc__
    ] == []


def test_files_are_short():
    lengths = {name: len(path.read_text().splitlines()) for name, path in FILES.items()}
    assert {name: length for name, length in lengths.items() if length > 600} == {}


def is_number(node: ast.expr | None) -> bool:
    """Whether a number, a tuple of numbers, or computed from one, such as -3, 2**-52 and 4 * EPS."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) or is_number(right)
        case ast.Tuple(elts=[*elements]):
            return bool(elements) and all(map(is_number, elements))
    return False


def unreasoned(module: ast.Module) -> list[str]:
    """Numeric module constants that no docstring with "because" follows; A, B = 1, 2 shares one."""
    missing = []
    for node, below in zip(module.body, [*module.body[1:], None], strict=True):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not is_number(node.value):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [found.id for target in targets for found in ast.walk(target) if isinstance(found, ast.Name)]
        match below:
            case ast.Expr(value=ast.Constant(value=str(reason))) if "because" in reason.lower():
                continue
        missing += [name for name in names if name.isupper()]
    return missing


def test_constants_have_a_reason():
    """A number in the code is relative to the data, and the docstring under it says why: "because ..."."""
    assert unreasoned(ast.parse('A = -(2**3)\n"""Noise."""\nB, C = 1, 2.0\nD: int = 4 * A')) == [
        "A",
        "B",
        "C",
        "D",
    ]
    assert unreasoned(ast.parse('A, B = 1, 2\n"""Entries, because of memory."""\nC = True\nd = 1')) == []
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for module, path in FILES.items()
        for name in unreasoned(tree(module))
    ]
    assert found == []
