"""Masked words against transformers' own model for them, what is hidden, and that they are learnt."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import processes
from isotherm import world
from isotherm.encoders import text
from isotherm.methods import Given, Network, method
from isotherm.train.averaging import Averaging
from isotherm.train.commandline import configure
from isotherm.train.config import Runtime
from isotherm.train.loop import train
from isotherm.types import Batch
from small_text import SMALL, WORDS, run, sentence

transformers = pytest.importorskip("transformers", reason="the extra 'text' is not installed")
SENTENCES = [sentence(random.Random(i)) for i in range(60)]


def masked(**settings):
    torch.manual_seed(0)
    tokenizer = text.train_tokenizer(SENTENCES, 300)
    encoder = text.small(tokenizer, width=16, layers=2, heads=2, dropout=0.0)
    m = method("mlm", Network(encoder, torch.nn.Identity()), None, Given(16, views=1), **settings)
    with torch.no_grad():
        m.bias.normal_()
    m.at(0, 10)
    return m.double()


def batch(m, sentences=SENTENCES):
    encoder = m.network.encoder
    return Batch(
        [encoder.padded(encoder.tokens(sentences))], torch.full((len(sentences),), -1), torch.arange(len(sentences))
    )


def test_the_cost_is_that_of_transformers_with_the_same_weights():
    m = masked()
    encoder, given = m.network.encoder, batch(m)
    theirs = transformers.BertForMaskedLM(transformers.BertConfig(**{**encoder.model.config.to_dict()})).double().eval()
    theirs.bert.load_state_dict(encoder.model.state_dict(), strict=False)
    head = theirs.cls.predictions
    with torch.no_grad():
        for mine, to in ((m.guess[0], head.transform.dense), (m.guess[2], head.transform.LayerNorm)):
            to.weight.copy_(mine.weight)
            to.bias.copy_(mine.bias)
        head.decoder.weight.copy_(encoder.model.get_input_embeddings().weight)
        head.decoder.bias.copy_(m.bias)
    m.guess[2].eps = head.transform.LayerNorm.eps
    tokens = given.views[0]
    shown, chosen = m.hidden(tokens, given.indices)
    out = theirs(
        input_ids=shown.masked_fill(tokens == text.PADDING, encoder.filler),
        attention_mask=(tokens != text.PADDING).long(),
        labels=tokens.masked_fill(~chosen, -100),
    )
    value = m.compare(given)
    assert value.item() == pytest.approx(out.loss.item(), rel=1e-12)
    value.backward()
    out.loss.backward()
    word = "embeddings.word_embeddings.weight"
    mine = dict(encoder.model.named_parameters())[word].grad
    other = dict(theirs.bert.named_parameters())[word].grad
    if head.decoder.weight is not theirs.bert.get_input_embeddings().weight:
        other = other + head.decoder.weight.grad
    torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-13)


def test_what_is_hidden_has_the_shares_of_bert_and_belongs_to_the_sentence():
    m = masked()
    many = batch(m, SENTENCES * 40)
    tokens = many.views[0]
    shown, chosen = m.hidden(tokens, many.indices)
    words = ~torch.isin(tokens, m.marks)
    assert not (chosen & ~words).any()
    assert torch.equal(shown[~chosen], tokens[~chosen])
    n, k = int(words.sum()), int(chosen.sum())
    assert stats.binomtest(k, n, 0.15).pvalue > 1e-3
    mask = m.network.encoder.tokenizer.mask_token_id
    parts = [int((shown[chosen] == mask).sum()), int((shown[chosen] == tokens[chosen]).sum())]
    changed = k - sum(parts)
    same = 0.1 / len(m.words)  # of those drawn anew some are what they were
    assert stats.chisquare([*parts, changed], k * np.array([0.8, 0.1 + same, 0.1 - same])).pvalue > 1e-3
    assert not torch.isin(shown[chosen & (shown != mask)], m.marks).any()
    # the same for a share of the batch, other in the next step and for another seed
    some = torch.tensor([5, 17, 40])
    part, which = m.hidden(tokens[some], many.indices[some])
    assert torch.equal(part, shown[some])
    assert torch.equal(which, chosen[some])
    m.at(1, 10)
    assert not torch.equal(m.hidden(tokens, many.indices)[1], chosen)


def test_parts_of_a_batch_make_the_whole():
    m = masked()
    given = batch(m)
    whole = m.compare(given)
    parts = [
        m.embed(Batch([given.views[0][part]], given.labels[part], given.indices[part]))[0]
        for part in torch.arange(60).split(17)
    ]
    assert m.objective([torch.cat(parts)], [], given).item() == pytest.approx(whole.item(), rel=1e-12)
    nothing = batch(m, ["", ""])
    assert m.compare(nothing).item() == 0.0


def test_words_are_learnt(tmp_path):
    """A sentence that says one word many times: what is left of it tells what is hidden."""
    corpus = tmp_path / "again.txt"
    corpus.write_text("\n".join(" ".join([word] * (6 + i % 3)) for i, word in enumerate(WORDS * 20)))
    settings = {**SMALL, "encoder.dropout": 0.0, "data_options": {"duplicates": "keep"}}
    out = run(tmp_path / "a", corpus, method="mlm", **settings, epochs=20, lr=1e-2)
    seen = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    costs = [line["loss_mean"] for line in seen if "loss_mean" in line]
    assert costs[-1] < 0.5 * np.log(len(WORDS)) < costs[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "mlm", "data": "digits"}, "reads sentences; digits holds images"),
        ({"method": "mlm", "data": "digits", "encoder": "convnet"}, "mlm reads sentences"),
        ({"method": "mlm", "method.share": 1.0}, "share lies between 0 and 1"),
        ({"method": "mlm", "loss": "InfoNCELoss"}, "takes no loss"),
    ],
)
def test_what_it_cannot_do_is_told(settings, message, tmp_path):
    corpus = tmp_path / "a.txt"
    corpus.write_text("\n".join(SENTENCES))
    with pytest.raises(ValueError, match=message):
        train(configure({"data": f"text:{corpus}", "monitor": 0, **settings}), Runtime(out=tmp_path / "a", quiet=True))


SPLITS = {2: (20, 40), 3: (7, 33, 20)}


def step(mine=slice(None)):
    """The value, and everyone's mean gradient."""
    m = masked()
    given = batch(m)
    learning = [p for p in m.parameters() if p.requires_grad]
    value = m.compare(Batch([given.views[0][mine]], given.labels[mine], given.indices[mine]))
    with Averaging(learning, size=1000).during_backward():
        value.backward()
    return value.detach(), [p.grad for p in learning if p.grad is not None]


def process(rank, count, folder):
    world.join(rank, count, Path(folder) / f"meet{count}")
    start = sum(SPLITS[count][:rank])
    torch.save(step(slice(start, start + SPLITS[count][rank])), Path(folder) / f"{count}-{rank}.pt")
    world.leave()


@pytest.mark.parametrize("count", SPLITS)
def test_several_processes_are_one(count, tmp_path):
    value, gradients = step()
    processes.several(count, process, count, str(tmp_path))
    for rank in range(count):
        theirs, slopes = torch.load(tmp_path / f"{count}-{rank}.pt", weights_only=True)
        torch.testing.assert_close(theirs, value, rtol=1e-12, atol=0)
        for mine, other in zip(gradients, slopes, strict=True):
            torch.testing.assert_close(other, mine, rtol=1e-9, atol=1e-12)
