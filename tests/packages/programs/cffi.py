# Calls the C library, which calls back.
# part: quick
# requires: cffi==2.1.1
import cffi


def run():
    ffi = cffi.FFI()
    ffi.cdef("""
        double cos(double);
        size_t strlen(const char *);
        void qsort(void *, size_t, size_t, int (*)(const void *, const void *));
    """)
    c, m = ffi.dlopen(None), ffi.dlopen("libm.so.6")
    values = ffi.new("int[]", [5, 3, 9, 1])

    @ffi.callback("int(const void *, const void *)")
    def compare(one, two):
        return ffi.cast("int *", one)[0] - ffi.cast("int *", two)[0]

    c.qsort(values, 4, ffi.sizeof("int"), compare)
    return {"numbers": [m.cos(1.0), c.strlen(b"carton"), *values]}
