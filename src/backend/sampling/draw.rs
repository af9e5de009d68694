//! The cuts and the draw.

use super::SampleParams;

/// Candidates that are ranked at first; a draw rarely needs more.
const FIRST_RANKED: usize = 64;

/// The cuts and the draw, for a temperature above 0; `best` is the largest of `logits`.
pub(super) fn draw(logits: &[f32], best: usize, params: &SampleParams<'_>) -> usize {
    let (max, temperature) = (f64::from(logits[best]), f64::from(params.temperature));
    let weight = |z: f32| ((f64::from(z) - max) / temperature).exp();
    let total = || -> f64 { logits.iter().map(|&z| weight(z)).sum() };
    // The largest weight is exp(0) = 1, so the bound is min_p itself. Weights of 0 go too, lest
    // a rounding crumb chooses a token that a mask has excluded.
    let floor = f64::from(params.min_p).max(f64::MIN_POSITIVE);

    let by_rank = params.top_k > 0 || params.top_p < 1.0;
    let (mut ranked, kept, mass) = if by_rank {
        let wanted = if params.top_p < 1.0 {
            f64::from(params.top_p) * total()
        } else {
            f64::INFINITY
        };
        let mut ranked = Ranked::new(logits);
        let (mut kept, mut mass) = (0, 0.0);
        let limit = match params.top_k {
            0 => usize::MAX,
            top_k => top_k,
        };
        while kept < limit && mass < wanted {
            let next = ranked.at(kept).map(|id| weight(logits[id]));
            let Some(next) = next.filter(|&next| next >= floor) else {
                break;
            };
            mass += next;
            kept += 1;
        }
        (ranked, kept, mass)
    } else {
        let mass = logits.iter().map(|&z| weight(z)).filter(|&w| w >= floor);
        (Ranked::new(logits), usize::MAX, mass.sum())
    };

    let mut left = params.uniform * mass;
    let mut chosen = best;
    for rank in 0..kept {
        let Some(id) = ranked.at(rank) else { break };
        let weight = weight(logits[id]);
        if weight < floor {
            break;
        }
        // Rounding can leave a crumb; it belongs to the last candidate.
        chosen = id;
        left -= weight;
        if left < 0.0 {
            break;
        }
    }
    chosen
}

/// Ids by falling logit, equal ones by rising id, ranked only as far as they are asked for.
struct Ranked<'a> {
    logits: &'a [f32],
    ids: Vec<u32>,
    ranked: usize,
}

impl<'a> Ranked<'a> {
    fn new(logits: &'a [f32]) -> Self {
        let ids = logits
            .iter()
            .zip(0_u32..)
            .filter(|&(&z, _)| z > f32::NEG_INFINITY)
            .map(|(_, id)| id)
            .collect();
        Self {
            logits,
            ids,
            ranked: 0,
        }
    }

    /// The id of a rank, from 0.
    fn at(&mut self, rank: usize) -> Option<usize> {
        while rank >= self.ranked && self.ranked < self.ids.len() {
            self.rank_more();
        }
        self.ids.get(rank).map(|&id| id as usize)
    }

    fn rank_more(&mut self) {
        let logits = self.logits;
        let by_rank = |a: &u32, b: &u32| {
            let (x, y) = (logits[*a as usize], logits[*b as usize]);
            y.total_cmp(&x).then(a.cmp(b))
        };
        let rest = &mut self.ids[self.ranked..];
        let count = (self.ranked * 7).max(FIRST_RANKED).min(rest.len());
        if count < rest.len() {
            rest.select_nth_unstable_by(count - 1, by_rank);
        }
        rest[..count].sort_unstable_by(by_rank);
        self.ranked += count;
    }
}
