//! The suite of `carton_tests::behaviour` for each runner.

#![cfg(target_os = "linux")]

use carton_tests::behaviours;

behaviours!(noop, carton_tests::behaviour::subjects::noop::Noop { copies: false });
behaviours!(noop_with_copies, carton_tests::behaviour::subjects::noop::Noop { copies: true });
behaviours!(onnx_on_rten, carton_tests::behaviour::subjects::onnx::Rten);
behaviours!(onnx_on_onnx_runtime, carton_tests::behaviour::subjects::onnx::OnnxRuntime);
behaviours!(python, carton_tests::behaviour::subjects::python::Python);
behaviours!(node, carton_tests::behaviour::subjects::node::Node);
behaviours!(torchscript_on_debians_libtorch, carton_tests::behaviour::subjects::torchscript::Torchscript::Debian);
behaviours!(torchscript_on_a_current_libtorch, carton_tests::behaviour::subjects::torchscript::Torchscript::Wheel);
