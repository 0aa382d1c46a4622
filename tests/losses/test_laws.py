"""What must be true of every loss, whatever it says. Exemptions live in one table, each with its reason."""

import copy

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from found import LOSSES, NEGATIVE_FREE, TEMPERED, call, make, views
from isotherm.engine import tile_size

EXEMPT = {
    ("swap", "BYOLLoss"): "view 0 is the prediction, the others are targets",
    ("swap", "SimSiamLoss"): "view 0 is the prediction, the others are targets",
    ("gradient", "BYOLLoss"): "targets get no gradient; test_identities compares with an expression that detaches",
    ("gradient", "SimSiamLoss"): "targets get no gradient; test_identities compares with an expression that detaches",
    ("gradient", "MACLLoss"): "its weight and temperature are constants; test_identities detaches likewise",
    ("gradient", "DCLWLoss"): "its weights are constants; test_identities detaches likewise",
    ("rotation", "BarlowTwinsLoss"): "compares single features",
    ("rotation", "VICRegLoss"): "compares single features",
    ("rotation", "GeneralizedContrastiveLoss"): "swd projects on a random basis: invariant in distribution only",
    ("length", "BarlowTwinsLoss"): "does not normalize",
    ("length", "VICRegLoss"): "does not normalize",
}
SMOOTH = {"DySTreSSLoss": {"detach": False}}
"""Settings under which the gradient is that of the value; the default detaches τ(s)."""


def losses(law):
    return pytest.mark.parametrize("name", [name for name in LOSSES if (law, name) not in EXEMPT])


def test_exemptions_name_losses_that_exist():
    assert {name for _, name in EXEMPT} <= set(LOSSES)


@losses("order")
@pytest.mark.parametrize("count", [2, 4])
def test_order_of_the_batch_does_not_matter(name, count):
    z = views(count, n=6)
    if name == "SupConLoss":
        order = torch.tensor([3, 1, 2, 0, 4, 5])  # keeps i mod 3 with i: labels move along
    else:
        order = torch.randperm(6, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(call(make(name), z), call(make(name), [v[order] for v in z]), rtol=1e-12, atol=1e-12)


@losses("swap")
def test_order_of_the_views_does_not_matter(name):
    z = views(3)
    torch.testing.assert_close(call(make(name), z), call(make(name), [z[2], z[0], z[1]]), rtol=1e-12, atol=1e-12)


@losses("gradient")
@pytest.mark.parametrize("count", [2, 3])
def test_gradient_equals_finite_differences(name, count):
    z = [v.requires_grad_() for v in views(count, n=6, d=3, seed=2)]
    loss = make(name, **SMOOTH.get(name, {}))
    state = loss.generator.get_state() if getattr(loss, "generator", None) else None

    def value(*z):
        if state is not None:
            loss.generator.set_state(state)
        return call(loss, z)

    assert torch.autograd.gradcheck(value, z, eps=1e-6, atol=1e-6)


@losses("tiles")
@pytest.mark.parametrize("edge", [1, 3, 4, 1000])
def test_tiles_change_nothing(name, edge):
    whole, tiled = ([v.clone().requires_grad_() for v in views(3)] for _ in range(2))
    value = call(make(name), whole)
    value.backward()
    with tile_size(edge):
        same = call(make(name), tiled)
    same.backward()
    torch.testing.assert_close(same, value, rtol=1e-12, atol=1e-12)
    for a, b in zip(whole, tiled, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-12)


class LargestTensor(TorchDispatchMode):
    """Remembers the most numbers any operation produced in one tensor."""

    entries = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in out if isinstance(out, tuple | list) else [out]:
            if isinstance(t, torch.Tensor):
                self.entries = max(self.entries, t.untyped_storage().nbytes() // t.element_size())
        return out


NO_QUEUE = NEGATIVE_FREE | {"SupConLoss", "GeneralizedContrastiveLoss"}


@pytest.mark.parametrize(
    ("name", "queue"), [(name, queue) for name in LOSSES for queue in (False, True) if not (queue and name in NO_QUEUE)]
)
def test_nothing_of_size_n_by_n_ever_exists(name, queue):
    n, d = 768, 4
    z = [v.requires_grad_() for v in views(2, n=n, d=d, dtype=torch.float32)]
    more = {"negatives": views(1, n=2 * n, d=d, dtype=torch.float32)[0]} if queue else {}
    kept = []

    def keep(t):
        kept.append(t.numel())
        return t

    edge = 32
    with tile_size(edge), LargestTensor() as largest:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            value = call(make(name), z, **more)
        value.backward()
    assert sum(kept) < 40 * n * d  # n² is 144 · n·d here
    assert largest.entries <= edge * 2 * n + 8 * n * d


@losses("finite")
@pytest.mark.parametrize("temperature", [0.001, 0.02, 100.0])
@pytest.mark.parametrize("kind", ["random", "identical", "opposite", "duplicated"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_finite_at_any_temperature_and_for_degenerate_embeddings(name, temperature, kind, dtype):
    n, d = 6, 8
    a, b = views(2, n=n, d=d, dtype=torch.float32)
    match kind:
        case "identical":
            a = b = torch.ones(n, d)
        case "opposite":
            b = -a
        case "duplicated":
            a, b = a.clone(), b.clone()
            a[1], b[1] = a[0], b[0]
    z = [v.to(dtype).clone().requires_grad_() for v in (a, b)]
    settings = {}
    if name in TEMPERED:
        settings = {"temperature": temperature}
    elif name == "DySTreSSLoss":
        settings = {"tau_min": temperature, "tau_max": 2 * temperature}
    elif name == "CACRLoss":
        settings = {"t_pos": 1 / temperature, "t_neg": 1 / temperature}
    elif name == "AlignUniformLoss":
        settings = {"t": 1 / temperature}
    value = call(make(name, **settings), z)
    value.backward()
    assert value.dtype == torch.float32
    assert torch.isfinite(value)
    for v in z:
        assert v.grad is None or torch.isfinite(v.grad).all()


@losses("rotation")
def test_rotation_of_the_sphere_does_not_matter(name):
    z = views(2)
    turn = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)).Q
    torch.testing.assert_close(call(make(name), z), call(make(name), [v @ turn for v in z]), rtol=1e-11, atol=1e-11)


@losses("length")
def test_length_of_the_embeddings_does_not_matter(name):
    z = views(2)
    lengths = torch.tensor([1e-30, 1e-3, 1, 2, 1e3, 1e30, 1e150], dtype=torch.float64)
    torch.testing.assert_close(
        call(make(name), z), call(make(name), [v * lengths[:, None] for v in z]), rtol=1e-11, atol=1e-11
    )


@losses("docs")
def test_docstring_states_meaning_equation_and_paper(name):
    doc = LOSSES[name].__doc__
    first = doc.splitlines()[0]
    assert first.endswith((".", "…"))
    assert not first.startswith(("Compute", "Return", "This"))
    assert ".. math::" in doc
    assert "arXiv:" in doc
    assert any(mark in doc for mark in ("eq.", "§", "Table"))
    assert "Fixed points:" in doc


NO_VALUE_PER_QUERY = {"AlignUniformLoss", "BarlowTwinsLoss", "GeneralizedContrastiveLoss", "VICRegLoss"}


@losses("none")
def test_values_per_query_average_to_the_loss(name):
    if name in NO_VALUE_PER_QUERY:
        with pytest.raises(ValueError, match="has no value per query"):
            make(name, reduction="none")
        return
    loss = make(name, reduction="none")
    z = views(3)
    each = call(loss, z)
    assert each.shape == (7 if name in {"BYOLLoss", "SimSiamLoss"} else 21,)
    torch.testing.assert_close(each.mean(), call(make(name), z))


@losses("autocast")
def test_autocast_does_not_touch_the_similarities(name):
    plain, cast = ([v.clone().requires_grad_() for v in views(2, n=32, d=16, dtype=torch.float32)] for _ in range(2))
    expected = call(make(name), plain)
    expected.backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = call(make(name), cast)
    value.backward()
    assert torch.equal(value, expected)
    for a, b in zip(plain, cast, strict=True):
        assert (a.grad is None and b.grad is None) or torch.equal(a.grad, b.grad)


@losses("no_grad")
def test_without_gradient_the_value_is_the_same(name):
    z = views(2)
    with torch.no_grad():
        value = call(make(name), z)
    assert not value.requires_grad
    torch.testing.assert_close(value, call(make(name), [v.clone().requires_grad_() for v in z]).detach())


@losses("copy")
def test_losses_copy_and_print_their_settings(name):
    loss = make(name)
    loss.generator = None
    twin = copy.deepcopy(loss)
    assert repr(twin) == repr(loss)
    assert "reduction='mean'" in repr(loss)
