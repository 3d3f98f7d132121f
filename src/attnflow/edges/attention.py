"""The paper's edges: A = (1 − r)·W + r·I, with W the heads' attention fused and r the residual."""

from attnflow.edges.rule import EdgeRule

MEMBER = EdgeRule(
    name="attention",
    title="Attention",
    maps=lambda activations: activations.attention,
    fuses_heads=True,
    method="flow",
    unit="attention",
)
