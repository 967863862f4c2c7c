"""Rewrites a parsed template so that running it pays for itself: see sandbox.py."""

from __future__ import annotations

from typing import Final

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

_BODIES: Final = ("body", "else_")


def instrument(template: nodes.Template) -> nodes.Template:
    """Put a payment before every statement, and let concatenation, comparison, slices and keys go through a function.

    The environment has to offer `tick(units)`, `concatenate(*values)`, `checked(value)` and `sliced(value)`. Changes the tree in place.
    """
    _Instrument().visit(template)
    return template


class _Instrument(NodeTransformer):
    def generic_visit(self, node: nodes.Node, *args: object, **kwargs: object) -> nodes.Node:
        super().generic_visit(node, *args, **kwargs)
        for name in _BODIES:
            body = getattr(node, name, None)
            if isinstance(body, list):
                setattr(node, name, [item for statement in body for item in (_payment(statement), statement)])
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _call("concatenate", node.nodes, node.lineno)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        node.expr = _call("checked", [node.expr], node.lineno)
        for operand in node.ops:
            operand.expr = _call("checked", [operand.expr], node.lineno)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:
        self.generic_visit(node)
        node.key = _call("checked", [node.key], node.lineno)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = _call("sliced", [node.node], node.lineno)
        return node


def _call(name: str, args: list[nodes.Expr], lineno: int) -> nodes.Call:
    call = nodes.Call(nodes.EnvironmentAttribute(name), args, [], None, None)
    call.set_lineno(lineno)
    return call


def _payment(statement: nodes.Node) -> nodes.Node:
    units = nodes.Const(_weight(statement))
    return nodes.ExprStmt(_call("tick", [units], statement.lineno)).set_lineno(statement.lineno)


def _weight(statement: nodes.Node) -> int:
    """Units of one statement: its nodes and its literal text, without the statements inside it, which pay themselves."""
    units, stack = 0, [statement]
    while stack:
        node = stack.pop()
        units += 1
        if isinstance(node, nodes.TemplateData):
            units += len(node.data)
        stack.extend(node.iter_child_nodes(exclude=_BODIES))
    return units
