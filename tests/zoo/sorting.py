"""Sorting one class: exact, refused by name, or broken in transformers itself."""

import threading
import warnings
from dataclasses import asdict, dataclass

import numpy as np
import torch
import transformers as tf
from PIL import Image
from transformers import ViTImageProcessorPil
from transformers.models.auto.feature_extraction_auto import FEATURE_EXTRACTOR_MAPPING_NAMES
from transformers.utils import ModelOutput

import attnflow
import heard
import tiny
from attnflow.errors import AttnflowError
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.kinds import SEQ2SEQ, reads_sound, two_towers
from attnflow.models.loading import load_model
from attnflow.models.pair.seq2seq import Seq2SeqModel, source_size
from attnflow.models.pair.sides import make_steps
from zoo.build import small_model

TEXT, SHORT, TARGET = tiny.TEXT, "the cat", "a key is on the mat"
TOLERANCE = 1e-5


@dataclass
class Verdict:
    """What became of a class: exact, refused or broken; ``wrong`` and ``unbuilt`` are failures."""

    task: str
    kind: str
    name: str
    found: str
    why: str = ""
    warnings: tuple = ()


def sort(task, kind, name):
    """Build a class small, run it, explain with it, and compare."""
    if not hasattr(tf, name):
        return Verdict(task, kind, name, "broken", "transformers lists it and has no such class")
    try:
        model = small_model(kind, name)
    except ImportError as error:  # what loading it from a folder ends in, too
        return Verdict(task, kind, name, "refused", f"a package is missing: {_line(error)}")
    except Exception as error:  # noqa: BLE001 - whatever transformers raises
        return Verdict(task, kind, name, "unbuilt", _line(error))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            notes = _compare(model)
    except AttnflowError as error:
        several = any(hasattr(model.config, part) for part in ("vision_config", "audio_config"))
        if "its own" in str(error) and not several and (broken := _own_failure(model)):
            return Verdict(task, kind, name, "broken", broken)
        return Verdict(task, kind, name, "refused", _line(error))
    except ImportError as error:
        return Verdict(task, kind, name, "refused", f"a package is missing: {_line(error)}")
    except Broken as error:
        return Verdict(task, kind, name, "broken", str(error))
    except Exception as error:  # noqa: BLE001 - a fourth class
        return Verdict(task, kind, name, "wrong", _line(error))
    return Verdict(task, kind, name, "exact", warnings=notes)


def _line(error):
    first = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {first}"[:300]


def _reads(model):
    return getattr(model, "main_input_name", "input_ids")


def _processor(model):
    if _reads(model) == "pixel_values":
        return _viewer(getattr(model.config, "vision_config", model.config))
    if reads_sound(model):
        processor = heard.Processor(_extractor(model.config))
        processor.tokenizer = _tokenizer()
        return processor
    return _tokenizer()


def _tokenizer():
    tokenizer = tiny.word_piece()
    tokenizer.eos_token = "[SEP]"
    return tokenizer


def _viewer(config):
    size = getattr(config, "image_size", 32)
    height, width = (size, size) if isinstance(size, int) else size
    return ViTImageProcessorPil(size={"height": height, "width": width})


def _extractor(config):
    """The feature extractor of a type, with as many bands and seconds as the model has."""
    name = FEATURE_EXTRACTOR_MAPPING_NAMES.get(config.model_type, "Wav2Vec2FeatureExtractor")
    if config.model_type == "wav2vec2-bert":  # the mapping names one that makes another input
        name = "SeamlessM4TFeatureExtractor"
    kind = getattr(tf, name)
    sizes = {}
    bands = getattr(config, "num_mel_bins", None) or getattr(config, "input_feat_per_channel", None)
    if bands:
        sizes = {"num_mel_bins": bands, "feature_size": bands}
    if hasattr(config, "max_length") and hasattr(config, "time_stride"):
        sizes["max_length"] = config.max_length
    if name == "WhisperFeatureExtractor" and hasattr(config, "max_source_positions"):
        sizes["chunk_length"] = config.max_source_positions // 50
    return kind(**sizes)


def _items(model):
    if reads_sound(model):
        whole = heard.sound()
        return [whole, whole[:12_000]]
    return [TEXT, SHORT] if _reads(model) != "pixel_values" else _pictures()


def _pictures():
    colours = np.random.default_rng(0).integers(0, 255, (2, 40, 50, 3), dtype=np.uint8)
    return [Image.fromarray(each) for each in colours]


def _own_failure(model):
    """The error of the model's own eager forward pass on such an input; nothing if it runs."""
    processor = _processor(model)
    if _reads(model) == "pixel_values":
        inputs = processor(images=_items(model)[0], return_tensors="pt")
    elif _reads(model) == "input_ids":
        inputs = dict(processor(TEXT, return_tensors="pt"))
        inputs.pop("token_type_ids", None)
        if getattr(model.config, "is_encoder_decoder", False):
            inputs["decoder_input_ids"] = torch.tensor([[3, 5, 6]])
    else:
        return ""
    try:
        with torch.no_grad():
            model(**inputs)
    except Exception as error:  # noqa: BLE001 - whatever transformers raises
        return _line(error)
    return ""


def _compare(model):
    """Raise where anything differs; the warnings of the explanation."""
    found = ()
    for processor, items in _cases(model):
        found += _compare_one(model, processor, items)
    return found


def _cases(model):
    """What reads inputs, and inputs; of two towers, both."""
    if two_towers(model) is None:
        return [(_processor(model), _items(model))]
    vision = getattr(model.config, "vision_config", model.config)
    return [(_tokenizer(), [TEXT, SHORT]), (_viewer(vision), _pictures())]


def _compare_one(model, processor, items):
    adapter = load_model((model, processor))
    model = adapter.network
    pair = isinstance(adapter, Seq2SeqModel)
    answer = {"answer": TARGET} if pair and adapter.head is SEQ2SEQ else {}
    tokens = adapter.tokenize(items[0], **answer)
    (forward,) = adapter.run([tokens], None, CaptureSpec())
    maps = _eager_maps(model, adapter, tokens, pair=pair)
    _use_sdpa(model, adapter.inputs([tokens]))
    (fused,) = adapter.run([tokens], None, CaptureSpec())
    for run in (forward, fused):
        found = run.activations.attention
        assert len(found) == len(maps), f"{len(found)} maps, eager has {len(maps)}"
        for layer, (one, other) in enumerate(zip(found, maps, strict=True)):
            assert one.shape == other.shape, f"layer {layer}: {one.shape}, eager {other.shape}"
            if len(other) > 1 and bool((other == other[:1]).all()):  # WavLM shows the mean of heads
                one, other = one.mean(0), other.mean(0)
            apart = float((one.double() - other.double()).abs().max())
            # A fused kernel rounds otherwise, and every layer above it reads what it rounded.
            allowed = TOLERANCE if run is forward else 3 * TOLERANCE
            assert apart <= allowed, f"layer {layer} is {apart:.2g} from eager attention"
    alone = [_explained(item, adapter, answer) for item in items]
    _compare_methods(alone[0], maps)
    together = _explained(items, adapter, answer)
    for at in range(len(items)):
        _same(alone[at], [each[at] for each in together], "in a list")
    _same(alone[0], _in_threads(items, adapter, answer)[0], "in a thread")
    if answer:
        _check_answer(adapter, items[0])
    return tuple(alone[0][0].warnings)


METHODS = ("rollout", "flow")


def _explained(item, adapter, answer):
    options = {"edges": "attention", "correction": None, "threads": 1, **answer}
    return [attnflow.explain(item, adapter, method=method, **options) for method in METHODS]


def _in_threads(items, adapter, answer):
    found = {}

    def work(at):
        found[at] = _explained(items[at], adapter, answer)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(len(items))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _same(one, other, where):
    for a, b in zip(one, other, strict=True):
        assert a.tokens == b.tokens, f"other tokens {where}"
        apart = float(np.abs(a.values - b.values).max())
        assert apart <= 5e-5, f"{a.method} {where} is {apart:.2g} from alone"
        if a.prediction is not None:
            apart = abs(a.prediction.probability - b.prediction.probability)
            assert apart <= 1e-4, f"the prediction {where} is {apart:.2g} from alone"


def _compare_methods(found, maps):
    heads = [each.double().mean(0).numpy() for each in maps]
    for each in found:
        positions = list(each.pooled or (each.query,))
        if each.method == "flow":
            rows = attnflow.flow(np.stack(heads), layers=-1, queries=positions, threads=1)[-1]
        else:
            rows = attnflow.rollout(np.stack(heads))[-1, positions]
        expected = rows.mean(0)
        apart = float(np.abs(each.values - expected).max())
        assert apart <= TOLERANCE, f"{each.method} is {apart:.2g} from that of eager attention"


class Broken(Exception):  # noqa: N818 - a finding
    """The model contradicts itself."""


def _use_sdpa(model, inputs):
    """The fused kernel, where the model has one that gives what eager attention gives."""
    with torch.no_grad():
        eager = model(**inputs)[0]
        try:
            model.set_attn_implementation("sdpa")
        except Exception:  # noqa: BLE001 - it has eager attention only
            model.set_attn_implementation("eager")
        fused = model(**inputs)[0]
    if fused.shape != eager.shape:
        msg = "it gives another output each time it is run"
        raise Broken(msg)
    apart = float((fused.double() - eager.double()).abs().max())
    if apart > 1e-3 * max(1.0, float(eager.abs().max())):
        msg = f"its own outputs with sdpa are {apart:.2g} from those with eager attention"
        raise Broken(msg)


def _eager_maps(model, adapter, tokens, *, pair):
    inputs = adapter.inputs([tokens])
    with torch.no_grad():
        model(**inputs)  # a short text makes BigBird choose other modules, which then show maps
        output = model(**inputs, output_attentions=True)
    if "input_ids" in inputs:
        output = _out_of_windows(output, inputs["input_ids"].shape[1])
    if not pair:
        parts = [_square(each[0]) for each in _shown(output) if each.shape[-2] == each.shape[-1]]
        assert parts, "eager attention shows no maps to compare with"
        return parts
    source, count = source_size(tokens), len(tokens.inputs["decoder_input_ids"])
    maps = list(output.encoder_attentions)
    for own, cross in zip(output.decoder_attentions, output.cross_attentions, strict=True):
        maps += [own, cross]
    depths = (len(output.encoder_attentions), len(output.decoder_attentions))
    steps = make_steps((source, count), depths)
    squared = [each[0] if each.shape[-1] != each.shape[-2] else _square(each[0]) for each in maps]
    return [step.place_attention(each) for step, each in zip(steps, squared, strict=True)]


def _out_of_windows(output, size):
    """Longformer's attention, which it shows in windows, as maps."""
    for side in ("", "encoder_"):
        marked = getattr(output, f"{side}global_attentions", None)
        shown = getattr(output, f"{side}attentions", None)
        if shown is None or not hasattr(output, f"{side}global_attentions"):
            continue
        count = 0 if marked is None else marked[0].shape[-1]  # the first tokens are global ones
        maps = []
        for layer, band in enumerate(shown):
            reach = (band.shape[-1] - count - 1) // 2
            made = band.new_zeros(*band.shape[:2], size, size)
            for query in range(size):
                for key in range(size):
                    if key < count:
                        made[:, :, query, key] = band[:, :, query, key]
                    elif abs(key - query) <= reach:
                        made[:, :, query, key] = band[:, :, query, count + reach + key - query]
            if marked is not None:
                made[:, :, :count] = marked[layer].transpose(-1, -2)[..., :size]
            maps.append(made)
        output[f"{side}attentions"] = tuple(maps)
    return output


def _shown(output):
    """The attentions of an output; of models of several parts, those of the part that ran."""
    found = [each for each in getattr(output, "attentions", None) or () if each is not None]
    parts = [each for each in output.values() if isinstance(each, ModelOutput)]
    return found or next((shown for part in parts if (shown := _shown(part))), [])


def _square(attention):
    """Probabilities whose rows sum to 1: what a learned sink took stays with the position."""
    if float(attention.min()) < 0:  # SqueezeBERT shows scores before their softmax
        return attention.softmax(-1)
    missing = (1 - attention.sum(-1)).clamp_min(0)
    return attention + torch.diag_embed(torch.where(missing > 1e-3, missing, 0 * missing))


def _check_answer(adapter, item):
    """The answer that is explained is what the model wrote, and says itself again when forced."""
    source = adapter.tokenize(item, answer="a")
    written = adapter.generate(source, 32)
    tokens = adapter.tokenize(item)
    ids = tokens.inputs["decoder_input_ids"]
    assert ids == written[: len(ids)], "the answer is not what was generated"
    first = len(tokens) - len(ids)
    places = range(first, len(tokens) - 1)
    said = [adapter.predict([tokens], [at])[0].label for at in places]
    named = [adapter.output_name(number) for number in ids[1:]]
    forced = getattr(adapter.network.generation_config, "forced_bos_token_id", None)
    assert said[1 if forced else 0 :] == named[1 if forced else 0 :], (
        "forced, it says another answer"
    )


def as_data(verdict):
    """A verdict as plain data."""
    return asdict(verdict)
