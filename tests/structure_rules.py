"""Rules for the shape of the code: each takes a module and yields what breaks it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).parent.parent
MOST_MODULE_LINES = 400
MOST_FUNCTION_LINES = 60
MOST_PARAMETERS = 6

# Whoever hands work to threads, or counts them (stats).
THREAD_MODULES = {
    "metatwist.broker.assembly",
    "metatwist.broker.background",
    "metatwist.broker.loading",
    "metatwist.broker.stats",
    "metatwist.broker.syncing",
    "metatwist.client.delivery.in_threads",
    "metatwist.client.offsets.file",
    "metatwist.client.offsets.sql",
    "metatwist.client.one_thread",
    "metatwist.coordination.embedded.service",
    "metatwist.coordination.kazoo_bridge",
    "metatwist.coordination.kazoo_handler",
    "metatwist.tools.descriptors",
}
REACTOR_MODULES = {
    "metatwist.broker.tap",
    "metatwist.dashboard.tap",
    "metatwist.tools.running",
}
FILE_MODULES = {
    "metatwist.broker.storage.files",
    "metatwist.broker.storage.archive",
}
SYSTEM_CALLS = {"fcntl", "mmap", "os", "shutil", "tempfile"}
FILE_METHODS = {"read_bytes", "read_text", "write_bytes", "write_text"}
CLOCKS = {"datetime", "sched", "time"}
IMPURE = {"asyncio", "logging", "select", "socket", "threading", "twisted"} | CLOCKS
OUTER_EDGES = {  # where any exception may arrive, and is logged or answered
    "metatwist.broker.admin_request",
    "metatwist.broker.commit",
    "metatwist.broker.dispatch",
    "metatwist.broker.filters",
    "metatwist.broker.lane",
    "metatwist.broker.schedule",
    "metatwist.broker.settings.endpoint",
    "metatwist.broker.syncing",
    "metatwist.broker.turn",
    "metatwist.client.delivery.accepting",
    "metatwist.client.delivery.delivery",
    "metatwist.client.delivery.outcomes",
    "metatwist.client.discovery.address_endpoint",
    "metatwist.client.link",
    "metatwist.client.producing.selectors",
    "metatwist.client.telling",
    "metatwist.coordination.kazoo_bridge",
    "metatwist.coordination.kazoo_handler",
    "metatwist.tools.running",
}
# What the command line loads inside of the functions that need it, and not before.
LOADED_LATE = ("metatwist.client", "metatwist.tools")


@frozen
class Module:
    """One source file: its dotted name, its text and its tree."""

    name: str
    text: str
    tree: ast.Module

    @classmethod
    def of(cls, name: str, text: str) -> Module:
        """Parse `text`."""
        return cls(name, text, ast.parse(text))

    @property
    def imports(self) -> set[str]:
        """Dotted names of all that is imported anywhere in it; of `from a import b`
        both `a` and `a.b`."""
        found: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                source = node.module or ""
                found.add(source)
                found |= {f"{source}.{alias.name}" for alias in node.names}
        return found

    def imports_from(self, *packages: str) -> set[str]:
        """The imports that are one of `packages` or lie in one."""
        return {name for name in self.imports if within(name, packages)}

    @property
    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """All functions and methods, nested ones too."""
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node


def within(name: str, packages: tuple[str, ...] | set[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in packages)


def modules_below(*folders: str) -> list[Module]:
    """The modules in folders of the project."""
    found = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if "build" not in parts:
                name = ".".join(parts).removesuffix(".__init__")
                found.append(Module.of(name, path.read_text(encoding="utf-8")))
    return found


PACKAGE = modules_below("metatwist", "twisted")
BY_NAME = {module.name: module for module in PACKAGE}


def own_imports(module: Module) -> set[str]:
    """The modules of this package that come with a module; of the command line not
    those that wait for the function that needs them."""
    found = module.imports
    if within(module.name, ("metatwist.cli",)):
        late = {name for name in found if within(name, LOADED_LATE)}
        found -= late - imports_at_top(module)
    return {name for name in found if name in BY_NAME}


def imports_at_top(module: Module) -> set[str]:
    """What an import of the module itself imports."""
    return Module(module.name, "", ast.Module(_top_level(module.tree), [])).imports


def reached_from(module: Module) -> set[str]:
    """The modules of this package that importing one brings in."""
    seen: set[str] = set()
    waiting = [module.name]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += own_imports(BY_NAME[name])
    return seen


# -- layers ---------------------------------------------------------------------


def impure_wire(module: Module) -> Iterator[str]:
    """`wire` is sans-I/O: the standard library, and a few modules of ours."""
    if not within(module.name, ("metatwist.wire",)):
        return
    yield from module.imports_from("os", *IMPURE)
    ours = ("metatwist.wire", "metatwist.model", "metatwist.errors")
    yield from _foreign(module, (*ours, "metatwist.message_times", "isal"))


def impure_storage(module: Module) -> Iterator[str]:
    """`broker.storage` knows no reactor, clock or socket; the system, in two files."""
    if not within(module.name, ("metatwist.broker.storage",)):
        return
    yield from module.imports_from(*IMPURE)
    ours = ("metatwist.broker.storage", "metatwist.model", "metatwist.errors")
    base = ("metatwist.data_directory", "metatwist.message_times")
    yield from _foreign(module, (*ours, *base, "metatwist.wire.records", "attrs"))
    if module.name in FILE_MODULES:
        return
    yield from module.imports_from(*SYSTEM_CALLS)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id == "open":
                yield "open()"
            if isinstance(called, ast.Attribute) and called.attr in FILE_METHODS:
                yield f".{called.attr}()"


def impure_base(module: Module) -> Iterator[str]:
    """Values and errors need the standard library only."""
    base = {"data_directory", "model", "errors", "message_times", "local_socket"}
    if module.name in {f"metatwist.{name}" for name in base}:
        yield from _foreign(module, ())


def crossed_layers(module: Module) -> Iterator[str]:
    """Packages that may not know of each other."""
    forbidden = {
        "metatwist.client": (
            "metatwist.broker",
            "metatwist.cli",
            "metatwist.dashboard",
            "metatwist.tools",
        ),
        "metatwist.tools": (
            "metatwist.broker",
            "metatwist.cli",
            "metatwist.dashboard",
        ),
        "metatwist.dashboard": ("metatwist.broker.storage",),
        "metatwist.testing": (
            "metatwist.broker",
            "metatwist.cli",
            "metatwist.client",
            "metatwist.dashboard",
        ),
        "metatwist.cli": ("twisted",),
        "metatwist.broker": ("metatwist.dashboard", "metatwist.cli"),
        "twisted.plugins": ("metatwist",),
    }
    for package, others in forbidden.items():
        if within(module.name, (package,)):
            yield from module.imports_from(*others)
    if within(module.name, ("metatwist.cli",)):
        early = imports_at_top(module)
        yield from sorted(name for name in early if within(name, LOADED_LATE))


def stray_threads(module: Module) -> Iterator[str]:
    """Threads appear where they are listed."""
    if module.name not in THREAD_MODULES:
        yield from module.imports_from(
            "concurrent",
            "multiprocessing",
            "threading",
            "twisted.internet.threads",
            "twisted.python.threadpool",
        )


def stray_reactor(module: Module) -> Iterator[str]:
    """The reactor is imported in the taps, inside a function: an import must not
    choose the event loop."""
    if "twisted.internet.reactor" not in module.imports:
        return
    if module.name not in REACTOR_MODULES:
        yield "the reactor"
    if "twisted.internet.reactor" in imports_at_top(module):
        yield "the reactor at module level"


def _top_level(tree: ast.Module) -> list[ast.stmt]:
    kinds = (ast.Import, ast.ImportFrom)
    return [node for node in tree.body if isinstance(node, kinds)]


def _foreign(module: Module, allowed: tuple[str, ...]) -> Iterator[str]:
    """Imports outside of `allowed` and the standard library."""
    for name in sorted(module.imports):
        standard = name.partition(".")[0] in sys.stdlib_module_names
        if not standard and not within(name, allowed):
            yield name


# -- sizes and words ------------------------------------------------------------


def too_long(module: Module) -> Iterator[str]:
    """A file or function that has grown a second job."""
    lines = module.text.count("\n")
    if lines > MOST_MODULE_LINES:
        yield f"{lines} lines"
    for function in module.functions:
        lines = (function.end_lineno or 0) - function.lineno + 1
        if lines > MOST_FUNCTION_LINES:
            yield f"{function.name}: {lines} lines"


def too_many_parameters(module: Module) -> Iterator[str]:
    """Past the limit a frozen value does better."""
    for function in module.functions:
        its = function.args
        every = (*its.posonlyargs, *its.args, *its.kwonlyargs)
        count = sum(one.arg not in ("self", "cls") for one in every)
        if count > MOST_PARAMETERS:
            yield f"{function.name}: {count} parameters"


def undocumented(module: Module) -> Iterator[str]:
    """Each module and each public class says what it is."""
    if module.text.strip() and not ast.get_docstring(module.tree):
        yield "the module"
    for node in module.tree.body:
        public = isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        if public and not ast.get_docstring(node):
            yield f"class {node.name}"


def swallowed(module: Module) -> Iterator[str]:
    """No bare `except`; `except Exception` at the outer edges only. Cleaning up and
    raising again is fine."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        if node.type is None:
            yield f"line {node.lineno}: bare except"
            continue
        caught = {one.id for one in ast.walk(node.type) if isinstance(one, ast.Name)}
        last = node.body[-1]
        again = isinstance(last, ast.Raise) and last.exc is None
        wide = caught & {"Exception", "BaseException"} and not again
        if wide and module.name not in OUTER_EDGES:
            yield f"line {node.lineno}: except {', '.join(caught)}"


Rule = Callable[[Module], Iterator[str]]
RULES: tuple[Rule, ...] = (
    impure_wire,
    impure_storage,
    impure_base,
    crossed_layers,
    stray_threads,
    stray_reactor,
    too_long,
    too_many_parameters,
    undocumented,
    swallowed,
)
