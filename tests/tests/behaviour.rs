//! The suite of `carton_tests::behaviour` for each runner.

#![cfg(target_os = "linux")]

use carton_tests::behaviour::Subject;
use carton_tests::behaviour::subjects::node::Node;
use carton_tests::behaviour::subjects::noop::Noop;
use carton_tests::behaviour::subjects::onnx::Onnx;
use carton_tests::behaviour::subjects::python::Python;
use carton_tests::behaviour::subjects::torchscript::Torchscript;
use carton_tests::behaviours;

behaviours!(noop, super::Noop { copies: false });
behaviours!(noop_with_copies, super::Noop { copies: true });

behaviours!(onnx, super::Onnx);
behaviours!(python, super::Python);
behaviours!(node, super::Node);
behaviours!(torchscript_on_debians_libtorch, super::Torchscript::Debian);
behaviours!(torchscript_on_a_current_libtorch, super::Torchscript::Wheel);

#[test]
fn all_hold_for_an_ordinary_user() {
    let Some((text, _)) = carton_tests::ordinary_user::run_again() else { return };
    // What this user can test, the other one tests too.
    let subjects: [&dyn Subject; 5] = [&Onnx, &Python, &Node, &Torchscript::Debian, &Torchscript::Wheel];
    for subject in subjects.into_iter().filter(|subject| subject.unavailable().is_none()) {
        let skipped = format!("skipped: all behaviours of {}:", subject.name());
        assert!(!text.contains(&skipped), "{text}");
    }
}
