"""A sample of the zoo in every run, and all of it with ZOO=all in the environment.

`python -m attnflow_experiments.zoo` runs all of it and writes the table. The sample is what is
named here, with every kind of finding (plain, sinks, mixing, pooling, detection tokens, language
models of several parts, sounds, two towers, refusals by what the model is), and one class in twenty
of the others, drawn by the seed in ZOO_SEED (0).
"""

import os
import random
import re
from collections import Counter

import pytest
import transformers

from zoo.kinds import classes
from zoo.sorting import sort

SAMPLE = (
    *("BertForMaskedLM", "GPT2LMHeadModel", "LlamaForCausalLM", "DeepseekV3ForCausalLM"),
    *("GptOssForCausalLM", "FalconH1ForCausalLM", "MambaForCausalLM", "LongformerForMaskedLM"),
    *("XLNetForSequenceClassification", "ModernBertForSequenceClassification"),
    *("EuroBertForSequenceClassification", "GPTNeoXForSequenceClassification"),
    *("MobileBertForMaskedLM", "ConvBertForMaskedLM", "NystromformerForMaskedLM"),
    *("SqueezeBertModel", "FNetForMaskedLM", "T5ForConditionalGeneration"),
    *("MBartForConditionalGeneration", "FSMTForConditionalGeneration"),
    *("PaliGemmaForConditionalGeneration", "PegasusForConditionalGeneration"),
    *("BartForSequenceClassification", "LlavaForConditionalGeneration"),
    *("BeitForImageClassification", "Data2VecVisionForImageClassification"),
    "SwinForImageClassification",
    *("Dinov2ForImageClassification", "YolosForObjectDetection", "ViTMAEModel"),
    *("CLIPForImageClassification", "CLIPModel", "WhisperForConditionalGeneration"),
    *("PerceiverForMaskedLM", "ResNetForImageClassification", "ASTForAudioClassification"),
    *("Wav2Vec2ForCTC", "WavLMForSequenceClassification", "Speech2TextForConditionalGeneration"),
    *("SEWForCTC", "SiglipModel", "SiglipVisionModel", "BlipModel", "Wav2Vec2ForXVector"),
)  # fmt: skip


COUNTS = {"exact": 512, "refused": 298, "broken": 51}  # of docs/zoo.md
EVERY = [name for _, _, name in classes()]
OTHERS = sorted(set(EVERY) - set(SAMPLE))
DRAWN = random.Random(int(os.environ.get("ZOO_SEED", "0"))).sample(OTHERS, len(OTHERS) // 20)


@pytest.fixture(scope="module")
def table(pytestconfig):
    """The verdict and the mark of each class in docs/zoo.md."""
    text = (pytestconfig.rootpath / "docs" / "zoo.md").read_text(encoding="utf-8")
    counts = {kind: int(count) for kind, count in re.findall(r"^\| (\w+) \| (\d+) \|$", text, re.M)}
    parts = text.split("\n## ")[1:]
    rows = {}
    for kind, part in zip(counts, parts, strict=True):
        for _, name, mark in re.findall(r"^\| (\w+) \| (\w+)( ~)? \|", part, re.M):
            if name != "class":
                rows[name] = (kind, bool(mark))
    return counts, rows


def test_the_table_counts_what_it_lists(table):
    counts, rows = table
    assert Counter(kind for kind, _ in rows.values()) == counts
    assert list(counts) == ["exact", "refused", "broken"]  # there is no fourth class


def test_the_table_has_every_class(table, pytestconfig):
    text = (pytestconfig.rootpath / "docs" / "zoo.md").read_text(encoding="utf-8")
    if f"transformers {transformers.__version__} " not in text:
        pytest.skip("the table was made with another version of transformers")
    assert set(table[1]) == set(EVERY)
    assert table[0] == COUNTS
    assert f": {len(EVERY)} classes" in text


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EVERY if os.environ.get("ZOO") == "all" else [*SAMPLE, *DRAWN])
def test_a_sample_is_sorted_as_the_table_says(name, table):
    (entry,) = [each for each in classes() if each[2] == name]
    verdict = sort(*entry)
    assert (verdict.found, bool(verdict.warnings)) == table[1][name], verdict
