//! The torchscript runner on a libtorch. Its model comes from `tests/models/behaviour/make_torchscript.py`.

use std::time::Duration;

use carton_core::Options;
use carton_core::config::Config;
use carton_tensor::{DataType, Tensor};

use super::super::stage::floats;
use super::super::subject::ModelFiles;
use super::super::{Misfit, Model, Subject, Trouble, Troubled, Unusual};
use super::{in_checkout, installed};
use crate::place::TestPlace;

/// The torchscript runner.
pub enum Torchscript {
    /// On the libtorch of Debian's package.
    Debian,
    /// On the libtorch of a wheel: the newest, or the series in `CARTON_TEST_TORCHSCRIPT_SERIES`.
    Wheel,
}

impl Torchscript {
    /// The first two numbers of the version of its libtorch.
    fn series(&self) -> &'static str {
        match self {
            Self::Debian => "1.13",
            Self::Wheel => match std::env::var("CARTON_TEST_TORCHSCRIPT_SERIES").as_deref() {
                Ok("2.13") => "2.13",
                Ok("2.14") => "2.14",
                _ => "2.15",
            },
        }
    }
}

impl Subject for Torchscript {
    fn name(&self) -> &'static str {
        match self.series() {
            "1.13" => "torchscript on libtorch 1.13",
            "2.13" => "torchscript on libtorch 2.13",
            "2.14" => "torchscript on libtorch 2.14",
            _ => "torchscript on libtorch 2.15",
        }
    }

    fn runner(&self) -> &'static str {
        "torchscript"
    }

    fn framework_version(&self) -> Option<String> {
        Some(format!("~{}", self.series()))
    }

    fn unavailable(&self) -> Option<String> {
        installed::unavailable("torchscript", self.series())
    }

    fn config(&self, place: &TestPlace) -> Config {
        installed::config(place)
    }

    fn echo(&self, _: DataType) -> Model {
        Model {
            files: ModelFiles::Kept(in_checkout("tests/models/behaviour/torchscript.pt")),
            metadata: String::new(),
            options: Options::new(),
            output: "y",
        }
    }

    fn troubled(&self, trouble: Trouble) -> Option<Troubled> {
        let model = self.echo(DataType::Float32);
        let good = vec![("x", floats(3, 1))];
        let with = |name, value: i64| [&good[..], &[(name, Tensor::scalar(value))]].concat();
        match trouble {
            Trouble::Slow(time) => {
                // A round takes 10 to 200 us.
                let n_rounds = time.max(Duration::from_millis(1)).as_micros() / 200;
                let bad = with("rounds", i64::try_from(n_rounds).unwrap_or(i64::MAX));
                Some(Troubled { model, good, bad, words: "" })
            }
            Trouble::Fail => Some(Troubled { bad: with("fail", 1), model, good, words: "no luck in torch" }),
            Trouble::Crash | Trouble::FailInStream => None,
        }
    }

    fn takes(&self, dtype: DataType) -> bool {
        use DataType::{BFloat16, Bool, Float16};
        dtype.carrier() == dtype || dtype.is_complex() || matches!(dtype, BFloat16 | Bool | Float16)
    }

    fn refuses(&self, unusual: Unusual) -> Option<String> {
        use DataType::{Uint16, Uint32, Uint64};
        match unusual {
            Unusual::Dtype(dtype @ (Uint16 | Uint32 | Uint64)) if self.series() == "1.13" => Some(dtype.to_string()),
            Unusual::StringRank(rank) if rank > 1 => Some("string".to_owned()),
            _ => None,
        }
    }

    fn complains_about(&self, misfit: Misfit) -> Option<&'static str> {
        match misfit {
            Misfit::Missing => Some("KeyError: x"),
            // A dictionary may hold anything.
            Misfit::Surplus | Misfit::Dtype => None,
        }
    }

    fn n_copies(&self) -> u64 {
        0
    }
}
