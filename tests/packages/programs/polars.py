# part: slow
# requires: polars==2.1.0
import tempfile

import polars as pl


def run():
    table = pl.DataFrame({"group": ["a", "b", "a", "c"] * 1000, "value": range(4000)})
    sums = table.lazy().group_by("group").agg(pl.col("value").sum()).sort("group").collect()
    with tempfile.TemporaryDirectory() as folder:
        table.write_parquet(f"{folder}/table.parquet")
        scanned = pl.scan_parquet(f"{folder}/table.parquet").filter(pl.col("value") > 3000).collect(engine="streaming")
    return {"numbers": [*sums["value"], scanned.height, scanned["value"].mean()]}
