"""Attention blocks taken apart by hooks on a model's own modules, and edges by plain loops.

Nothing here knows how attnflow reads a model: the modules are found by their names.
"""

import re
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import numpy as np
import torch

VALUE = r"(self\.value|v_lin|attention\.value|value_proj|attn\.v|v_proj)$"
PACKED = r"(attn\.Wqkv|c_attn|query_key_value|self\.in_proj)$"
PROJECTION = (
    r"(attention\.output\.dense|out_lin|attention\.dense|attn\.o|attn\.Wo|attn\.c_proj|o_proj"
    r"|attn\.out_proj|self_attention\.dense|self_attn\.dense)$"
)
NORM_OF_SUM = r"(attention\.output\.LayerNorm|sa_layer_norm|attention\.LayerNorm)$"
LAYER = r"((layers|layer|h)\.\d+|albert_layers\.0)$"
PACKED_BY_HEAD = ("query_key_value", "in_proj")


@dataclass
class Layer:
    """One layer of one input, in float64; ``factor`` scales the block's output, ``[query, D]``."""

    attention: np.ndarray
    values: np.ndarray
    weight: np.ndarray
    factor: np.ndarray
    residual: np.ndarray
    total: np.ndarray
    gamma: np.ndarray | None = None
    epsilon: float = 0.0

    def transformed(self):
        """T_ij, ``[query, key, D]``, one vector at a time."""
        heads, size, width = self.values.shape
        vectors = np.zeros((size, size, self.weight.shape[0]))
        for i in range(size):
            for j in range(size):
                for h in range(heads):
                    block = self.weight[:, h * width : (h + 1) * width]
                    vectors[i, j] += self.attention[h, i, j] * (block @ self.values[h, j])
                vectors[i, j] *= self.factor[i]
        return vectors

    def with_residual(self):
        """T_ij with x_i in T_ii, behind the linear part of a norm of the sum."""
        vectors = self.transformed()
        for i in range(len(vectors)):
            vectors[i, i] += self.residual[i]
            if self.gamma is not None:
                deviation = np.sqrt(self.total[i].var() + self.epsilon)
                for j in range(len(vectors)):
                    vectors[i, j] = (vectors[i, j] - vectors[i, j].mean()) * self.gamma / deviation
        return vectors


def take_apart(model, inputs, heads=4, norm_of_sum=NORM_OF_SUM, norm_of_block=None):
    """The layers of one input, from a model with eager attention; ``heads`` are those of values."""
    seen = {role: [] for role in ("values", "projection", "norm", "factor", "layer")}
    roles = {"values": f"{VALUE}|{PACKED}", "projection": PROJECTION, "layer": LAYER}
    roles |= {"norm": norm_of_sum} if norm_of_sum else {}
    roles |= {"factor": norm_of_block} if norm_of_block else {}

    def noting(role, name):
        def hook(module, args, kwargs, output):
            given = args[0] if args else kwargs["hidden_states"]
            output = output[0] if isinstance(output, tuple) else output
            seen[role].append((name, module, _rows(given), _rows(output)))

        return hook

    hooks = [
        module.register_forward_hook(noting(role, name), with_kwargs=True)
        for name, module in model.named_modules()
        for role, pattern in roles.items()
        if re.search(pattern, name)
    ]
    try:
        with torch.no_grad(), exact_softmax():
            attentions = model(**inputs, output_attentions=True).attentions
    finally:
        for hook in hooks:
            hook.remove()
    return [_layer(number, attentions[number], seen, heads) for number in range(len(attentions))]


def exact_softmax():
    """Softmax in the precision of its input: some eager attention asks for float32."""
    plain = torch.softmax
    return mock.patch.object(
        torch.nn.functional, "softmax", lambda scores, dim=-1, dtype=None: plain(scores, dim)
    )


def _layer(number, attention, seen, heads):
    name, _, _, made = seen["values"][number]
    if name.endswith(PACKED_BY_HEAD):
        values = made.reshape(len(made), heads, 3, -1)[:, :, 2]
    elif re.search(PACKED, name):
        values = made.reshape(len(made), 3, heads, -1)[:, 2]
    else:
        values = made.reshape(len(made), heads, -1)
        values = values.repeat(attention.shape[1] // heads, axis=1)  # grouped heads
    _, projection, _, output = seen["projection"][number]
    weight = projection.weight.detach().double().numpy()
    weight = weight.T if type(projection).__name__ == "Conv1D" else weight
    residual = seen["layer"][number][2]
    factor = np.ones_like(output)
    if seen["factor"]:
        _, _, given, scaled = seen["factor"][number]
        factor = scaled / given
    lambda_1 = getattr(seen["layer"][number][1], "lambda_1", None)
    if lambda_1 is not None:
        factor = factor * lambda_1.detach().double().numpy()
    found = Layer(
        attention[0].double().numpy(),
        values.transpose(1, 0, 2),
        weight,
        factor,
        residual,
        output * factor + residual,
    )
    if seen["norm"]:
        _, norm, given, _ = seen["norm"][number]
        found.total, found.gamma = given, norm.weight.detach().double().numpy()
        found.epsilon = getattr(norm, "eps", None) or norm.variance_epsilon
    return found


def _rows(tensor):
    """One item's rows, ``[position, width]``, whether or not there is a batch axis."""
    tensor = tensor.detach().double()
    return tensor.reshape(-1, tensor.shape[-1]).numpy()


# -- edges


def to_one(maps):
    sums = maps.sum(-1, keepdims=True)
    return ratio(maps, np.broadcast_to(sums, maps.shape))


def ratio(above, below):
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def norms(layer):
    return np.linalg.norm(layer.transformed(), axis=-1)


def norms_with_residual(layer):
    return np.linalg.norm(layer.with_residual(), axis=-1)


def alti(layer):
    vectors = layer.with_residual()
    near = np.zeros(vectors.shape[:2])
    for i, row in enumerate(vectors):
        total = row.sum(0)
        for j, vector in enumerate(row):
            near[i, j] = max(0.0, np.abs(total).sum() - np.abs(total - vector).sum())
    return near


def effective(layer):
    """A·T·T⁺ per head and row, of the positions that the row sees; signed."""
    found = np.zeros_like(layer.attention)
    width = layer.values.shape[-1]
    visible = layer.attention.max(0) > 0
    for h, attention in enumerate(layer.attention):
        carried = layer.values[h] @ layer.weight[:, h * width : (h + 1) * width].T
        for i, row in enumerate(attention):
            at = np.flatnonzero(visible[i])
            found[h, i, at] = row[at] @ carried[at] @ np.linalg.pinv(carried[at])
    return found


RULES = {
    "norms": norms,
    "norms-residual": norms_with_residual,
    "alti": alti,
    "effective": lambda layer: np.maximum(0, effective(layer)).mean(0),
}


def with_share(maps, residual):
    return (1 - residual) * to_one(maps) + residual * np.eye(maps.shape[-1])


# -- gradients


def gradients(model, inputs, objective, heads, step=1e-5):
    """∂ objective by every attention probability, by moving each of them inside the model.

    All probabilities of one layer are moved in one batch, each in an item of its own.
    ``objective`` makes numbers of a batch's logits. Attention must be eager.
    """
    size = inputs["input_ids"].shape[1]
    places = [(h, i, j) for h in range(heads) for i in range(size) for j in range(size)]
    many = {name: tensor.repeat(len(places), 1) for name, tensor in inputs.items()}
    return [
        (_moved(model, many, objective, n, places, step) / (2 * step)).reshape(heads, size, size)
        for n in range(model.config.num_hidden_layers)
    ]


@contextmanager
def in_double():
    """Let nothing of a model be rounded to float32: differences would drown in it."""
    to = torch.Tensor.to

    def exact(tensor, *args, **kwargs):
        wider = {torch.float32: torch.float64}
        args = [wider.get(each, each) if isinstance(each, torch.dtype) else each for each in args]
        if "dtype" in kwargs:
            kwargs["dtype"] = wider.get(kwargs["dtype"], kwargs["dtype"])
        return to(tensor, *args, **kwargs)

    with (
        mock.patch.object(torch.Tensor, "to", exact),
        mock.patch.object(torch.Tensor, "float", lambda tensor: to(tensor, torch.float64)),
        exact_softmax(),
    ):
        yield


def _moved(model, inputs, objective, layer, places, step):
    """How much larger the objective is where each probability is larger by 2·step."""
    plain = torch.softmax

    def softmax(scores, dim=-1, dtype=None):
        found = plain(scores, dim).clone()
        if scores.dim() < 4:  # a router's
            return found
        if len(calls) == layer:
            for item, (h, i, j) in enumerate(places):
                found[item, h, i, j] += move
        calls.append(None)
        return found

    values = {}
    for sign in (1, -1):
        move, calls = sign * step, []
        with torch.no_grad(), mock.patch.object(torch.nn.functional, "softmax", softmax):
            values[sign] = objective(model(**inputs).logits)
    return (values[1] - values[-1]).double().numpy()
