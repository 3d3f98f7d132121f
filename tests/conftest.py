"""Small models that many tests explain texts with, and a browser, started once."""

import shutil

import pytest
import transformers as tf

import tiny

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield started
        started.close()


@pytest.fixture(scope="module")
def encoder():
    return tiny.build("bert"), tiny.word_piece()


@pytest.fixture(scope="module")
def decoder():
    return tiny.build("gpt2"), tiny.plain()


@pytest.fixture(scope="module")
def masked():
    return tiny.build("bert", head=tf.BertForMaskedLM), tiny.word_piece()


@pytest.fixture(scope="module")
def classifier():
    return tiny.build("bert", head=tf.BertForSequenceClassification), tiny.word_piece()
