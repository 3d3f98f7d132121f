"""Small models that write, with a vocabulary of their tokenizer's words and a chat template."""

import numpy as np
import torch
import transformers as tf

import tiny

TEMPLATE = (
    "{% for message in messages %}[CLS] {{ message['role'] }} , {{ message['content'] }} [SEP] "
    "{% endfor %}{% if add_generation_prompt %}[CLS] here , {% endif %}"
)
SIZE = len(tiny.VOCABULARY)


def seeded(network):
    """Larger weights make attention less even."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
    return network.eval()


def llama(**options):
    torch.manual_seed(0)
    config = tiny.DECODER | {"vocab_size": SIZE, "eos_token_id": None} | options
    return seeded(tf.LlamaForCausalLM(tf.LlamaConfig(**config))), chatting()


def gpt2():
    torch.manual_seed(3)
    config = tf.GPT2Config(
        vocab_size=SIZE,
        n_embd=32,
        n_layer=3,
        n_head=4,
        n_positions=64,
        bos_token_id=None,
        eos_token_id=None,
    )
    return seeded(tf.GPT2LMHeadModel(config)), chatting()


def t5():
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 3, "num_decoder_layers": 2}
    config = tf.T5Config(
        vocab_size=SIZE, **sizes, num_heads=4, decoder_start_token_id=0, eos_token_id=None
    )
    return seeded(tf.T5ForConditionalGeneration(config)), chatting()


def chatting():
    tokenizer = tiny.plain()
    tokenizer.chat_template = TEMPLATE
    tokenizer.add_special_tokens({"cls_token": "[CLS]", "sep_token": "[SEP]"})
    return tokenizer


def answer_log_probabilities(adapter, prompt, answer):
    """Those of an answer's tokens behind a prompt's, by the model alone."""
    with torch.no_grad():
        if adapter.has_source:
            given = {"decoder_input_ids": torch.tensor([answer])}
            rows = adapter.network(input_ids=torch.tensor([prompt]), **given).logits[0, :-1]
            answer = answer[1:]
        else:
            rows = adapter.network(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
    log = rows.double().log_softmax(-1)
    return np.array([float(log[row, token]) for row, token in enumerate(answer)])
