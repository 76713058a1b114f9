//! A radix-2 Fourier transform, for autocovariances of long series in n log n time.

use std::f64::consts::PI;

#[derive(Clone, Copy, Default)]
struct Complex {
    re: f64,
    im: f64,
}

impl Complex {
    fn plus(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }

    fn minus(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }

    fn times(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

/// Sum over i of x[i] x[i + lag], for lags 0 to n-1 (not divided by n).
///
/// The series is padded with zeros to twice its length, so that the transform's wrap-around adds nothing.
pub(crate) fn autocovariance_sums(centred: &[f64]) -> Vec<f64> {
    let size = (2 * centred.len()).next_power_of_two();
    let mut values: Vec<Complex> = centred.iter().map(|re| Complex { re: *re, im: 0.0 }).collect();
    values.resize(size, Complex::default());
    transform(&mut values);
    for value in &mut values {
        *value = Complex { re: value.re * value.re + value.im * value.im, im: 0.0 };
    }
    // The power spectrum is real and even, so the forward transform is the inverse one but for the factor.
    transform(&mut values);
    values.iter().take(centred.len()).map(|value| value.re / size as f64).collect()
}

/// In-place forward transform; the length is a power of two (Cooley and Tukey 1965).
fn transform(values: &mut [Complex]) {
    let size = values.len();
    let bits = size.trailing_zeros();
    for index in 0..size {
        let reversed = if bits == 0 { 0 } else { index.reverse_bits() >> (usize::BITS - bits) };
        if index < reversed {
            values.swap(index, reversed);
        }
    }
    let roots: Vec<Complex> = (0..size / 2)
        .map(|k| {
            let (im, re) = (-2.0 * PI * k as f64 / size as f64).sin_cos();
            Complex { re, im }
        })
        .collect();
    let mut half = 1;
    while half < size {
        for group in values.chunks_exact_mut(2 * half) {
            let (low, high) = group.split_at_mut(half);
            for (k, (a, b)) in low.iter_mut().zip(high).enumerate() {
                let turned = b.times(roots[k * (size / (2 * half))]);
                (*a, *b) = (a.plus(turned), a.minus(turned));
            }
        }
        half *= 2;
    }
}
