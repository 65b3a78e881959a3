"""Writes a dataset with Spark, reads it again, and compares: a starting point for your own job.

    python job.py OUT                                            on this machine, in this process
    spark-submit --master spark://HOST:7077 job.py OUT           on a cluster; OUT is a folder that all machines share
"""

import sys

from pyspark.sql import SparkSession, functions

import carton_dataset

# Typical samples of a pipeline: an identifying number, a label, and a picture of 3 rows and 4 columns.
SAMPLES = """
    select id,
           cast(id % 10 as tinyint) as label,
           transform(sequence(0, 11), i -> cast(id + i / 16 as float)) as picture
    from range(0, {n}, 1, {n_partitions})
"""


def main(out):
    spark = SparkSession.builder.appName("carton-dataset").getOrCreate()
    carton_dataset.register(spark)
    samples = spark.sql(SAMPLES.format(n=10_000, n_partitions=8))

    options = {"batch_size": 256, "shapes": '{"picture": [3, 4]}', "generate_index": True}
    samples.write.format("carton").mode("append").options(**options).save(out)

    found = spark.read.format("carton").load(out)
    found.printSchema()
    print(f"{found.count()} samples in {found.rdd.getNumPartitions()} shards")
    # Lists of lists are returned, because of the shape.
    flat = found.withColumn("picture", functions.flatten("picture"))
    assert flat.exceptAll(samples).isEmpty() and samples.exceptAll(flat).isEmpty()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
