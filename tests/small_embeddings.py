"""Embeddings with a known shape, and files of them, for tests of inspect."""

import json

import numpy as np
import torch

RANDOM = np.random.default_rng(0)
N, D = 400, 16
LABELS = np.arange(N) % 4
CENTRES = np.linalg.qr(RANDOM.normal(size=(D, D)))[0]
SPHERE = RANDOM.normal(size=(N, D)).astype(np.float32)
CLUSTERS = (CENTRES[LABELS] + 0.15 * RANDOM.normal(size=(N, D))).astype(np.float32)
POINT = (np.ones((N, D)) + 0.02 * RANDOM.normal(size=(N, D))).astype(np.float32)


def tensors(z):
    return torch.from_numpy(z.copy())


def levels(health, word):
    return [f.level for f in health.findings if word in f.text]


def save(folder, form):
    path = folder / f"e.{form}"
    if form == "npy":
        np.save(path, CLUSTERS)
    elif form == "npz":
        np.savez_compressed(path, embeddings=CLUSTERS, labels=LABELS, other=SPHERE)
    elif form == "pt":
        torch.save({"z": tensors(CLUSTERS), "labels": LABELS.tolist(), "step": 3}, path)
    elif form == "safetensors":
        from safetensors.torch import save_file  # noqa: PLC0415

        save_file({"features": tensors(CLUSTERS), "y": torch.from_numpy(LABELS)}, path)
    elif form == "jsonl":
        rows = zip(CLUSTERS.tolist(), LABELS.tolist(), strict=True)
        path.write_text("".join(json.dumps({"embedding": z, "label": f"kind {c}", "more": {}}) + "\n" for z, c in rows))
    else:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
        from pyarrow import feather  # noqa: PLC0415

        table = {"embedding": pa.array(list(CLUSTERS)), "label": pa.array([f"kind {c}" for c in LABELS])}
        if form == "feather":
            feather.write_feather(pa.table(table), path, chunksize=150)
        else:
            pq.write_table(pa.table(table), path, row_group_size=150)
    return path
