//! How many threads an operation is best split over, found by trying.
//!
//! A browser's count of processors may be wrong, may count halves of processors, or processors
//! that others use: a thread too many makes every operation wait for it.

use std::hint::black_box;

use super::crew::{Crew, NowMs};
use crate::backend::cpu::math;

/// Rows and columns of the product that is timed: as long as a matrix of a small model takes.
const ROWS: usize = 256;
const COLS: usize = 1024;

/// Products of a sample, so that a coarse clock tells samples apart, and samples of each size.
const PRODUCTS: usize = 4;
const SAMPLES: usize = 9;

/// A larger crew has to be this much faster to be worth its threads.
const GAIN: f64 = 0.95;

/// The least number of members that is about as fast as any.
pub(crate) fn best_size(crew: &Crew, now_ms: NowMs) -> usize {
    let sizes = sizes(crew.size());
    let weights = vec![0.5_f32; ROWS * COLS];
    let mut out = vec![0.0_f32; ROWS];
    let mut times = vec![Vec::with_capacity(SAMPLES); sizes.len()];
    // In turn, so that what passes by meets all of them. The first round wakes the crew.
    for round in 0..=SAMPLES {
        for (&size, times) in sizes.iter().zip(&mut times) {
            let began = now_ms();
            for _ in 0..PRODUCTS {
                product(crew, size, &weights, &mut out);
            }
            if round > 0 {
                times.push(now_ms() - began);
            }
        }
    }
    black_box(&out);
    let medians = times.into_iter().map(median);
    fastest(sizes.into_iter().zip(medians))
}

fn product(crew: &Crew, size: usize, weights: &[f32], out: &mut [f32]) {
    let share = ROWS.div_ceil(size);
    let parts = weights.chunks(share * COLS).zip(out.chunks_mut(share));
    let mut parts: Vec<_> = parts.collect();
    crew.run_on(size, &mut parts, &|(weights, out)| {
        for (row, out) in weights.chunks(COLS).zip(out.iter_mut()) {
            *out = math::dot(row, &weights[..COLS]);
        }
    });
}

/// Up to `most`, closer where they are small.
fn sizes(most: usize) -> Vec<usize> {
    let all = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
    let mut sizes: Vec<_> = all.into_iter().filter(|size| *size < most).collect();
    sizes.push(most);
    sizes
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::INFINITY)
}

/// The first of these sizes that no later one beats by enough.
fn fastest(sizes: impl Iterator<Item = (usize, f64)>) -> usize {
    let mut best = (1, f64::INFINITY);
    for (size, time) in sizes {
        if time < GAIN * best.1 {
            best = (size, time);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_is_hardly_faster_is_not_worth_its_threads() {
        assert_eq!(fastest([(1, 1.0), (2, 0.6), (3, 0.59)].into_iter()), 2);
        assert_eq!(fastest([(1, 1.0), (2, 1.4), (3, 0.5)].into_iter()), 3);
        assert_eq!(fastest([(1, 1.0), (2, 5.0)].into_iter()), 1);
    }

    #[test]
    fn sizes_end_with_the_whole_crew() {
        assert_eq!(sizes(1), [1]);
        assert_eq!(sizes(2), [1, 2]);
        assert_eq!(sizes(5), [1, 2, 3, 4, 5]);
        assert_eq!(sizes(40).last(), Some(&40));
    }

    #[test]
    fn a_crew_of_one_is_best_alone() {
        assert_eq!(best_size(&Crew::new(|| 0.0), || 0.0), 1);
    }
}
