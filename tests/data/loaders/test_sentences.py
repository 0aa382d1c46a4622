"""Batches of tokens: every sentence once, the same whoever asks, resumed anywhere."""

import itertools
import random

import pytest
import torch

from corpus_files import TRIPLES, file
from isotherm.data.loaders.sentences import TextLoader
from isotherm.data.sentences import read


def words(tokens):
    return [bytes(row[row > 0].tolist()).decode() for row in tokens]


@pytest.fixture
def corpus(tmp_path):
    draw = random.Random(1)
    return read(file(tmp_path, "".join(f"{i} " + "x" * draw.randrange(1, 60) + "\n" for i in range(203))))


def tokenize(texts):
    """A token a byte; 0 pads."""
    rows = [torch.tensor(list(text.encode())) for text in texts]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def loader(corpus, **settings):
    return TextLoader(corpus, tokenize, **({"views": 2, "batch": 16, "seed": 3} | settings))


def same(one, other):
    return all(
        torch.equal(a, b)
        for x, y in zip(one, other, strict=True)
        for a, b in zip([*x.views, x.labels, x.indices], [*y.views, y.labels, y.indices], strict=True)
    )


def test_an_epoch_shows_every_sentence_once_in_an_order_of_its_own(corpus):
    dealt = loader(corpus, drop_last=False)
    indices = [torch.cat([batch.indices for batch in dealt.epoch(e)]).tolist() for e in (0, 1)]
    assert sorted(indices[0]) == sorted(indices[1]) == list(range(203))
    assert indices[0] != indices[1]
    assert len(dealt) == 13
    assert len(loader(corpus)) == len(list(loader(corpus).epoch(0))) == 12
    assert loader(corpus, shuffle=False).order(5).tolist() == list(range(203))


def test_views_of_a_sentence_are_its_tokens_again_and_nobody_knows_a_label(corpus):
    batch = next(iter(loader(corpus, views=3).epoch(0)))
    assert len(batch.views) == 3
    for view in batch.views:
        assert view.dtype == torch.int64
        assert words(view) == [text for (text,) in corpus.texts(batch.indices)]
    assert batch.labels.dtype == torch.int64
    assert batch.labels.tolist() == [-1] * 16


@pytest.mark.parametrize("count", [2, 3])
def test_pairs_and_triples_are_views(tmp_path, count):
    names = ["sent0", "sent1", "hard_neg"][:count]
    triples = read(file(tmp_path, TRIPLES, "nli.csv"), columns=names)
    (batch,) = loader(triples, views=count, batch=2).epoch(0)
    assert [*zip(*map(words, batch.views), strict=True)] == triples.texts(batch.indices)
    assert len({view.shape[1] for view in batch.views}) > 1  # each padded for itself


@pytest.mark.parametrize("bucket", [1, 4])
def test_batches_depend_on_seed_and_epoch_alone(corpus, bucket):
    first = list(loader(corpus, bucket=bucket).epoch(2))
    assert same(first, list(loader(corpus, bucket=bucket, prefetch=0).epoch(2)))
    for other in (loader(corpus, bucket=bucket, seed=4).order(2), loader(corpus, bucket=bucket).order(3)):
        assert not torch.equal(other, loader(corpus, bucket=bucket).order(2))


@pytest.mark.parametrize("bucket", [1, 4])
def test_an_epoch_resumed_in_the_middle_goes_on_the_same(corpus, bucket):
    dealt = loader(corpus, bucket=bucket)
    assert same(list(dealt.epoch(1))[7:], list(dealt.epoch(1, start=7)))
    assert list(dealt.epoch(1, start=12)) == []
    with pytest.raises(ValueError, match="an epoch has 12 batches; cannot start at 13"):
        dealt.epoch(1, start=13)


@pytest.mark.parametrize("bucket", [1, 4])
@pytest.mark.parametrize("world", [2, 5])
def test_the_shares_of_all_processes_are_the_batch_of_one(corpus, world, bucket):
    settings = {"bucket": bucket, "drop_last": False}
    alone = list(loader(corpus, **settings).epoch(0))
    shares = [list(loader(corpus, **settings, rank=rank, world=world).epoch(0)) for rank in range(world)]
    for number, batch in enumerate(alone):
        parts = [share[number] for share in shares]
        assert torch.equal(batch.indices, torch.cat([part.indices for part in parts]))
        assert torch.equal(batch.labels, torch.cat([part.labels for part in parts]))
        for view in range(2):
            assert words(batch.views[view]) == [text for part in parts for text in words(part.views[view])]


def test_a_share_of_a_last_batch_may_be_empty(corpus):
    last = list(loader(corpus, batch=101, drop_last=False, rank=2, world=3).epoch(0))[-1]
    assert [tuple(view.shape) for view in last.views] == [(0, 1), (0, 1)]


def padding(dealt):
    return sum(int((batch.views[0] == 0).sum()) for batch in dealt.epoch(0))


def test_buckets_keep_every_sentence_once_and_lower_the_padding(corpus):
    plain, bucketed = loader(corpus, drop_last=False), loader(corpus, drop_last=False, bucket=6)
    assert sorted(bucketed.order(0).tolist()) == list(range(203))
    assert padding(bucketed) < 0.4 * padding(plain)
    # What is left over at the end is left over as it was, not the longest sentences.
    assert torch.equal(bucketed.order(0)[192:], plain.order(0)[192:])


def test_buckets_are_made_of_neighbours_in_the_order_and_dealt_shuffled(corpus):
    plain, bucketed = loader(corpus, bucket=1), loader(corpus, bucket=3)
    number = {place: i // 48 for i, place in enumerate(plain.order(0).tolist())}
    batches = bucketed.order(0)[:192].view(12, 16)
    buckets = [{number[place] for place in batch.tolist()} for batch in batches]
    assert all(len(bucket) == 1 for bucket in buckets)
    dealt = [bucket.pop() for bucket in buckets]
    assert sorted(dealt) == sorted([0, 1, 2, 3] * 3)
    assert dealt != sorted(dealt)
    sizes = corpus.sizes[batches]
    for bucket in range(4):
        spans = sorted((int(sizes[i].min()), int(sizes[i].max())) for i in range(12) if dealt[i] == bucket)
        assert all(low[1] <= high[0] for low, high in itertools.pairwise(spans))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch": 0}, "a batch holds 1 sentence or more, got 0"),
        ({"bucket": 0}, "a bucket holds 1 batch or more, got 0"),
        ({"views": 0}, "a sentence is shown 1 time or more, got 0 views"),
        ({"rank": 2, "world": 2}, "rank 2 is not one of 2 processes"),
        ({"batch": 2, "world": 3}, "a batch of 2 cannot be shared by 3 processes"),
        (
            {"batch": 204},
            "a batch of 204 is larger than corpus with its 203 sentences; contrastive learning needs others",
        ),
    ],
)
def test_a_loader_refuses_what_cannot_be_dealt(corpus, settings, words):
    with pytest.raises(ValueError, match=words):
        loader(corpus, **settings)


def test_pairs_have_two_views(tmp_path):
    pairs = read(file(tmp_path, TRIPLES, "nli.csv"), columns=["sent0", "sent1"])
    with pytest.raises(ValueError, match="nli holds anchor, positive: 2 views, got 3"):
        loader(pairs, views=3, batch=2)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_tokenizer_that_gives_something_else_is_found_out(corpus, prefetch):
    wrong = TextLoader(corpus, lambda texts: torch.zeros(len(texts), 4), views=2, batch=16, prefetch=prefetch)
    with pytest.raises(ValueError, match=r"tokenize must give int64 \(16, T\) for 16 sentences, got torch.float32"):
        next(iter(wrong.epoch(0)))
