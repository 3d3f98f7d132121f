"""Images and encoder–decoders without each piece: what the check says is what they say."""

import numpy as np
import pytest
import torch
import transformers as tf
from transformers import ViTImageProcessorPil

import attnflow
import heard
import tiny
from attnflow.evaluation import blanking_check
from attnflow.evaluation.agreement import spearman
from attnflow.evaluation.blanking_check import check_by_blanking, why_unchecked
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.views.wording.summaries import summarize

RESIZING = ViTImageProcessorPil(size={"height": 32, "width": 32})
SOURCE, ANSWER = "the keys to the cabinet", "the keys are"


def opened(item, model, method="rollout", answer=None, **options):
    config = Request(method=method, edges=options.pop("edges", "attention"), **options)
    return open_session(item, attnflow.load_model(model), config, answer=answer)


def pair(name, **options):
    tokenizer = tiny.word_piece()
    tokenizer.eos_token = "[SEP]"
    return tiny.build(name, **options), tokenizer


@pytest.mark.parametrize("name", ["t5", "bart"])
@pytest.mark.parametrize("words", [False, True])
def test_an_encoder_decoder_without_each_token_of_its_source(name, words):
    network, tokenizer = pair(name)
    session = opened(SOURCE, (network, tokenizer), answer=ANSWER, words=words)
    found = check_by_blanking(session)
    ids = tokenizer(SOURCE)["input_ids"]
    target = session.tokens.inputs["decoder_input_ids"]

    def shares(numbers):
        with torch.no_grad():
            output = network(
                input_ids=torch.tensor([numbers]), decoder_input_ids=torch.tensor([target])
            )
        return output.logits[0, -1].double().softmax(-1)

    whole = shares(ids)
    best = int(whole.argmax())
    without = {
        at: shares([tokenizer.unk_token_id if o == at else i for o, i in enumerate(ids)])
        for at in range(1, len(ids) - 1)
    }
    assert found.probability == pytest.approx(float(whole[best]), abs=1e-6)
    assert found.places == tuple(without)  # not the answer, not special tokens
    for at, removal in enumerate(found.removals):
        assert (removal is None) == (at not in without)
        if removal is not None:
            assert removal.change == pytest.approx(float(without[at][best] - whole[best]), abs=1e-6)
            assert removal.label == session.adapter.output_name(int(without[at].argmax()))


def test_an_image_without_each_patch():
    network = tiny.build("vit")
    picture = np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8)
    session = opened(picture, (network, RESIZING))
    found = check_by_blanking(session)
    pixels = RESIZING(images=picture, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        whole = network(pixels).logits[0].double().softmax(-1)
        best = int(whole.argmax())
        for patch in range(16):
            row, column = divmod(patch, 4)
            blanked = pixels.clone()
            blanked[..., 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] = 0
            after = network(blanked).logits[0].double().softmax(-1)
            removal = found.removals[patch + 1]
            assert removal.change == pytest.approx(float(after[best] - whole[best]), abs=1e-6)
    assert found.removals[0] is None
    assert found.places == tuple(range(1, 17))


def test_a_classifier_that_reads_its_text_twice():
    network, tokenizer = pair("bart", head=tf.BartForSequenceClassification)
    network.config.eos_token_id = tokenizer.eos_token_id
    found = check_by_blanking(opened("the old cat is here", (network, tokenizer)))
    assert [each is not None for each in found.removals] == [False] + [True] * 5 + [False] * 8
    assert found.label.startswith("LABEL_")


def test_a_classifier_without_a_filler_says_so():
    network, tokenizer = pair("bart", head=tf.BartForSequenceClassification)
    network.config.eos_token_id = tokenizer.eos_token_id
    session = opened("the old cat is here", (network, tokenizer))
    tokenizer.unk_token = tokenizer.mask_token = tokenizer.pad_token = None
    assert "is where" in why_unchecked(session)
    assert check_by_blanking(session) is None


def test_orders_are_compared_of_what_can_be_blanked():
    session = opened(SOURCE, pair("bart"), answer=ANSWER)
    rollout = session.attribution("rollout")
    said = summarize(session, [rollout], blank=True)
    check = check_by_blanking(session)
    places = list(check.places)
    rho = spearman(check.scores.values[places], rollout.values[places])
    assert f"(ρ {f'{rho:.2f}'.replace('0.', '.').replace('-', '−')})" in said.agreement
    assert said.unchecked == ""
    assert "ithout " in said.main.evidence


def test_patches_are_called_so():
    picture = np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8)
    session = opened(picture, (tiny.build("vit"), RESIZING))
    said = summarize(session, [session.attribution("rollout")], blank=True)
    assert "any one patch" in said.main.evidence or "Without patch “" in said.main.evidence
    assert " first." not in said.agreement or "patch “" in said.agreement


def test_where_it_is_not_done_the_reason_is_told():
    sound = opened(heard.sound(), heard.build("wav2vec2-label"))
    assert why_unchecked(sound) == "that is done for texts, images and encoder–decoders of texts"
    contrast = opened(SOURCE, pair("t5"), "direct", ANSWER, edges="gradient", contrast="cat")
    assert "with a contrast that is done for texts" in why_unchecked(contrast)


def test_one_patch_is_a_patch_and_several_are_patches():
    picture = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    session = opened(picture, (tiny.build("vit"), RESIZING), edges="alti")
    said = summarize(session, [session.attribution("rollout")], blank=True).main.sentence
    assert said.startswith("LABEL_0; it depends little on any one patch, most on patch “2,2”; ")
    assert "; rollout points to patches “1,3”, which matters less, and “0,3”" in said
    said = summarize(session, [session.attribution("rollout")], blank=False).main.sentence
    assert said == "LABEL_0; rollout points to patches “0,3”, “1,2” and “1,3”."


@pytest.mark.parametrize(("target", "contrast"), [(0, 2), (2, 0), (1, 2)])
def test_with_a_contrast_the_choice_between_two_answers_changes(target, contrast):
    """How likely the target is where the answer is one of the two, without each token."""
    torch.manual_seed(3)
    config = tf.BertConfig(**tiny.USUAL, initializer_range=0.5, num_labels=3)
    network, tokenizer = tf.BertForSequenceClassification(config).eval(), tiny.word_piece()
    found = check_by_blanking(
        opened(SOURCE, (network, tokenizer), target=target, contrast=contrast, edges="gradient")
    )
    ids = tokenizer(SOURCE)["input_ids"]

    def share(blank=None):
        numbers = [tokenizer.unk_token_id if at == blank else i for at, i in enumerate(ids)]
        with torch.no_grad():
            logits = network(input_ids=torch.tensor([numbers])).logits[0].double()
        return float(logits[[target, contrast]].softmax(-1)[0])

    names = [f"LABEL_{each}" for each in (target, contrast)]
    assert [found.target, found.contrast] == names
    assert found.probability == pytest.approx(share(), abs=1e-6)
    assert found.label == names[share() < 0.5]
    for at, removal in enumerate(found.removals):
        if 0 < at < len(ids) - 1:
            assert removal.change == pytest.approx(share(at) - share(), abs=1e-6)
            assert removal.label == names[share(at) < 0.5]


def test_a_choice_that_is_certain_has_no_overflow():
    shares = [blanking_check._share(each) for each in (-1e4, -701.0, -30.0, 0.0, 30.0, 1e4)]
    assert shares == pytest.approx([0, 0, np.exp(-30), 0.5, 1, 1], rel=1e-9)
