//! Detects the vector instructions of the CPU, and compiles functions once for each set of them.

/// A set of vector instructions that this CPU was found to have.
///
/// Most loops of the kernels are written once, in plain Rust, and compiled for every set. The sums of float32 (`lanes`), the rounding
/// of float32 to int8 (`rounding`) and the widening of binary16 (`widen`) have a version for each set. The choice is made at run time.
/// All sets compute the same results to the last bit, because the source fixes the lanes and the order of additions, and no operations
/// are fused. There is one exception: the integer for a number that is too large for its scale, because the number changed after the
/// scale was computed, depends on the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level(Instructions);

/// The instructions that a [`Level`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
    /// The instructions that every CPU of the architecture has: SSE2 on x86-64, NEON on aarch64.
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

/// Proof that this CPU has AVX2 and the conversions of binary16. Only [`Level`] makes it.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx2(());

/// Proof that this CPU has the parts of AVX-512 that the kernels use. Only [`Level`] makes it.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx512(());

impl Level {
    /// Returns the fastest set that this CPU has.
    pub(crate) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(avx512) = avx512() {
                return Self(Instructions::Avx512(avx512));
            }
            if let Some(avx2) = avx2() {
                return Self(Instructions::Avx2(avx2));
            }
        }
        Self(Instructions::Baseline)
    }

    /// Returns every set that this CPU has, so that tests can compare them.
    #[cfg(test)]
    pub(crate) fn available() -> Vec<Self> {
        let mut levels = vec![Self(Instructions::Baseline)];
        #[cfg(target_arch = "x86_64")]
        {
            levels.extend(avx2().map(|avx2| Self(Instructions::Avx2(avx2))));
            levels.extend(avx512().map(|avx512| Self(Instructions::Avx512(avx512))));
        }
        levels
    }

    pub(super) fn instructions(self) -> Instructions {
        self.0
    }
}

/// Every real CPU with AVX2 also has the conversions of binary16, but an emulator may lack them.
#[cfg(target_arch = "x86_64")]
fn avx2() -> Option<Avx2> {
    (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")).then_some(Avx2(()))
}

#[cfg(target_arch = "x86_64")]
fn avx512() -> Option<Avx512> {
    // The compiler assumes that a CPU with AVX-512 has everything in AVX2.
    let is_there = avx2().is_some()
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    is_there.then_some(Avx512(()))
}

/// Defines a function whose first argument is the [`Level`] at which it runs. The body sees the level as `$instructions`, which is a
/// constant once the body is inlined. The body must consist of loops and of calls that are `#[inline(always)]` or have target features
/// themselves. Any other call that is not inlined is compiled for the baseline.
macro_rules! at_every_level {
    (
        $(#[$attribute:meta])*
        fn $name:ident<$generic:ident: $bound:ident>(
            $instructions:ident, $($argument:ident: $type:ty),* $(,)?
        ) -> $result:ty $body:block
    ) => {
        $(#[$attribute])*
        pub(crate) fn $name<$generic: $bound>(level: $crate::weights::kernels::Level, $($argument: $type),*) -> $result {
            #[inline(always)]
            fn body<$generic: $bound>($instructions: Instructions, $($argument: $type),*) -> $result $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,f16c")]
            fn avx2<$generic: $bound>(seen: Avx2, $($argument: $type),*) -> $result {
                body::<$generic>(Instructions::Avx2(seen), $($argument),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512<$generic: $bound>(seen: Avx512, $($argument: $type),*) -> $result {
                body::<$generic>(Instructions::Avx512(seen), $($argument),*)
            }

            use $crate::weights::kernels::level::Instructions;
            #[cfg(target_arch = "x86_64")]
            use $crate::weights::kernels::level::{Avx2, Avx512};
            match level.instructions() {
                Instructions::Baseline => body::<$generic>(Instructions::Baseline, $($argument),*),
                // SAFETY: the value only exists if this CPU has the instructions.
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx2(seen) => unsafe { avx2::<$generic>(seen, $($argument),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx512(seen) => unsafe { avx512::<$generic>(seen, $($argument),*) },
            }
        }
    };
}
pub(super) use at_every_level;
