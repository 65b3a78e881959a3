# part: quick
# requires: pyarrow==26.0.1
import tempfile

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq


def run():
    table = pa.table({"key": ["a", "b"] * 5000, "value": pa.array(range(10000), pa.float64())})
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(table, f"{folder}/table.parquet", compression="zstd", row_group_size=1000)
        read = ds.dataset(folder).to_table(filter=pc.field("value") > 5000)
        mapped = pq.read_table(f"{folder}/table.parquet", memory_map=True)
    sums = read.group_by("key").aggregate([("value", "sum")]).sort_by("key")
    return {"numbers": [*sums["value_sum"].to_pylist(), read.num_rows, pc.stddev(mapped["value"]).as_py()]}
