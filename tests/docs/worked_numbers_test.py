"""The worked numbers of the pages are right.

A block fenced as ```worked holds lines `expression = number unit  # remark`. The expression is
arithmetic, with sqrt, ceil, min, max and log2; the number may hold thousands commas and is right
when it equals the expression rounded to the digits it shows. `=` may follow `=`: each further
number must equal the same value in its unit, one of those below.
"""

import ast
import math
import operator
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pages import blocks, pages  # noqa: E402

UNITS = {"": 1, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "B": 1, "KiB": 2**10, "MiB": 2**20,
         "GiB": 2**30, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "GFLOP": 1e9, "TFLOP": 1e12,
         "GFLOP/s": 1e9, "TFLOP/s": 1e12, "GB/s": 1e9, "TB/s": 1e12, "%": 0.01}
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
             ast.Div: operator.truediv, ast.Pow: operator.pow, ast.Mod: operator.mod}
FUNCTIONS = {"sqrt": math.sqrt, "ceil": math.ceil, "min": min, "max": max, "log2": math.log2}


def value_of(node):
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -value_of(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](value_of(node.left), value_of(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return FUNCTIONS[node.func.id](*map(value_of, node.args))
    raise ValueError("not arithmetic")


def evaluate(expression):
    return value_of(ast.parse(expression.strip(), mode="eval").body)


def fault(line):
    """What is wrong with one line, or None."""
    sides = line.split("#")[0].split(" = ")
    if len(sides) < 2:
        return "no `=`"
    exact = evaluate(sides[0])
    for side in sides[1:]:
        match = re.fullmatch(r"\s*(-?)(\d[\d,]*)(?:\.(\d+))?(?:e([+-]?\d+))?\s*(\S*)\s*", side)
        if not match or match.group(5) not in UNITS:
            return f"cannot read the number {side.strip()!r}"
        sign, whole, fraction, exponent, unit = match.groups()
        shown = float(f"{sign}{whole.replace(',', '')}.{fraction or 0}e{exponent or 0}")
        half = 0.5 * 10 ** (int(exponent or 0) - len(fraction or ""))
        if abs(exact / UNITS[unit] - shown) > half * (1 + 1e-9):
            return f"is {exact / UNITS[unit]:.10g} {unit}, not {side.strip()}"
    return None


class WorkedNumbersTest(unittest.TestCase):
    def test_pages(self):
        count = 0
        for page in pages():
            for block in blocks(page, "worked"):
                for number, line in enumerate(block.lines):
                    if not line.strip() or line.startswith("#"):
                        continue
                    count += 1
                    with self.subTest(block.place(number)):
                        self.assertIsNone(fault(line), f"{block.place(number)}: {line}")
        self.assertGreater(count, 0)

    def test_the_test_can_fail(self):
        self.assertIsNone(fault("2 * 3 = 6"))
        self.assertIsNone(fault("1e9 / 3 = 333.3 MB = 0.333 GB  # a third"))
        self.assertIsNone(fault("ceil(10 / 4) * 1e-3 = 3 ms"))
        self.assertIsNotNone(fault("2 * 3 = 7"))
        self.assertIsNotNone(fault("1e9 / 3 = 333.4 MB"))
        self.assertIsNotNone(fault("2 = 2 furlongs"))


if __name__ == "__main__":
    unittest.main()
