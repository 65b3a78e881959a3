//! Which instructions the CPU has, and functions that are compiled once for each set of them.

/// A set of vector instructions that this CPU was seen to have.
///
/// Most loops of the kernels are written once, in plain Rust, and compiled for every set; the sums of float32 (`lanes`), the rounding of
/// float32 to int8 (`rounding`) and the widening of binary16 (`widen`) are written for each. The choice is made at run time. All compute the
/// same to the last bit: lanes and the order of additions are fixed by the source, and nothing is fused. Only what a number becomes that is
/// too large for its scale, because it was changed since, depends on the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level(Instructions);

/// What a [`Level`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
    /// What every CPU of the architecture has: SSE2 on x86-64, NEON on aarch64.
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

/// That this CPU has AVX2 and the conversions of binary16. Made by [`Level`] only.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx2(());

/// That this CPU has the parts of AVX-512 that the kernels use. Made by [`Level`] only.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx512(());

impl Level {
    /// The fastest set there is.
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

    /// Every set that this CPU has, so that tests can compare them.
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

/// Every CPU with AVX2 has the conversions of binary16 too; whoever emulates one may leave them out.
#[cfg(target_arch = "x86_64")]
fn avx2() -> Option<Avx2> {
    (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")).then_some(Avx2(()))
}

#[cfg(target_arch = "x86_64")]
fn avx512() -> Option<Avx512> {
    // The compiler takes what AVX2 has for granted with AVX-512.
    let is_there = avx2().is_some()
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    is_there.then_some(Avx512(()))
}

/// Defines a function whose first argument is the [`Level`] that it runs at, which the body knows as `$instructions`, a constant once it is inlined. The
/// body must consist of loops and of calls that are `#[inline(always)]` or have target features of their own: what else is not inlined is
/// compiled for the baseline.
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
                // SAFETY: that there is such a value says that this CPU has the instructions.
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
