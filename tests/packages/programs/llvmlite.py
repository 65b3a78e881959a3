# part: slow
# requires: llvmlite==0.50.0
import ctypes

import llvmlite.binding as llvm

CODE = """
define double @multiply(double %x, double %y) {
  %product = fmul double %x, %y
  ret double %product
}
"""


def run():
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    with llvm.create_mcjit_compiler(llvm.parse_assembly(CODE), machine) as engine:
        engine.finalize_object()
        kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)
        multiply = kind(engine.get_function_address("multiply"))
        return {"numbers": [multiply(6.5, 3.0)]}
