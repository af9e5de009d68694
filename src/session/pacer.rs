//! How many rows a prefill chunk takes, so that a stop is heard in time.

use crate::backend::Chunks;

/// Times this near to the target, as a share of it, change nothing: a chunk has a fixed cost,
/// so that one row less or more moves its time by less than its share.
const NEAR: f64 = 0.15;

/// Sizes chunks from the time that earlier ones took. It starts at the fewest rows, because
/// nothing is known of the device, and at most doubles, because the first measurements are cold.
#[derive(Debug)]
pub(super) struct Pacer {
    rows: usize,
    chunks: Chunks,
    max_rows: usize,
}

impl Pacer {
    /// For chunks of at most `max_rows` that are like the backend's.
    pub(super) fn new(chunks: Chunks, max_rows: usize) -> Self {
        let chunks = Chunks {
            least_rows: chunks.least_rows.clamp(1, max_rows),
            tile_rows: chunks.tile_rows.clamp(1, max_rows),
            ..chunks
        };
        Self {
            rows: chunks.least_rows,
            chunks,
            max_rows,
        }
    }

    /// Rows of the next chunk.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Notes that `rows` took `ms`.
    pub(super) fn record(&mut self, rows: usize, ms: f64) {
        // A clock too coarse to see the chunk says only that there is room for more.
        let growth = if ms > 0.0 {
            self.chunks.target_ms / ms
        } else {
            2.0
        };
        // A short last chunk must not shrink what longer ones have shown to fit.
        if (growth - 1.0).abs() <= NEAR || (growth > 1.0 && rows < self.rows) {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "rows are at most a few hundred")]
        let fitting = rows as f64 * growth.min(2.0);
        // Up when there is room, or a fixed cost would hold a short chunk where it is.
        let fitting = if growth > 1.0 {
            fitting.ceil()
        } else {
            fitting
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and at most twice a chunk's rows"
        )]
        let fitting = fitting as usize;
        let fitting = fitting.clamp(self.chunks.least_rows, self.max_rows);
        self.rows = match fitting / self.chunks.tile_rows {
            0 => fitting,
            tiles => tiles * self.chunks.tile_rows,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(least_rows: usize, tile_rows: usize) -> Chunks {
        Chunks {
            least_rows,
            tile_rows,
            target_ms: 80.0,
        }
    }

    /// Rows per chunk after `chunks` chunks on a device that needs `fixed + each * rows` ms.
    fn settled(tile: usize, (fixed, each): (f64, f64), chunks: usize) -> usize {
        let mut pacer = Pacer::new(like(1, tile), 128);
        for _ in 0..chunks {
            let rows = pacer.rows();
            pacer.record(rows, fixed + each * rows as f64);
        }
        pacer.rows()
    }

    #[test]
    fn chunks_approach_the_target_time() {
        for (fixed, each) in [
            (0.0, 5.0),
            (40.0, 1.0),
            (50.0, 10.0),
            (70.0, 5.0),
            (3.0, 2.0),
        ] {
            let rows = settled(1, (fixed, each), 20);
            let ms = fixed + each * rows as f64;
            assert!(
                (68.0..=94.2).contains(&ms),
                "{fixed} + {each} * {rows} = {ms}"
            );
        }
        assert_eq!(settled(1, (0.0, 90.0), 12), 1);
        assert_eq!(settled(1, (0.0, 300.0), 12), 1);
        assert_eq!(settled(1, (0.0, 0.1), 12), 128);
    }

    #[test]
    fn chunks_are_whole_tiles_or_less_than_one() {
        for (each, rows) in [
            (0.1, 128),
            (2.6, 28),
            (4.2, 20),
            (10.0, 8),
            (35.0, 2),
            (90.0, 1),
        ] {
            assert_eq!(settled(4, (0.0, each), 20), rows, "{each} ms a row");
        }
    }

    #[test]
    fn chunks_take_as_long_as_the_backend_asks_for() {
        for (target_ms, rows) in [(40.0, 20), (80.0, 40)] {
            let chunks = Chunks {
                target_ms,
                ..like(1, 1)
            };
            let mut pacer = Pacer::new(chunks, 128);
            for _ in 0..20 {
                pacer.record(pacer.rows(), pacer.rows() as f64 * 2.0);
            }
            assert!(
                pacer.rows().abs_diff(rows) * 100 <= rows * 15,
                "{target_ms}"
            );
        }
    }

    #[test]
    fn a_short_last_chunk_does_not_shrink_the_next() {
        let mut pacer = Pacer::new(like(1, 1), 128);
        for _ in 0..8 {
            pacer.record(pacer.rows(), pacer.rows() as f64 * 2.0);
        }
        let before = pacer.rows();
        pacer.record(1, 2.0);
        assert_eq!(pacer.rows(), before);
    }

    #[test]
    fn a_slow_chunk_shrinks_the_next_below_it() {
        let mut pacer = Pacer {
            rows: 64,
            chunks: like(1, 1),
            max_rows: 128,
        };
        pacer.record(64, 600.0);
        assert_eq!(pacer.rows(), 8);
        let mut tiled = Pacer::new(like(8, 8), 128);
        tiled.record(8, 600.0);
        assert_eq!(tiled.rows(), 8);
    }
}
