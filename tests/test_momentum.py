"""A queue of keys and the slow copy that makes them, in a loop of one's own."""

import pytest
import torch

import isotherm
from isotherm.momentum import MomentumCopy, Queue


def test_a_queue_holds_the_last_keys_first_in_first_out():
    queue = Queue(5, 3)
    assert (len(queue), queue.filled) == (5, 0)
    torch.testing.assert_close(queue.keys.norm(dim=1), torch.ones(5))
    keys = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))
    units = torch.nn.functional.normalize(keys, dim=1)
    queue.push(keys[:2])
    torch.testing.assert_close(queue.keys[:2], units[:2])
    assert queue.filled == 2
    before = queue.keys
    queue.push(keys[2:])
    torch.testing.assert_close(queue.keys.sort(0).values, units[2:].sort(0).values)
    torch.testing.assert_close(before[:2], units[:2])  # what was handed out stays
    queue.push(torch.randn(50, 3))
    assert queue.filled == 5


def test_a_queue_that_is_loaded_goes_on_where_it_was():
    a, b = Queue(4, 3, seed=1), Queue(4, 3, seed=2)
    a.push(torch.randn(3, 3))
    b.load_state_dict(a.state_dict())
    for queue in (a, b):
        queue.push(torch.eye(3)[:2])
    assert torch.equal(a.keys, b.keys)
    assert repr(b) == "Queue(size=4, width=3, filled=4)"


def test_a_loop_with_momentum_keys():
    torch.manual_seed(0)
    encoder = torch.nn.Linear(6, 3)
    slow, queue, loss = MomentumCopy(encoder, 0.9), Queue(32, 3), isotherm.nn.InfoNCELoss(0.2)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    start = slow.network.weight.clone()
    x = torch.randn(8, 6)
    for _ in range(3):
        keys = slow(x + 0.1)
        value = loss(encoder(x), keys, negatives=queue.keys)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        slow.follow(encoder)
        queue.push(keys)
    assert queue.filled == 24
    moved, reached = (slow.network.weight - start).norm(), (encoder.weight - start).norm()
    assert 0 < moved < reached
    assert not keys.requires_grad


def test_mistakes_get_one_sentence():
    with pytest.raises(ValueError, match="size must be 1 or more, got 0"):
        Queue(0, 3)
    with pytest.raises(ValueError, match=r"keys must have shape \(N, 3\), got \(2, 4\)"):
        Queue(4, 3).push(torch.ones(2, 4))
