"""Work that no memory is for is refused before it starts."""

import pytest
import torch

import attnflow
import tiny
from attnflow.errors import ModelError
from attnflow.models.checks import memory

CPU = torch.device("cpu")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Files in which Linux says how much memory there is, in MiB."""
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    monkeypatch.setattr(memory, "_installed", lambda: 1000 << 20)

    def say(available=None, most="max", used=0, cached=0):
        if available is not None:
            text = f"MemTotal: 1024000 kB\nMemAvailable:    {available << 10} kB\nHugePages: 0\n"
            (tmp_path / "meminfo").write_text(text)
        (tmp_path / "memory.max").write_text(most if most == "max" else str(most << 20))
        (tmp_path / "memory.current").write_text(str(used << 20))
        (tmp_path / "memory.stat").write_text(f"anon 5\ninactive_file {cached << 20}\n")

    return say


def test_what_is_free_counts_and_not_what_is_installed(machine):
    assert memory.memory_of(CPU) == 1000 << 20  # where nothing else is known
    machine(available=300)
    assert memory.memory_of(CPU) == 300 << 20
    machine(available=300, most=200, used=150, cached=30)
    assert memory.memory_of(CPU) == 80 << 20
    machine(available=50, most=200, used=150, cached=30)
    assert memory.memory_of(CPU) == 50 << 20
    assert memory.memory_of(torch.device("meta")) is None


def test_a_page_that_no_memory_is_for_is_refused_before_the_model_runs(monkeypatch):
    model = attnflow.load_model((tiny.build("bert"), tiny.word_piece()))
    text = "the keys to the cabinet"
    size = len(attnflow.explain(text, model, edges="attention").tokens)
    needed = memory.HEAD_BYTES * model.depth * model.heads * size**2
    monkeypatch.setattr(memory, "memory_of", lambda _: needed)
    assert attnflow.explore(text, model, edges="attention").document["views"]
    monkeypatch.setattr(memory, "memory_of", lambda _: needed - 1)
    ran = []
    model.network.register_forward_pre_hook(lambda *_: ran.append(1))
    with pytest.raises(ModelError, match=rf"single heads and routes of {size} tokens would take"):
        attnflow.explore(text, model, edges="attention")
    assert not ran
    assert attnflow.explain(text, model, edges="attention").tokens
