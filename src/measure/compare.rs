//! The direct path to a server beside the public one.

use serde::Serialize;

use super::diagnose::{Diagnosis, Hop, Verdict, diagnose, single};
use super::timeline::{Marks, Timeline};

/// What the public path adds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// Of the direct path.
    pub direct: Diagnosis,
    /// Of the public path.
    pub public: Diagnosis,
    /// The hop that makes the difference, where only one fits.
    pub hop: Option<Hop>,
    /// All that fit; none where there is no difference.
    pub hops: Vec<Hop>,
    /// What both paths have, if one of them is held back anyway.
    pub shared: Vec<Hop>,
    /// The reason as a sentence.
    pub because: &'static str,
    /// How much later the first text comes, from the request on.
    pub added_first_text_ms: Option<f64>,
    /// How much later the last text comes.
    pub added_last_text_ms: Option<f64>,
}

/// Compares an exchange with the server itself and the same one through all that the public
/// goes through.
#[must_use]
pub fn compare(direct: &Timeline, public: &Timeline) -> Comparison {
    let found = (diagnose(direct), diagnose(public));
    let (hops, shared, because) = difference(&found.0, &found.1, direct.marks, public.marks);
    let since = |seen: &Timeline, at: Option<f64>| Some(at? - seen.request_ms);
    let added = |of: fn(&Timeline) -> Option<f64>| {
        Some(since(public, of(public))? - since(direct, of(direct))?)
    };
    Comparison {
        direct: found.0,
        public: found.1,
        hop: single(&hops),
        hops,
        shared,
        because,
        added_first_text_ms: added(Timeline::first_text_ms),
        added_last_text_ms: added(Timeline::last_text_ms),
    }
}

type Difference = (Vec<Hop>, Vec<Hop>, &'static str);

fn difference(
    direct: &Diagnosis,
    public: &Diagnosis,
    direct_marks: Option<Marks>,
    public_marks: Option<Marks>,
) -> Difference {
    let none = |because| (Vec::new(), Vec::new(), because);
    match (direct.verdict, public.verdict) {
        (_, Verdict::Healthy) => none("The public path is healthy."),
        (_, Verdict::Unclear) => none("The public path cannot be judged."),
        (Verdict::Healthy, _) => {
            let marked = newly_marked(&public.hops, direct_marks, public_marks);
            let because = "Only the public path does it.";
            let hops = match marked {
                Some(marked) if !marked.is_empty() => marked,
                Some(_) => public.hops.clone(),
                // Without headers to tell by: server and program are the same on both paths.
                None => without(&public.hops, &[Hop::Framework, Hop::Client]),
            };
            (hops, Vec::new(), because)
        }
        (Verdict::Buffered, Verdict::Buffered) => {
            // Nothing stands between a server and who asks it directly.
            let shared = without(&direct.hops, &[Hop::Proxy, Hop::Cdn]);
            let hops = without(&public.hops, &direct.hops);
            let hops = without(&hops, &[Hop::Framework, Hop::Client]);
            (hops, shared, "The direct path is held back too.")
        }
        _ => {
            let because = "The direct path is not healthy either: nothing can be left out.";
            (public.hops.clone(), Vec::new(), because)
        }
    }
}

fn without(hops: &[Hop], left_out: &[Hop]) -> Vec<Hop> {
    let rest = hops.iter().filter(|hop| !left_out.contains(hop));
    rest.copied().collect()
}

/// Those that show in the headers of the public path alone; `None` where headers cannot be read.
fn newly_marked(hops: &[Hop], direct: Option<Marks>, public: Option<Marks>) -> Option<Vec<Hop>> {
    let (direct, public) = (direct?, public?);
    let is_new = |hop: &&Hop| match hop {
        Hop::Proxy => public.proxy && !direct.proxy,
        Hop::Compression => public.compression && !direct.compression,
        Hop::Cdn => public.cdn && !direct.cdn,
        _ => false,
    };
    Some(hops.iter().filter(is_new).copied().collect())
}
