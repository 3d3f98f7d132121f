"""A kind of model in one file: it reads a series of numbers, and says whether it rises or falls.

Its inputs are texts such as "3 1 4". The last line registers it: everything else is the model
itself, and what `ModelAdapter` asks of it.
"""

import re

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from attnflow.errors import InputError
from attnflow.models.adapter import Filler, ForwardPass, ModelAdapter, Objective, Tokens
from attnflow.models.capture import run as network
from attnflow.models.capture.towards import add_edges
from attnflow.models.kinds import MODEL_KINDS, HeadKind, ModelKind
from attnflow.models.outputs import label_indices, make_aim, predict_label
from attnflow.models.sizes import describe

HEAD = HeadKind("classifier of series", (), "AutoModel")
NUMBER = re.compile(r"-?\d+(\.\d+)?")


class NumbersConfig(PretrainedConfig):
    """Sizes of the model."""

    model_type = "attnflow-test-numbers"

    def __init__(self, hidden_size=8, num_hidden_layers=3, num_attention_heads=2, **kwargs):
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        kwargs.setdefault("id2label", {0: "falling", 1: "rising"})
        super().__init__(**kwargs)


class Layer(nn.Module):
    """Attention and nothing else."""

    def __init__(self, config):
        super().__init__()
        self.heads = config.num_attention_heads
        self.project = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, states):
        """The new states and the attention."""
        batch, size, width = states.shape
        parts = self.project(states).view(batch, size, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = parts[0] @ parts[1].transpose(-1, -2) * (width // self.heads) ** -0.5
        attention = scores.softmax(-1)
        mixed = (attention @ parts[2]).transpose(1, 2).reshape(batch, size, width)
        return states + self.output(mixed), attention


class NumbersModel(PreTrainedModel):
    """The label is read at the last number."""

    config_class = NumbersConfig
    main_input_name = "values"

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Linear(1, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.head = nn.Linear(config.hidden_size, 2)
        self.post_init()

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.5)

    def forward(self, values, output_attentions=False):
        """Logits, ``[batch, label]``."""
        positions = torch.arange(values.shape[1], dtype=values.dtype)[:, None]
        states, maps = self.embed(values[..., None]) + torch.sin(positions), []
        for layer in self.layers:
            states, attention = layer(states)
            maps.append(attention)
        kept = tuple(maps) if output_attentions else None
        return SequenceClassifierOutput(logits=self.head(states[:, -1]), attentions=kept)


class NumbersAdapter(ModelAdapter):
    """The model as attnflow sees it."""

    kind = "numbers"

    def __init__(self, net, processor, name):
        self.network, self.name = net, name

    @property
    def description(self):
        """What was loaded."""
        return describe(self.network, HEAD)

    @property
    def depth(self):
        """The number of layers."""
        return self.network.config.num_hidden_layers

    @property
    def heads(self):
        """The heads of each layer."""
        return self.network.config.num_attention_heads

    @property
    def labels_of(self):
        """Outputs are labels."""
        return self.network.config

    def tokenize(self, item, *, truncate=False, answer=None):
        """One token per number."""
        names = item.split() if isinstance(item, str) else []
        if not names or not all(map(NUMBER.fullmatch, names)):
            msg = f"{self.name} reads numbers, such as '3 1 4'; this is {item!r}"
            raise InputError(msg)
        return Tokens(tuple(names), item, {"values": [float(name) for name in names]})

    def inputs(self, batch):
        """One series: they are not padded."""
        (tokens,) = batch
        return {"values": torch.tensor([tokens.inputs["values"]])}

    def run(self, batch, query, spec, objectives=()):
        """One forward pass with its attention captured."""
        (tokens,) = batch
        size = len(tokens)
        output, capture = network.run(self.network, self.inputs(batch), spec, [1] * self.depth)
        network.expect(capture.sites, self.depth, (size, size), self.network)
        seen = [network.square_activations(capture, 0, size)]
        at = size - 1 if query in (None, "all") else tokens.position(query)
        wanted = None
        if spec.towards_target:
            (objective,) = objectives or (Objective(),)
            aim = make_aim(self, lambda out: out.logits[0], output, objective, self.labels_of)
            seen, wanted = add_edges(seen, capture, output, [aim]), aim.named
        return [ForwardPass(tokens, seen[0], at, self._prediction(output, 0, tokens, at), wanted)]

    def _logits(self, output, item, tokens, at):
        return output.logits[item]

    def _prediction(self, output, item, tokens, at):
        return predict_label(output.logits[item], self.network.config)

    def decision(self, tokens):
        """At the last number."""
        return len(tokens) - 1

    def output_indices(self, target):
        """Labels by name."""
        return label_indices(self.network.config, target, self.name)

    def output_name(self, index):
        """The name of a label."""
        return self.network.config.id2label[index]

    def filler(self, name=None):
        """Zero."""
        return Filler("mean", "0")

    def blankable(self, tokens, query):
        """Every number."""
        return list(range(len(tokens)))

    def blank(self, tokens, positions, filler):
        """With zeros there."""
        values = [0.0 if at in positions else v for at, v in enumerate(tokens.inputs["values"])]
        return Tokens(tokens.names, tokens.text, {"values": values})


AutoConfig.register(NumbersConfig.model_type, NumbersConfig, exist_ok=True)
AutoModel.register(NumbersConfig, NumbersModel, exist_ok=True)
MODEL_KINDS.register(
    ModelKind(
        "numbers",
        lambda net, processor: net.main_input_name == "values",
        NumbersAdapter,
        lambda net: None,
    )
)
