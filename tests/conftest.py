"""Small models that many tests explain texts with, and a browser, started once."""

import logging
import multiprocessing
import shutil
import signal

import pytest
import transformers as tf

import tiny

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
# What a shell starts in the background ignores Ctrl-C, and so does what that starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(["torch", "transformers.models.bert", "attnflow.runs.pool"])
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield started
        started.close()


@pytest.fixture
def quick_workers(monkeypatch):
    """Workers of runs are forked from one process that has imported all they need.

    Usually each of them starts from nothing, and needs seconds for that.
    """
    from attnflow.runs import pool  # the solvers' tests run where nothing writes tables

    monkeypatch.setattr(pool, "get_context", lambda _: FORKING)


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


@pytest.fixture(autouse=True)
def logging_as_it_was():
    """Programs that a test runs in this process may silence warnings, which later tests expect."""
    logger, disabled = logging.getLogger("attnflow"), logging.root.manager.disable
    level = logger.level
    yield
    logger.setLevel(level)
    logging.disable(disabled)
