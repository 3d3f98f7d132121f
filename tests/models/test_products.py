"""Linear layers by oneDNN: what torch's own product gives, forwards and backwards."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

from attnflow.models.capture import products

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN"
)
ONEDNN = "mkldnn::_linear_pointwise"


def used(work):
    """What work gives, and the names of the operations that it took."""
    with torch.profiler.profile() as seen:
        found = work()
    return found, {event.key for event in seen.key_averages()}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 5, 7)])
def test_products_and_their_gradients_are_torchs(shape, bias):
    torch.manual_seed(0)
    layer = torch.nn.Linear(7, 3, bias=bias)
    found = []
    for context in (products.WideProducts(), torch.enable_grad()):
        given = torch.linspace(-1, 2, 7).expand(shape).contiguous().requires_grad_()
        with context:
            value = layer(given)
        (gradient,) = torch.autograd.grad((value * torch.arange(3)).sum(), given)
        found.append((value.detach(), gradient))
    (wide, wide_gradient), (usual, usual_gradient) = found
    torch.testing.assert_close(wide, usual)
    torch.testing.assert_close(wide_gradient, usual_gradient)


def test_other_numbers_are_left_to_torch():
    weights = torch.ones(3, 7)
    for given in (torch.ones(2, 7).double(), torch.ones(0, 7)):
        with products.WideProducts():
            found, names = used(lambda given=given: F.linear(given, weights.to(given)))
        assert ONEDNN not in names
        assert found.shape == (len(given), 3)


def test_the_context_is_for_amds_cpus(monkeypatch):
    cases = (
        ("znver5", "AVX512", True),
        ("znver3", "AVX2", False),
        ("sapphirerapids", "AVX512", False),
    )
    for name, widest, expected in cases:
        monkeypatch.setattr("llvmlite.binding.get_host_cpu_name", lambda name=name: name)
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda widest=widest: widest)
        products._leaves_out.cache_clear()
        with products.wide_products():
            _, names = used(lambda: F.linear(torch.ones(2, 7), torch.ones(3, 7)))
        assert (ONEDNN in names) == expected, name
    products._leaves_out.cache_clear()
