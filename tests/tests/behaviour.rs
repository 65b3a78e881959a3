//! The suite of `carton_tests::behaviour` for each runner.

#![cfg(target_os = "linux")]

use carton_tests::behaviours;

behaviours!(noop, carton_tests::behaviour::subjects::noop::Noop { copies: false });
behaviours!(noop_with_copies, carton_tests::behaviour::subjects::noop::Noop { copies: true });

behaviours!(onnx, carton_tests::behaviour::subjects::onnx::Onnx);
behaviours!(python, carton_tests::behaviour::subjects::python::Python);
behaviours!(node, carton_tests::behaviour::subjects::node::Node);
behaviours!(torchscript_on_debians_libtorch, carton_tests::behaviour::subjects::torchscript::Torchscript::Debian);
behaviours!(torchscript_on_a_current_libtorch, carton_tests::behaviour::subjects::torchscript::Torchscript::Wheel);
