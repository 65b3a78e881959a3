//! The no-op runner, which returns its inputs, or copies of them.

use std::time::Duration;

use carton_tensor::{DataType, Tensor};

use super::super::{Misfit, Model, Stream, Subject, Trouble, Troubled, Unusual};

/// The no-op runner.
pub struct Noop {
    /// Whether it writes new outputs instead of returning its inputs.
    pub copies: bool,
}

impl Subject for Noop {
    fn name(&self) -> &'static str {
        if self.copies { "noop with copies" } else { "noop" }
    }

    fn runner(&self) -> &'static str {
        "noop"
    }

    fn echo(&self, _: DataType) -> Model {
        Model::of(vec![("weights.bin", vec![7; 100])], "x").with("copy", self.copies)
    }

    fn troubled(&self, trouble: Trouble) -> Option<Troubled> {
        let model = self.echo(DataType::Float32).with("only_with", "trouble");
        let (model, words) = match trouble {
            Trouble::Slow(time) => {
                let milliseconds = u64::try_from(time.min(Duration::from_secs(600)).as_millis()).ok()?;
                (model.with("delay_ms", milliseconds), "")
            }
            Trouble::Fail => (model.with("fail", "no luck today"), "no luck today"),
            Trouble::Crash => {
                (model.with("crash", true).with("last_words", "goodbye, cruel host"), "goodbye, cruel host")
            }
            Trouble::FailInStream => {
                let model = model.with("fail", "no luck later").with("fail_after_items", 3).with("stream_items", 10);
                (model, "no luck later")
            }
        };
        let good = vec![("x", Tensor::scalar(1.5_f32))];
        let bad = [&good[..], &[("trouble", Tensor::scalar(1_u8))]].concat();
        Some(Troubled { model, good, bad, words })
    }

    fn stream(&self) -> Stream {
        let model = self.echo(DataType::Float32).with("stream_items", 40);
        Stream { model, n_items: 40, is_numbered: false }
    }

    fn takes(&self, _: DataType) -> bool {
        true
    }

    fn refuses(&self, _: Unusual) -> Option<String> {
        None
    }

    fn complains_about(&self, _: Misfit) -> Option<&'static str> {
        None
    }

    fn n_copies(&self) -> u64 {
        0
    }
}
