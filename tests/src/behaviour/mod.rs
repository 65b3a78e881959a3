//! The behaviours that every runner must have, whatever its framework: one suite, called for each runner through real processes and the
//! public library.
//!
//! A runner takes part by a [`Subject`], which says how its models are made, what it refuses and with which words. Each behaviour is a
//! function over a [`Stage`], where the subject is installed; [`behaviours!`](crate::behaviours) makes a test of each, so that a failure
//! names the runner and the behaviour. `values` and `shapes` test tensors, `calls` the ways to call, `trouble` failures, and `resources`
//! memory, descriptors and processor time.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

pub mod calls;
mod log_capture;
pub mod resources;
pub mod shapes;
mod stage;
mod subject;
pub mod subjects;
pub mod trouble;
pub mod values;

pub use stage::Stage;
pub use subject::{Misfit, Model, Stream, Subject, Trouble, Troubled, Unusual};

/// Defines a module of tests for a subject: `behaviours!(noop, subjects::noop::Noop)`. Tests that measure this process run alone.
#[macro_export]
macro_rules! behaviours {
    ($module:ident, $subject:expr) => {
        mod $module {
            $crate::behaviours! { @together $subject,
                values: every_dtype_is_returned_bit_for_bit, strings_of_every_kind, nested_tensors_or_a_clear_refusal;
                shapes: ranks_and_empty_dimensions, large_ranks, sizes_around_what_is_sent_inline;
                calls: sixty_four_calls_at_once, two_models_at_once, sealed_inputs, streams_to_the_end, abandoned_streams,
                    streams_that_fail, inputs_that_do_not_fit, unknown_options_are_warned_about;
                trouble: an_error_costs_one_call, a_crash_costs_one_call, a_killed_runner_is_replaced, a_timeout_kills,
                    a_dropped_call_costs_nothing_else, a_device_that_cannot_be_used_is_an_error;
                resources: an_idle_runner_rests;
            }
            $crate::behaviours! { @alone $subject,
                resources: a_gibibyte, many_calls_leave_nothing, a_thousand_dropped_calls_leave_nothing;
            }
        }
    };
    (@$turn:ident $subject:expr, $($part:ident: $($name:ident),+;)+) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let executable = env!("CARGO_BIN_EXE_carton-test-runner");
                let scratch = env!("CARGO_TARGET_TMPDIR");
                if let Some(stage) = $crate::behaviour::Stage::$turn(&$subject, executable, scratch).await {
                    $crate::behaviour::$part::$name(&stage).await;
                }
            }
        )+)+
    };
}
