# part: quick
# requires: duckdb==2.0.1
import tempfile

import duckdb


def run():
    with tempfile.TemporaryDirectory() as folder:
        connection = duckdb.connect(f"{folder}/data.duckdb")
        connection.execute("create table sold as select i % 7 as day, i * 1.5 as price from range(100000) t(i)")
        connection.execute(f"copy sold to '{folder}/sold.parquet'")
        query = f"select day, sum(price), median(price) from '{folder}/sold.parquet' group by day order by day"
        rows = connection.execute(query).fetchall()
        connection.close()
    return {"numbers": [float(value) for row in rows for value in row]}
