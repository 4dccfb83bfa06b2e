"""Users' own files: CSV, JSONL or Parquet, plain or gzipped, and the folders that stages leave.

`reading` opens a file as a whole table or batch by batch; `csv`, `jsonl` and `parquet` decode one kind each, and `logs` those
of other programs. `dialect` says what a file calls our columns and `scales` how it writes confidences; `cells` and `columns`
judge what stands there. Every complaint names the file, the row (1-based, the header not counted) and the remedy. Model text
is not interpreted here: that is `calibsft.responses`, which `logs` ask.
"""
