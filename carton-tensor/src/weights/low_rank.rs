//! Adds a product of two small matrices to the numbers of a large one (spec/weights.md §9): what a low-rank adapter (LoRA) adds to the weights of
//! a layer. Pure.

use super::blend::Compute;
use super::fused::add_products;

/// The matrix that is added: `scale` times the product of a matrix of `rank` columns and one of `rank` rows.
#[derive(Clone, Debug)]
pub struct LowRank<F> {
    /// The left factor, row by row.
    left: Vec<F>,
    /// The right factor, row by row.
    right: Vec<F>,
    rank: usize,
    n_columns: usize,
    scale: F,
}

impl<F: Compute> LowRank<F> {
    /// The product of `left`, of `n_rows` × `rank`, and `right`, of `rank` × `n_columns`, times `scale`. `None` if they have other numbers of
    /// elements.
    #[must_use]
    pub fn new(left: Vec<F>, right: Vec<F>, [n_rows, rank, n_columns]: [usize; 3], scale: F) -> Option<Self> {
        let fits = Some(left.len()) == n_rows.checked_mul(rank) && Some(right.len()) == rank.checked_mul(n_columns);
        (fits && rank > 0).then_some(Self { left, right, rank, n_columns, scale })
    }

    /// The product of the transposed `right` and the transposed `left`, for a layer whose weights are stored transposed.
    ///
    /// ```
    /// use carton_tensor::weights::LowRank;
    /// // [[1], [2]] · [[3, 4, 5]]
    /// let product = LowRank::new(vec![1.0_f32, 2.0], vec![3.0, 4.0, 5.0], [2, 1, 3], 0.5).ok_or("sizes")?;
    /// let mut numbers = [0.0; 6];
    /// product.clone().transposed().add_to(&mut numbers, 0);
    /// assert_eq!(numbers, [1.5, 3.0, 2.0, 4.0, 2.5, 5.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn transposed(self) -> Self {
        let Self { left, right, rank, n_columns, scale } = self;
        let n_rows = left.len() / rank;
        Self { left: transposed(&right, n_columns), right: transposed(&left, rank), rank, n_columns: n_rows, scale }
    }

    /// Adds the product to `numbers`, which are those of the whole matrix, row by row, from the position `start` on. Each element of the product is
    /// the sum over the rank, in order, of fused products; it is multiplied by the scale, and added.
    pub fn add_to(&self, numbers: &mut [F], start: usize) {
        if self.n_columns == 0 {
            return;
        }
        let (mut position, mut rest, mut product) = (start, numbers, Vec::new());
        while !rest.is_empty() {
            let (row, column) = (position / self.n_columns, position % self.n_columns);
            let length = rest.len().min(self.n_columns - column);
            let (segment, after) = rest.split_at_mut(length);
            product.clear();
            product.resize(length, F::ZERO);
            let factors = self.left.chunks(self.rank).nth(row).unwrap_or_default();
            for (factor, row) in factors.iter().zip(self.right.chunks(self.n_columns)) {
                add_products(&mut product, row.get(column..column + length).unwrap_or_default(), *factor);
            }
            for (number, product) in segment.iter_mut().zip(&product) {
                *number = *number + *product * self.scale;
            }
            position += length;
            rest = after;
        }
    }
}

/// The transposed matrix of a matrix with this many columns.
fn transposed<F: Copy>(matrix: &[F], n_columns: usize) -> Vec<F> {
    let column = |column| matrix.iter().skip(column).step_by(n_columns.max(1)).copied();
    (0..n_columns).flat_map(column).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Small integers, whose products are exact.
    #[test]
    fn every_piece_gets_its_part_of_the_product() {
        let (n_rows, rank, n_columns) = (5, 3, 4);
        let left: Vec<f32> = (0..n_rows * rank).map(|n| (n % 7) as f32).collect();
        let right: Vec<f32> = (0..rank * n_columns).map(|n| (n % 5) as f32 - 2.0).collect();
        let mut expected = vec![1.0; n_rows * n_columns];
        for row in 0..n_rows {
            for column in 0..n_columns {
                let of = |k: usize| left[row * rank + k] * right[k * n_columns + column];
                expected[row * n_columns + column] += 2.0 * (0..rank).map(of).sum::<f32>();
            }
        }
        let product = LowRank::new(left, right, [n_rows, rank, n_columns], 2.0).unwrap();
        for piece in [1, 3, 4, 7, 20] {
            let mut numbers = vec![1.0; n_rows * n_columns];
            for (index, numbers) in numbers.chunks_mut(piece).enumerate() {
                product.add_to(numbers, index * piece);
            }
            assert_eq!(numbers, expected, "{piece}");
        }
        let mut numbers = vec![1.0; n_rows * n_columns];
        product.transposed().add_to(&mut numbers, 0);
        for (position, number) in numbers.into_iter().enumerate() {
            assert_eq!(number, expected[position % n_rows * n_columns + position / n_rows]);
        }
    }

    #[test]
    fn factors_of_other_sizes_are_refused() {
        assert!(LowRank::new(vec![1.0_f32; 6], vec![1.0; 6], [3, 2, 3], 1.0).is_some());
        assert!(LowRank::new(vec![1.0_f32; 6], vec![1.0; 5], [3, 2, 3], 1.0).is_none());
        assert!(LowRank::new(vec![1.0_f32; 6], vec![1.0; 6], [2, 2, 3], 1.0).is_none());
        assert!(LowRank::<f32>::new(Vec::new(), Vec::new(), [2, 0, 3], 1.0).is_none());
        assert!(LowRank::<f32>::new(Vec::new(), Vec::new(), [usize::MAX, 2, 3], 1.0).is_none());
    }
}
