//! Which instructions the CPU has, and functions that are compiled once for each set of them.

/// A set of vector instructions that this CPU was seen to have.
///
/// The loops of the kernels are written once, in plain Rust over arrays of lanes; each is compiled for every set, and the
/// choice is made at run time. All compute the same to the last bit: lanes and the order of additions are fixed by
/// the source, and nothing is fused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level(Instructions);

/// What a [`Level`] stands for. Only a level makes others than those of the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
    /// What every CPU of the architecture has: SSE2 on x86-64, NEON on aarch64.
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The fastest set there is.
    pub(crate) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                return Self(Instructions::Avx512);
            }
            if has_avx2() {
                return Self(Instructions::Avx2);
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
            if has_avx2() {
                levels.push(Self(Instructions::Avx2));
            }
            if Self::best().0 == Instructions::Avx512 {
                levels.push(Self(Instructions::Avx512));
            }
        }
        levels
    }

    pub(super) fn instructions(self) -> Instructions {
        self.0
    }
}

/// Every CPU with AVX2 has the conversions of binary16 too; whoever emulates one may leave them out.
#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")
}

/// Defines a function whose first argument is the [`Level`] that it runs at, which the body knows as the constant `$instructions`. The
/// body must consist of loops and of calls that are `#[inline(always)]`: what is not inlined is compiled for the baseline.
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
            fn avx2<$generic: $bound>($($argument: $type),*) -> $result {
                body::<$generic>(Instructions::Avx2, $($argument),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512<$generic: $bound>($($argument: $type),*) -> $result {
                body::<$generic>(Instructions::Avx512, $($argument),*)
            }

            use $crate::weights::kernels::level::Instructions;
            match level.instructions() {
                Instructions::Baseline => body::<$generic>(Instructions::Baseline, $($argument),*),
                // SAFETY: a level is only made of instructions that this CPU was seen to have.
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx2 => unsafe { avx2::<$generic>($($argument),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx512 => unsafe { avx512::<$generic>($($argument),*) },
            }
        }
    };
}
pub(super) use at_every_level;
