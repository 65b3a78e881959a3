"""Makes the files of the corpus by hand, from bytes and the standard library alone: no program whose answers the corpus is to judge has a
part in it."""
