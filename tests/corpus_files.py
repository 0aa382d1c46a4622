"""Corpora as files: how tests write them and read them back."""

import pyarrow as pa
import pyarrow.parquet as pq

TRIPLES = "sent0,sent1,hard_neg\na cat,the cat,a dog\nit rains,rain falls,the sun\n"


def file(folder, content, name="corpus.txt"):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows(corpus):
    return corpus.texts(range(len(corpus)))


def firsts(corpus):
    return [row[0] for row in rows(corpus)]


def sheet(folder, name="table.parquet", rows_a_group=None, **columns):
    pq.write_table(pa.table(columns), folder / name, row_group_size=rows_a_group)
    return folder / name
