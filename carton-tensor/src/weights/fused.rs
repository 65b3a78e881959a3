//! Sums of products by fused multiply-add, which rounds once (IEEE 754-2019, 5.4.1). The instructions are used where the CPU has them; elsewhere the
//! result is the same, and slow.

/// A float type with a fused multiply-add.
pub trait Fused: Copy {
    /// `self * factor + summand`, rounded once.
    #[must_use]
    fn fused(self, factor: Self, summand: Self) -> Self;
}

impl Fused for f32 {
    #[inline(always)]
    fn fused(self, factor: Self, summand: Self) -> Self {
        self.mul_add(factor, summand)
    }
}

impl Fused for f64 {
    #[inline(always)]
    fn fused(self, factor: Self, summand: Self) -> Self {
        self.mul_add(factor, summand)
    }
}

/// Adds `numbers * factor` to the sums.
pub(super) fn add_products<F: Fused>(sums: &mut [F], numbers: &[F], factor: F) {
    #[inline(always)]
    fn body<F: Fused>(sums: &mut [F], numbers: &[F], factor: F) {
        for (sum, number) in sums.iter_mut().zip(numbers) {
            *sum = number.fused(factor, *sum);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn with_fma<F: Fused>(sums: &mut [F], numbers: &[F], factor: F) {
        body(sums, numbers, factor);
    }

    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the CPU was just found to have the instructions.
        unsafe { with_fma(sums, numbers, factor) };
        return;
    }
    body(sums, numbers, factor);
}
