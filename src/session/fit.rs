//! Whether a model has room, from what its headers say.

use crate::backend::{Backend, ModelShape};

/// What a model will take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Bytes of the weights.
    pub weights_bytes: u64,
    /// Bytes of the cache of a context that is full.
    pub kv_cache_bytes: u64,
    /// The longest context that there is room for, tokens; 0 where there is none for any.
    pub longest_context: usize,
    /// What there is too little of.
    pub shortage: Option<Shortage>,
}

/// What there is too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// What is needed.
    pub what: Need,
    /// Bytes of it.
    pub need: u64,
    /// Bytes that there are at most.
    pub have: u64,
}

/// What takes memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Weights and cache together, in the memory of the host.
    Host,
    /// The cache of one layer, in one buffer of a device.
    LayerCache,
}

impl std::fmt::Display for Need {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Host => "weights and context together",
            Self::LayerCache => "the context of one layer, in one buffer of the GPU,",
        })
    }
}

/// The sizes that decide.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) weights_bytes: u64,
    pub(super) shape: ModelShape,
    /// Positions that layers with a window keep at most.
    pub(super) window_positions: usize,
    /// What was asked for.
    pub(super) context_length: usize,
    /// What the model knows.
    pub(super) max_context: usize,
    /// Bytes of the host for weights and cache.
    pub(super) host_bytes: u64,
}

impl Sizes {
    /// What it comes to on a backend.
    pub(super) fn fit<B: Backend>(&self, backend: &B) -> Fit {
        Fit {
            weights_bytes: self.weights_bytes,
            kv_cache_bytes: self.cache_bytes(backend, self.context_length),
            longest_context: self.longest(backend),
            shortage: self.shortage(backend, self.context_length),
        }
    }

    /// Blocks of one layer of each kind.
    fn blocks(&self, context: usize) -> [(usize, u64); 2] {
        let blocks = |positions: usize| positions.div_ceil(self.shape.block_tokens.max(1)) as u64;
        let ring = context.min(self.window_positions);
        [
            (self.shape.num_layers, blocks(context)),
            (self.shape.window_layers, blocks(ring)),
        ]
    }

    fn cache_bytes<B: Backend>(&self, backend: &B, context: usize) -> u64 {
        let of = |(layers, blocks): (usize, u64)| {
            let layer = backend.cache_bytes(&self.shape, blocks).held;
            layer.saturating_mul(layers as u64)
        };
        let [full, ring] = self.blocks(context).map(of);
        full.saturating_add(ring)
    }

    fn shortage<B: Backend>(&self, backend: &B, context: usize) -> Option<Shortage> {
        let layers = self.blocks(context).into_iter();
        for (_, blocks) in layers.filter(|(layers, _)| *layers > 0) {
            let cache = backend.cache_bytes(&self.shape, blocks);
            if cache.held > cache.most {
                return Some(Shortage {
                    what: Need::LayerCache,
                    need: cache.held,
                    have: cache.most,
                });
            }
        }
        let cache = self.cache_bytes(backend, context);
        let need = self.weights_bytes.saturating_add(cache);
        (backend.is_on_host() && need > self.host_bytes).then_some(Shortage {
            what: Need::Host,
            need,
            have: self.host_bytes,
        })
    }

    fn longest<B: Backend>(&self, backend: &B) -> usize {
        let fits = |context: usize| self.shortage(backend, context).is_none();
        if fits(self.max_context) {
            return self.max_context;
        }
        let block = self.shape.block_tokens.max(1);
        let (mut good, mut bad) = (0, self.max_context.div_ceil(block));
        while bad - good > 1 {
            let middle = usize::midpoint(good, bad);
            if fits(middle * block) {
                good = middle;
            } else {
                bad = middle;
            }
        }
        good * block
    }
}
