//! How many rows a prefill chunk takes, so that a stop is heard in time.

/// A chunk aims at this much work, so that noise stays below the promised 100 ms.
const TARGET_MS: f64 = 80.0;

/// Times this near to the target, as a share of it, change nothing: a chunk has a fixed cost,
/// so that one row less or more moves its time by less than its share.
const NEAR: f64 = 0.15;

/// Sizes chunks from the time that earlier ones took. It starts at the fewest rows, because
/// nothing is known of the device, and at most doubles, because the first measurements are cold.
#[derive(Debug)]
pub(super) struct Pacer {
    rows: usize,
    /// Fewer would take as long.
    least_rows: usize,
    /// More are a multiple of so many.
    tile_rows: usize,
    max_rows: usize,
}

impl Pacer {
    /// The backend's [`least_rows`](crate::backend::Backend::least_rows) and
    /// [`tile_rows`](crate::backend::Backend::tile_rows).
    pub(super) fn new([least_rows, tile_rows]: [usize; 2], max_rows: usize) -> Self {
        let least_rows = least_rows.clamp(1, max_rows);
        let tile_rows = tile_rows.clamp(1, max_rows);
        Self {
            rows: least_rows,
            least_rows,
            tile_rows,
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
        let growth = if ms > 0.0 { TARGET_MS / ms } else { 2.0 };
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
        let fitting = fitting.clamp(self.least_rows, self.max_rows);
        self.rows = match fitting / self.tile_rows {
            0 => fitting,
            tiles => tiles * self.tile_rows,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows per chunk after `chunks` chunks on a device that needs `fixed + each * rows` ms.
    fn settled(tile: usize, (fixed, each): (f64, f64), chunks: usize) -> usize {
        let mut pacer = Pacer::new([1, tile], 128);
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
    fn a_short_last_chunk_does_not_shrink_the_next() {
        let mut pacer = Pacer::new([1, 1], 128);
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
            least_rows: 1,
            tile_rows: 1,
            max_rows: 128,
        };
        pacer.record(64, 600.0);
        assert_eq!(pacer.rows(), 8);
        let mut tiled = Pacer::new([8, 8], 128);
        tiled.record(8, 600.0);
        assert_eq!(tiled.rows(), 8);
    }
}
