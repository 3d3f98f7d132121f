import pytest

import attnflow
import talkers


@pytest.fixture(scope="session")
def llama():
    return attnflow.load_model(talkers.llama())


@pytest.fixture(scope="session")
def gpt2():
    return attnflow.load_model(talkers.gpt2())


@pytest.fixture(scope="session")
def t5():
    return attnflow.load_model(talkers.t5())
