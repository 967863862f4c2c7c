"""The walk that greedy and match share: follow the child that equals the target's own token."""

from __future__ import annotations

from collections.abc import Callable

from outrider.types import ROOT, Draft, TokenKind, Verification


def children_by_node(draft: Draft) -> dict[int, list[int]]:
    """Every inner node's children, in proposal order; ROOT included, leaves left out."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(draft.parents):
        children.setdefault(parent, []).append(node)
    return children


def target_kind(draft: Draft, *, at_leaf: bool) -> TokenKind:
    """How the target's own token came to be, after the accepted path ended at a leaf or at refused children."""
    if not len(draft):
        return TokenKind.PLAIN
    return TokenKind.BONUS if at_leaf else TokenKind.RECOVERED


def follow_target(draft: Draft, target_token: Callable[[int, int], int]) -> Verification:
    """Accept the path of draft tokens that the target says too.

    Siblings are tried in proposal order: those before the accepted one count as refused, those after it were not reached.

    Args:
        draft: a chain or a tree.
        target_token: (node, depth) to the token that the target says after the node, which has `depth` draft tokens before
            that token; asked only for nodes that are reached.
    """
    children = children_by_node(draft)
    path: list[int] = []
    refused: list[int] = []
    node = ROOT
    while True:
        token = target_token(node, len(path))
        siblings = children.get(node, [])
        accepted = next((child for child in siblings if draft.tokens[child] == token), None)
        if accepted is None:
            refused += siblings
            return Verification(tuple(path), token, target_kind(draft, at_leaf=not siblings), tuple(refused))
        refused += siblings[: siblings.index(accepted)]
        path.append(accepted)
        node = accepted
