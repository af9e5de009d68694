// sample_pick.wgsl: words of the sampler's choice in the making
//
// Needs     pick, declared by the kernel as array<u32>; BINS

const FAULT: u32 = 0u; // as in the ring
const RAW_LARGEST: u32 = 1u; // key of the largest logit as the model gave it
const LARGEST: u32 = 2u; // and as adjusted
const CHOSEN: u32 = 3u;
const FLOOR_KEY: u32 = 4u; // lesser ones are dropped
const STAGE: u32 = 5u; // what the list is for
const FIRST_BIN: u32 = 6u; // bins that are listed
const LAST_BIN: u32 = 7u;
const BEFORE: u32 = 8u; // number and weight of all before the list's
const WANTED: u32 = 11u; // weight that ends the kept ones
const MASS: u32 = 13u; // weight of the kept ones
const TOP_KEY: u32 = 15u; // no logit below it is among the likeliest
const MERGED: u32 = 16u; // the histogram: number and weight of each bin

const STAGE_DONE: u32 = 0u; // nothing left to do
const STAGE_CUT: u32 = 1u; // find where the kept ones end, then draw
const STAGE_DRAW: u32 = 2u;

// Lists have counts of their own: those of the two rounds, then this one's.
const TOPS: u32 = 2u;
